//! Folders with real files of every format, changed, damaged and hostile; without weights and network.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use baton_index::{Answer, Error, Folders, Limits, Model, Report, State};
use sha2::{Digest as _, Sha256};

use support::TestFolder;

impl TestFolder {
    /// A copy of the files beside this test.
    fn with_files() -> Self {
        let place = TestFolder::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), place.folder.path().join(entry.file_name())).unwrap();
        }
        place
    }

    fn open(&self) -> Folders {
        self.open_with(&Model::none(), Limits::default())
    }

    fn open_with(&self, model: &Model, limits: Limits) -> Folders {
        Folders::open(&[self.folder.path().into()], self.home.path(), model, limits).unwrap()
    }
}

fn refresh(folders: &Folders) -> Report {
    folders.refresh(&mut |_| ()).unwrap()
}

/// The first passage: file name and location.
fn first(answer: &Answer) -> Option<(String, String)> {
    let hit = answer.hits.first()?;
    Some((Path::new(&hit.file).file_name().unwrap().to_string_lossy().into_owned(), hit.passage.place().unwrap_or_default()))
}

fn check(folders: &Folders, question: &str, file: &str, place: &str) {
    let answer = folders.search(question, 5).unwrap();
    assert_eq!(first(&answer), Some((file.into(), place.into())), "{question}: {answer:#?}");
}

fn counts(report: &Report) -> [usize; 4] {
    [report.added, report.changed, report.removed, report.unchanged]
}

#[test]
fn every_format_is_found_with_its_place() {
    let place = TestFolder::with_files();
    let folders = place.open();
    let report = refresh(&folders);
    assert_eq!((report.files, report.skipped.len()), (6, 0), "{report:?}");
    for (question, file, place) in [
        ("What does the lamp burn?", "lighthouse.md", "Lighthouse > Lamp, line 7"),
        ("shelf of the lens", "lighthouse.md", "Lighthouse > Lamp > Spare parts, lines 11-14"),
        ("Where does the key hang?", "boathouse.html", "Boathouse > Keys, line 9"),
        ("fog in the north", "weather.txt", "lines 1-6"),
        ("When are harbour dues collected?", "harbour.pdf", "page 2"),
        ("pilot of large ships", "harbour.pdf", "page 1"),
        ("feeding the sourdough starter", "bakery.docx", "Bakery handbook > Sourdough, paragraph 4"),
        ("price of a rye loaf", "bakery.docx", "Bakery handbook > Sourdough > Prices, paragraphs 7-9"),
        ("next_high_water", "tide.rs", "Port > nextHighWater, lines 9-13"),
        ("springTideOffset", "tide.rs", "spring_tide_offset, lines 15-17"),
    ] {
        check(&folders, question, file, place);
    }
    assert_eq!(folders.search("never read this tracked", 5).unwrap().hits.iter().filter(|hit| hit.passage.text.contains("tracked")).count(), 0);
}

#[test]
fn only_what_changed_is_read_again() {
    let place = TestFolder::new();
    place.write("a.md", "# Apples\n\nRed ones.\n");
    place.write("b.md", "# Berries\n\nBlue ones.\n");
    place.write("deep/c.txt", "Cherries are in a sub-folder.\n");
    let folders = place.open();
    assert_eq!(counts(&refresh(&folders)), [3, 0, 0, 0]);
    assert_eq!(counts(&refresh(&folders)), [0, 0, 0, 3]);

    place.write("a.md", "# Apples\n\nGreen ones, sour.\n");
    fs::remove_file(place.folder.path().join("b.md")).unwrap();
    fs::rename(place.folder.path().join("deep"), place.folder.path().join("moved")).unwrap();
    place.write("d.md", "# Dates\n\nSweet ones.\n");
    // c.txt under its new name is an added file and a removed one.
    assert_eq!(counts(&refresh(&folders)), [2, 1, 2, 0]);
    check(&folders, "sour green", "a.md", "Apples, line 3");
    check(&folders, "cherries", "c.txt", "line 1");
    assert!(folders.search("cherries", 5).unwrap().hits[0].file.contains("moved"));
    for gone in ["berries blue", "red"] {
        assert_eq!(folders.search(gone, 5).unwrap().hits, [], "{gone}");
    }
    assert_eq!(folders.size(), (3, 3));

    drop(folders);
    let folders = place.open();
    check(&folders, "sweet dates", "d.md", "Dates, line 3");
    assert_eq!(counts(&refresh(&folders)), [0, 0, 0, 3]);
}

