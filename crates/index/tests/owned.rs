//! Files of several users in one index: what each of them finds and reads.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use baton_index::{
    Document, Folders, InProcess, Limits, Model, OwnedFolder, Passage, PassageKey, ReadLimits, Reader, RefreshWatcher, Report, SharedPassages,
    SharedVectors, SharedWork, Skipped,
};

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

/// Reads files named `hostile` only on request; two files at a time.
struct Slow {
    gate: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    begun: std::sync::mpsc::SyncSender<()>,
}

impl Reader for Slow {
    fn read(&self, path: &Path, bytes: Vec<u8>, limits: ReadLimits) -> Result<Document, Skipped> {
        if path.to_string_lossy().contains("hostile") {
            let _ = self.begun.send(());
            self.gate.lock().unwrap().recv().unwrap();
            return Err(Skipped::TooSlow { seconds_max: 1 });
        }
        // Long files of this test are text.
        baton_index::read_document(&path.with_extension("md"), &bytes, limits)
    }

    fn at_once_max(&self) -> usize {
        2
    }
}

struct Follow {
    is_changed: std::sync::Arc<std::sync::atomic::AtomicBool>,
    committed: std::sync::mpsc::Sender<Report>,
}

impl RefreshWatcher for Follow {
    fn is_changed(&mut self) -> bool {
        self.is_changed.swap(false, std::sync::atomic::Ordering::SeqCst)
    }

    fn committed(&mut self, _: std::time::SystemTime, report: &Report) {
        let _ = self.committed.send(report.clone());
    }
}

#[test]
fn documents_of_others_are_indexed_while_a_hostile_one_occupies_a_reader() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    let place = TestFolder::new();
    place.write("shared/guide.md", "# Guide\n\nThe lantern is for everybody.\n");
    for number in 0..5 {
        place.write(&format!("uploads/mallory/hostile{number}.docx"), "x");
    }
    place.write("uploads/ada/notes.md", "# Mine\n\nThe lantern of Ada is green.\n");
    place.write("uploads/ada/long.docx", "# Long\n\nThe anchor of Ada is heavy.\n");
    let (open_gate, gate) = std::sync::mpsc::channel();
    let (begun, has_begun) = std::sync::mpsc::sync_channel(10);
    let (committed, commits) = std::sync::mpsc::channel();
    let uploads = place.path("uploads");
    let folders = Folders::open(&[place.path("shared"), uploads.clone()], place.home.path(), &Model::none(), Limits::default()).unwrap();
    let folders =
        folders.with_owned(OwnedFolder::new(&uploads, str::to_owned).unwrap()).with_reader(std::sync::Arc::new(Slow { gate: gate.into(), begun }));
    let is_changed = std::sync::Arc::new(AtomicBool::new(false));
    let mut follow = Follow { is_changed: is_changed.clone(), committed };
    let patience = Duration::from_secs(20);
    let wait_for = |file: &str| loop {
        let report = commits.recv_timeout(patience).unwrap_or_else(|_| panic!("{file} was not indexed meanwhile"));
        assert!(!report.waiting.is_empty(), "the hostile ones are still to be read");
        if !report.waiting.iter().any(|waiting| waiting.ends_with(file)) {
            return;
        }
    };
    std::thread::scope(|scope| {
        let refresh = scope.spawn(|| folders.refresh_watched(&mut follow).unwrap());
        has_begun.recv_timeout(patience).unwrap();
        wait_for("long.docx");
        assert_eq!(
            (names(&folders, Some("ada"), "green lantern")[0].as_str(), names(&folders, Some("ada"), "anchor")),
            ("notes.md", vec!["long.docx".to_owned()])
        );
        // One that is uploaded meanwhile.
        place.write("uploads/bob/new.docx", "# New\n\nThe sail of Bob is torn.\n");
        place.write("uploads/bob/new.md", "# New\n\nThe compass of Bob is bent.\n");
        is_changed.store(true, Ordering::SeqCst);
        while names(&folders, Some("bob"), "sail").is_empty() || names(&folders, Some("bob"), "compass").is_empty() {
            commits.recv_timeout(patience).unwrap();
        }
        assert!(!refresh.is_finished() && has_begun.try_recv().is_err(), "of mallory one is read at a time");
        (0..5).for_each(|_| open_gate.send(()).unwrap());
        let report = refresh.join().unwrap();
        assert_eq!((report.files, report.skipped.len(), report.waiting.len()), (5, 5, 0), "{report:?}");
    });
}

