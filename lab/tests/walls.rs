//! The walls of the house, as the build sees them: who may know whom, and what deciding must never pull in.

use std::collections::BTreeSet;
use std::process::Command;

/// Everything a crate pulls in when it is built for use.
fn tree(name: &str, depth: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--package", name, "--edges", "normal,build", "--prefix", "none", "--depth", depth])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).filter(|found| *found != name).map(str::to_owned).collect();
    names
}

#[test]
fn deciding_pulls_in_no_runtime_no_http_no_sql() {
    let banned = [
        "tokio",
        "async-std",
        "smol",
        "futures",
        "futures-core",
        "futures-util",
        "hyper",
        "reqwest",
        "axum",
        "tonic",
        "rusqlite",
        "libsqlite3-sys",
        "tokio-postgres",
    ];
    for name in ["evidence", "graph", "flows", "wire", "verifier"] {
        let all = tree(name, "99");
        let found: Vec<&str> = banned.into_iter().filter(|crate_name| all.contains(*crate_name)).collect();
        assert!(found.is_empty(), "{name} pulls in {found:?}");
    }
}

#[test]
fn sql_lives_in_store_and_http_in_server_and_world() {
    for name in ["graph", "flows", "wire", "world", "server"] {
        assert!(!tree(name, "1").contains("rusqlite"), "{name} knows SQL");
    }
    for name in ["graph", "flows", "wire", "store", "engine"] {
        let direct = tree(name, "1");
        for http in ["hyper", "reqwest", "axum", "tonic"] {
            assert!(!direct.contains(http), "{name} knows {http}");
        }
    }
}

#[test]
fn each_crate_knows_only_its_own_neighbours() {
    let ours: BTreeSet<&str> =
        ["evidence", "graph", "flows", "wire", "index", "tools", "world", "store", "engine", "server", "verifier", "cli", "lab"].into();
    let may_know: [(&str, &[&str]); 12] = [
        ("evidence", &[]),
        ("verifier", &["evidence"]),
        ("index", &[]),
        ("tools", &["evidence", "index"]),
        ("graph", &[]),
        ("flows", &["evidence", "graph"]),
        ("wire", &[]),
        ("world", &["evidence", "graph", "index", "tools", "wire"]),
        ("store", &["graph"]),
        ("engine", &["graph", "store", "world"]),
        ("server", &["engine", "evidence", "graph", "store", "wire", "world"]),
        ("cli", &["evidence", "graph", "flows", "index", "tools", "wire", "world", "store", "engine", "server", "verifier"]),
    ];
    for (name, allowed) in may_know {
        let known: Vec<String> =
            tree(name, "1").into_iter().filter(|found| ours.contains(found.as_str()) && !allowed.contains(&found.as_str())).collect();
        assert!(known.is_empty(), "{name} may not know {known:?}");
    }
}