#[test]
fn what_is_hidden_ignored_or_a_link_is_not_looked_at() {
    let place = TestFolder::new();
    place.write(".gitignore", "build/\n*.log\n");
    place.write("build/out.md", "generated zebra\n");
    place.write("run.log", "zebra log\n");
    place.write(".hidden/note.md", "hidden zebra\n");
    place.write("note.md", "A plain note.\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/hostname", place.folder.path().join("link.txt")).unwrap();
    let folders = place.open();
    let report = refresh(&folders);
    assert_eq!((report.files, report.skipped.len()), (1, 0), "{report:?}");
    assert_eq!(folders.search("zebra", 5).unwrap().hits, []);
}

#[test]
fn hostile_files_are_left_out_with_a_reason_and_harm_nothing() {
    let place = TestFolder::with_files();
    let pdf = fs::read(place.folder.path().join("harbour.pdf")).unwrap();
    let docx = fs::read(place.folder.path().join("bakery.docx")).unwrap();
    // Truncated and bit-flipped at positions from a seed, which a failure prints.
    for seed in 0..40_usize {
        let mut bytes = if seed % 2 == 0 { pdf.clone() } else { docx.clone() };
        for step in 0..8 {
            let at = (seed * 7919 + step * 104_729) % bytes.len();
            bytes[at] ^= (seed + step) as u8 | 1;
        }
        if seed % 3 == 0 {
            bytes.truncate(bytes.len() * (seed + 1) / 50);
        }
        fs::write(place.folder.path().join(format!("bad{seed}.{}", if seed % 2 == 0 { "pdf" } else { "docx" })), bytes).unwrap();
    }
    fs::write(place.folder.path().join("binary.dat"), [0, 159, 146, 150]).unwrap();
    place.write("empty.md", "");
    place.write("deep.html", &"<div><ul><li>".repeat(50_000));
    place.write("deep.md", &"> ".repeat(20_000));
    place.write("brackets.md", &"[".repeat(50_000));
    place.write("large.txt", &"word ".repeat(400_000));
    let limits = Limits { file_bytes_max: 1 << 20, file_time_max: Duration::from_secs(20), ..Limits::default() };
    let folders = place.open_with(&Model::none(), limits);
    let report = refresh(&folders);
    let why = |name: &str| report.skipped.iter().find(|(file, _)| file.ends_with(name)).map(|(_, why)| why.to_string()).unwrap_or_default();
    assert_eq!(why("binary.dat"), "not text, and not a format that is read");
    assert_eq!(why("empty.md"), "nothing to read in it");
    assert_eq!(why("large.txt"), "larger than 1048576 bytes");
    assert!(why("bad0.pdf").starts_with("cannot be read"), "{}", why("bad0.pdf"));
    check(&folders, "What does the lamp burn?", "lighthouse.md", "Lighthouse > Lamp, line 7");
    // Unchanged files are not tried again.
    let mut read = 0;
    std::thread::sleep(Duration::from_millis(10));
    folders.refresh(&mut |step| read += usize::from(matches!(step, baton_index::Step::Reading { .. }))).unwrap();
    assert!(read <= report.files + report.skipped.len());
}

#[test]
fn a_damaged_index_is_built_anew() {
    let place = TestFolder::with_files();
    let folders = place.open();
    refresh(&folders);
    drop(folders);
    for entry in fs::read_dir(place.home.path().join("text")).unwrap() {
        fs::write(entry.unwrap().path(), "rubbish").unwrap();
    }
    let folders = place.open();
    assert_eq!(refresh(&folders).added, 6);
    check(&folders, "What does the lamp burn?", "lighthouse.md", "Lighthouse > Lamp, line 7");
}