/// By content and way of reading; `None` while they are being read.
type ClaimedPassages = std::collections::BTreeMap<(String, String), Option<Vec<Passage>>>;

/// What two servers share, in memory, with a count of the files that were read.
#[derive(Default)]
struct MemoryWork {
    passages: std::sync::Mutex<ClaimedPassages>,
    keys: std::sync::atomic::AtomicUsize,
}

impl SharedWork for MemoryWork {
    fn passages(&self, hash: &str, content: &str, _may_wait: bool) -> SharedPassages {
        let mut all = self.passages.lock().unwrap();
        match all.entry((hash.to_owned(), content.to_owned())).or_insert(None) {
            Some(passages) => SharedPassages::Known(passages.clone()),
            None => SharedPassages::Ours,
        }
    }

    fn keep_passages(&self, hash: &str, content: &str, passages: &[Passage], keys: &[PassageKey]) {
        self.passages.lock().unwrap().insert((hash.to_owned(), content.to_owned()), Some(passages.to_vec()));
        self.keys.fetch_add(keys.len(), std::sync::atomic::Ordering::SeqCst);
    }

    fn release_passages(&self, hash: &str, content: &str) {
        self.passages.lock().unwrap().remove(&(hash.to_owned(), content.to_owned()));
    }

    fn vectors(&self, _keys: &[PassageKey]) -> SharedVectors {
        SharedVectors::default()
    }

    fn keep_vectors(&self, _vectors: &[(PassageKey, Vec<u8>)]) {}
}

struct Counting(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl Reader for Counting {
    fn read(&self, path: &Path, bytes: Vec<u8>, limits: ReadLimits) -> Result<Document, Skipped> {
        self.0.lock().unwrap().push(path.file_name().unwrap().to_string_lossy().into_owned());
        InProcess.read(path, bytes, limits)
    }
}

#[test]
fn of_two_servers_one_reads_an_upload_and_both_find_the_same() {
    let work = std::sync::Arc::new(MemoryWork::default());
    let servers = [TestFolder::new(), TestFolder::new()];
    let mut answers = Vec::new();
    let mut read = Vec::new();
    for place in &servers {
        place.write("shared/guide.md", "# Guide\n\nThe lantern is for everybody.\n");
        place.write("uploads/ada/ada.md", "# Mine\n\nThe lantern of Ada is green.\n\n# More\n\nAnother lantern hangs in the hall.\n");
        place.write("uploads/ada/broken.docx", "PK\u{3}\u{4} no document");
        let log = std::sync::Arc::default();
        let uploads = place.path("uploads");
        let folders = Folders::open(&[place.path("shared"), uploads.clone()], place.home.path(), &Model::none(), Limits::default()).unwrap();
        let folders = folders.with_owned(OwnedFolder::new(&uploads, str::to_owned).unwrap()).with_shared_work(work.clone());
        let folders = folders.with_reader(std::sync::Arc::new(Counting(std::sync::Arc::clone(&log))));
        folders.refresh(&mut |_| ()).unwrap();
        let hits = folders.search_for(Some("ada"), "lantern", 5).unwrap().hits;
        answers.push(hits.into_iter().map(|hit| (hit.passage, hit.score)).collect::<Vec<_>>());
        assert!(names(&folders, Some("bob"), "lantern") == ["guide.md"], "what is shared between servers is not shared between users");
        let mut files = log.lock().unwrap().clone();
        files.sort();
        read.push(files);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].len() >= 3, "{answers:?}");
    // A folder of one machine is read by each; what cannot be read is tried by each.
    assert_eq!(read[0], ["ada.md", "broken.docx", "guide.md"]);
    assert_eq!(read[1], ["broken.docx", "guide.md"]);
    assert!(work.keys.load(std::sync::atomic::Ordering::SeqCst) >= 2);
}
