//! `baton new flow`: what it creates and what it rejects. `lab/new-flow` builds and runs the crate; its sources are an example of `baton`.

use std::fs;

use crate::Home;

#[test]
fn a_crate_is_created_once_and_names_the_sources() {
    let home = Home::new();
    let folder = home.folder.path().join("deep/tides");
    let path = folder.to_str().unwrap();
    // The binary under test is in the target folder of the sources, or is given their path.
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = home.well(&["new", "flow", "my-tides", "--path", path, "--baton", sources]);
    assert!(output.out.contains("created") && output.out.contains("cargo test"), "{}", output.out);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-tides\"") && manifest.contains("crates/baton"), "{manifest}");
    assert!(folder.join("Cargo.lock").is_file() && folder.join("src/answer.md").is_file());
    assert!(fs::read_to_string(folder.join("README.md")).unwrap().contains("not on crates.io"));
    assert!(fs::read_to_string(folder.join("src/flow.rs")).unwrap().contains("\"my_tides\""));
    let left: Vec<_> = fs::read_dir(folder.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tides"], "nothing is left beside it");

    home.baton(&["new", "flow", "my-tides", "--path", path, "--baton", sources]).complains(2, &["exists already", "--path"]);
    assert_eq!(fs::read_to_string(folder.join("Cargo.toml")).unwrap(), manifest, "it is not touched");
}

#[test]
fn wrong_names_and_sources_are_refused_before_anything_is_written() {
    let home = Home::new();
    let path = home.folder.path().join("new");
    let place = path.to_str().unwrap();
    for (name, complaint) in [("1st", "beginning with a letter"), ("../x", "cannot be the name"), ("fn", "reserved word"), ("baton", "reserved word")]
    {
        home.baton(&["new", "flow", name, "--path", place]).complains(2, &[complaint]);
    }
    let empty = home.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    home.baton(&["new", "flow", "tides", "--path", place, "--baton", empty.to_str().unwrap()]).complains(2, &["no package `baton`", "crates/baton"]);
    home.baton(&["new", "flow", "tides", "--path", place, "--baton-version", "latest"]).complains(2, &["is not a version"]);
    assert!(!path.exists());
    home.well(&["new", "flow", "tides", "--path", place, "--baton-version", "0.1"]);
    assert!(fs::read_to_string(path.join("Cargo.toml")).unwrap().contains("version = \"0.1\""));
}
