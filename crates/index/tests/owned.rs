//! Files of several users in one index: what each of them finds and reads.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use baton_index::{Folders, Limits, Model, OwnedFolder};

use support::TestFolder;

impl TestFolder {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The folders `shared` and `uploads`; each user has one below `uploads`.
    fn open(&self) -> Folders {
        let uploads = self.path("uploads");
        let folders = Folders::open(&[self.path("shared"), uploads.clone()], self.home.path(), &Model::none(), Limits::default()).unwrap();
        let folders = folders.with_owned(OwnedFolder::new(&uploads, str::to_owned).unwrap());
        folders.refresh(&mut |_| ()).unwrap();
        folders
    }
}

fn names(folders: &Folders, user: Option<&str>, question: &str) -> Vec<String> {
    let hits = folders.search_for(user, question, 5).unwrap().hits;
    hits.iter().map(|hit| Path::new(&hit.file).file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn each_user_finds_and_reads_what_is_shared_and_their_own() {
    let place = TestFolder::new();
    place.write("shared/guide.md", "# Guide\n\nThe lantern is for everybody.\n");
    place.write("uploads/ada/ada.md", "# Mine\n\nThe lantern of Ada is green.\n");
    place.write("uploads/bob/secret.md", "# Mine\n\nThe lantern of Bob is red.\n");
    let folders = place.open();
    for (user, own) in [(Some("ada"), Some("ada.md")), (Some("bob"), Some("secret.md")), (Some("eve"), None), (None, None)] {
        let mut found = names(&folders, user, "lantern");
        found.sort();
        let mut expected: Vec<&str> = own.into_iter().chain(["guide.md"]).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{user:?}");
    }
    let theirs = place.path("uploads/bob/secret.md");
    for file in [
        "bob/secret.md",
        "secret.md",
        "../bob/secret.md",
        "uploads/bob/secret.md",
        "ada/../bob/secret.md",
        theirs.to_str().unwrap(),
        place.path("uploads/ada/../bob/secret.md").to_str().unwrap(),
        place.path("shared/../uploads/bob/secret.md").to_str().unwrap(),
    ] {
        for user in [Some("ada"), Some("uploads"), Some(""), None] {
            let error = folders.read_for(user, file, None, None).unwrap_err().to_string();
            assert!(error.contains("use a path that a search gave"), "{user:?} {file}: {error}");
        }
    }
    for (user, file) in [("bob", theirs.to_str().unwrap()), ("bob", "secret.md"), ("ada", "ada.md"), ("ada", "guide.md")] {
        assert!(folders.read_for(Some(user), file, None, None).unwrap().text.contains("lantern"), "{user} {file}");
    }
    assert!(folders.search("lantern", 5).unwrap().hits.iter().all(|hit| hit.file.ends_with("guide.md")), "without a user, what is everybody's");
}

#[cfg(unix)]
#[test]
fn a_link_in_ones_own_folder_does_not_lead_to_anothers() {
    let place = TestFolder::new();
    place.write("shared/guide.md", "# Guide\n");
    place.write("uploads/ada/link.md", "# Mine\n\nTo be replaced.\n");
    place.write("uploads/bob/secret.md", "# Mine\n\nThe lantern of Bob is red.\n");
    let folders = place.open();
    fs::remove_file(place.path("uploads/ada/link.md")).unwrap();
    std::os::unix::fs::symlink(place.path("uploads/bob/secret.md"), place.path("uploads/ada/link.md")).unwrap();
    assert!(folders.read_for(Some("ada"), "link.md", None, None).is_err());
}

#[test]
fn many_files_of_one_user_take_no_place_of_anothers() {
    let place = TestFolder::new();
    place.write("shared/guide.md", "# Guide\n");
    for number in 0..150 {
        place.write(&format!("uploads/eve/{number}.md"), "# Lantern\n\nLantern lantern lantern lantern.\n");
    }
    place.write(
        "uploads/ada/long.md",
        &format!("# Notes\n\nSomewhere in this long text a lantern is named once. {}\n", "Other words follow here. ".repeat(30)),
    );
    let folders = place.open();
    assert_eq!(names(&folders, Some("ada"), "lantern"), ["long.md"]);
    assert_eq!(names(&folders, Some("eve"), "lantern").len(), 5);
}