#[test]
fn two_at_once_do_not_write_one_index() {
    let place = TestFolder::with_files();
    let (one, other) = (place.open(), place.open());
    let mut busy = 0;
    let report = one.refresh(&mut |step| {
        if matches!(step, baton_index::Step::Reading { .. }) {
            busy += usize::from(matches!(other.refresh(&mut |_| ()), Err(Error::Busy)));
        }
    });
    assert_eq!((report.unwrap().added, busy), (6, 6));
    assert_eq!(refresh(&other).added, 6);
    assert!(one.search("lamp", 1).is_ok() && other.search("lamp", 1).is_ok());
}

#[test]
fn without_vectors_full_text_answers_and_the_reply_states_that() {
    let place = TestFolder::with_files();
    let folders = place.open_with(&Model::none(), Limits::default());
    refresh(&folders);
    check(&folders, "What does the lamp burn?", "lighthouse.md", "Lighthouse > Lamp, line 7");
    assert_eq!(folders.wait(Duration::from_secs(60)).state, State::Off);
    let lists: Vec<&str> = folders.search("lamp", 1).unwrap().lists.iter().map(|list| list.name).collect();
    assert!(lists.contains(&"full text") && !lists.contains(&"vectors"), "{lists:?}");
}

#[test]
fn nothing_asked_is_nothing_found() {
    let place = TestFolder::with_files();
    let folders = place.open();
    assert_eq!(folders.search("before anything is indexed", 5).unwrap().hits, []);
    refresh(&folders);
    for question in ["", "   ", "the of and", "\u{0}\u{fffd}", &"x".repeat(100_000)] {
        assert_eq!(folders.search(question, 5).unwrap().hits, []);
    }
    assert_eq!(folders.search("lamp", 0).unwrap().hits, []);
}

#[test]
fn excerpts_are_bounded() {
    let place = TestFolder::with_files();
    place.write("long.txt", &"a line of text\n".repeat(1000));
    let folders = place.open_with(&Model::none(), Limits { excerpt_bytes_max: 100, ..Limits::default() });
    refresh(&folders);
    let excerpt = folders.read("long.txt", Some(10), None).unwrap();
    assert_eq!((excerpt.place.to_string(), excerpt.total, excerpt.is_cut), ("lines 10-15".into(), 1000, true));
    let page = folders.read("harbour.pdf", Some(2), Some(2)).unwrap();
    assert!(page.text.contains("customs house") && !page.text.contains("pilot"), "{page:?}");
    assert!(matches!(folders.read("nothing.txt", None, None), Err(Error::NotHere(_))));
}

#[test]
fn a_file_whose_reading_ended_the_process_twice_is_skipped_until_it_changes() {
    let place = TestFolder::with_files();
    let file = fs::canonicalize(place.folder.path().join("harbour.pdf")).unwrap();
    let name = file.to_str().unwrap();
    let hash: String = Sha256::digest(fs::read(&file).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    let left_behind = |times: u32| {
        let attempt = serde_json::json!({ "file": name, "hash": hash });
        let interrupted = serde_json::json!({ name: { "hash": hash, "times": times } });
        let log = serde_json::json!({ "reading": attempt, "interrupted": interrupted });
        fs::write(place.home.path().join("reading.json"), log.to_string()).unwrap();
    };
    left_behind(0);
    let report = refresh(&place.open());
    assert_eq!((report.files, report.skipped.len()), (6, 0), "once may have been a person: {report:?}");

    fs::remove_dir_all(place.home.path()).unwrap();
    fs::create_dir(place.home.path()).unwrap();
    left_behind(1);
    let folders = place.open();
    let report = refresh(&folders);
    let why = report.skipped.get(name).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("ended twice") && why.contains("until it changes"), "{report:?}");
    assert_eq!((report.files, refresh(&folders).skipped.len()), (5, 1));
    let mut changed = fs::read(&file).unwrap();
    changed.extend(b"\n% changed\n");
    fs::write(&file, changed).unwrap();
    assert_eq!(refresh(&folders).files, 6);
}

#[test]
fn heading_paths_do_not_multiply_with_the_blocks_under_them() {
    let place = TestFolder::new();
    place.write("long.md", &format!("# {}\n\n{}", "h".repeat(500_000), "a\n\n".repeat(100_000)));
    let folders = place.open();
    assert_eq!(refresh(&folders).files, 1);
    let hit = &folders.search("a h", 1).unwrap();
    assert!(hit.hits.iter().all(|hit| hit.passage.title.len() <= 300));
}
