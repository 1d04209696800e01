//! The behaviours of the specification and the tests that assert them.
//!
//! `lab/tests/spec/*.md` has one section per item (S1 … X6). Under it are the behaviours, one sentence each, as the tests assert them, with the names of these tests:
//!
//! ```text
//! ## S1 exactly two model calls per query
//!
//! - A plan of 1 to 20 tasks leads to exactly two model calls.
//!   - `s1_two_model_calls_however_many_tasks`
//! - A sentence about something that no test asserts yet.
//!   - later: why, and when
//! ```
//!
//! A name that several files have is followed by the folder or file that is meant: `` - `all_goes_well` in crates/flows/src/search ``. A name may also be a script that
//! `./check` runs: `lab/peers/langserve`.
//!
//! The test fails if an item is missing, a behaviour has no test, a named test does not exist or is not run, or a test whose name begins with an item is listed nowhere.
//! It prints a table, which `./check` ends with.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The groups of the specification and the number of items in each.
const GROUPS: [(&str, u32); 6] = [("S", 13), ("C", 10), ("R", 16), ("P", 9), ("K", 9), ("X", 6)];

#[test]
fn every_behaviour_has_a_test_and_every_test_of_an_item_a_behaviour() {
    let mut items = Vec::new();
    let mut problems = Vec::new();
    for file in files(&root().join("lab/tests/spec"), "md") {
        match parse(&fs::read_to_string(&file).unwrap()) {
            Ok(parsed) => items.extend(parsed),
            Err(why) => problems.push(format!("{}: {why}", shown(&file))),
        }
    }
    let (tests, mut others) = tests();
    problems.append(&mut others);
    problems.extend(compare(&items, &tests));
    println!("\n{}", table(&items));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// The specification itself is not part of the repository; if it is beside it, the items are compared with it.
#[test]
fn the_items_are_those_of_the_specification() {
    let Ok(text) = fs::read_to_string(root().join("../shared/spec.md")) else { return };
    let is_item = |word: &&str| item(&format!("{}_", word.to_lowercase())).is_some();
    let named: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("- ")?.split(' ').next()).filter(is_item).collect();
    let known = expected();
    assert_eq!(named, known.iter().map(String::as_str).collect(), "GROUPS is not what spec.md has");
}

/// Each kind of mistake is detected.
#[test]
fn mistakes_are_reported() {
    let test = |name: &str, path: &str| FoundTest { name: name.into(), path: path.into() };
    let found = [test("s1_calls", "a/x.rs"), test("same", "a/x.rs"), test("same", "b/y.rs"), test("s1_unlisted", "a/x.rs")];
    let check = |text: &str| compare(&parse(text).unwrap(), &found).join("\n");
    let text =
        "# Search\nWords.\n\n## S1 two calls\n\n- It calls twice,\n  not more.\n  - `s1_calls`\n  - `same` in b\n- Not yet.\n  - later: issue 17\n";
    let items = parse(text).unwrap();
    assert_eq!(items[0].behaviours[0].sentence, "It calls twice, not more.");
    assert_eq!((items[0].covered(), items[0].behaviours.len()), (1, 2));
    assert_eq!(table(&items), "item   asserted  what\nS1          1/2  two calls (later: issue 17)\n");
    let report = check(text);
    assert!(!report.contains("S1:"), "{report}");
    for expected in ["a/x.rs: s1_unlisted is listed under no behaviour", "S2 is missing", "X6 is missing"] {
        assert!(report.contains(expected), "{report}");
    }
    for (text, expected) in [
        ("## S1 a\n- Nobody asserts it.\n", "S1: \"Nobody asserts it.\" has no test"),
        ("## S1 a\n- Both.\n  - `s1_calls`\n  - later: x\n", "S1: \"Both.\" has tests and is marked as later"),
        ("## S1 a\n- Gone.\n  - `s1_gone`\n", "S1: there is no test s1_gone"),
        ("## S1 a\n- Two.\n  - `same`\n", "S1: several files have a test same (a/x.rs, b/y.rs); write which is meant"),
        ("## S1 a\n- Two.\n  - `same` in c\n", "S1: there is no test same in c"),
        ("## S1 a\n", "S1 has no behaviours"),
        ("## S1 a\n- A.\n  - `s1_calls`\n## S1 b\n- B.\n  - `s1_calls`\n", "S1 is there twice"),
        ("## S99 a\n- A.\n  - `s1_calls`\n", "S99 is no item of the specification"),
    ] {
        assert!(check(text).contains(expected), "{text}: {}", check(text));
    }
    for (text, expected) in [
        ("- A.\n", "line 1: a behaviour before the first item"),
        ("## S1 a\n  - `x`\n", "line 2: a test before the first behaviour"),
        ("## S1 a\n- A.\n  - x\n", "line 3: neither `name` nor later: reason"),
        ("## S1 a\n- A.\n  - later:\n", "line 3: neither `name` nor later: reason"),
        ("## S1\n", "line 1: an item has a name and a title"),
    ] {
        assert_eq!(parse(text).err().as_deref(), Some(expected), "{text}");
    }
}

/// Tests and functions that only look like tests.
#[test]
fn tests_are_functions_that_are_run() {
    let text = "#[test]\nfn s1_one() {\n}\n/// Words.\n#[tokio::test(flavor = \"x\")]\n#[allow(clippy::y)]\npub async fn two() {}\n#[cfg(test)]\nfn three() {}\n\
                #[ignore = \"needs x\"]\n#[test]\nfn four() {}\n// fn s1_five() {}\n#[test]\n\nfn six() {}\n    #[test]\n    fn seven(a: u8) {}\n";
    let names = |text: &str| functions(text).into_iter().filter(|(_, is_test)| *is_test).map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(text), ["s1_one", "two", "seven"]);
    assert_eq!(names("fn main() {\n    called();\n}\nfn called() {}\nfn other() {}\n"), ["called"]);
    assert_eq!(item("s10_words"), Some("S10".to_owned()));
    for other in ["s_words", "sx1_words", "state", "t1_words", "s1"] {
        assert_eq!(item(other), None, "{other}");
    }
}

/// A test that is never run is an error.
#[test]
fn every_suite_stands_in_check() {
    let check = fs::read_to_string(root().join("check")).unwrap();
    let words: Vec<&str> = check.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let peers = scripts();
    for krate in fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).chain([root().join("lab")]) {
        let Ok(suites) = fs::read_dir(krate.join("tests")) else { continue };
        for suite in suites.map(|entry| entry.unwrap().path()) {
            let is_suite = suite.extension().is_some_and(|kind| kind == "rs") || suite.join("main.rs").exists();
            let name = suite.file_stem().unwrap().to_str().unwrap().to_owned();
            // Tests that need third-party programs are run by the scripts that install them.
            let is_run = words.contains(&name.as_str()) || peers.contains(&format!("--test {name}"));
            assert!(!is_suite || is_run, "`./check` does not run {}", suite.display());
        }
    }
}

fn scripts() -> String {
    let files = fs::read_dir(root().join("lab/peers")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// One item of the specification.
#[derive(Debug)]
struct Item {
    name: String,
    title: String,
    behaviours: Vec<Behaviour>,
}

#[derive(Debug)]
struct Behaviour {
    sentence: String,
    tests: Vec<NamedTest>,
    /// Why no test asserts it yet.
    later: Option<String>,
}

#[derive(Debug)]
struct NamedTest {
    name: String,
    /// The folder or file, if several have a test of this name.
    place: Option<String>,
}

struct FoundTest {
    name: String,
    /// Relative to the repository.
    path: String,
}

impl Item {
    fn covered(&self) -> usize {
        self.behaviours.iter().filter(|behaviour| behaviour.later.is_none()).count()
    }
}

fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut items: Vec<Item> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}", at + 1);
        if let Some(heading) = line.strip_prefix("## ") {
            let (name, title) = heading.split_once(' ').ok_or_else(|| wrong("an item has a name and a title"))?;
            items.push(Item { name: name.to_owned(), title: title.trim().to_owned(), behaviours: Vec::new() });
        } else if let Some(sentence) = line.strip_prefix("- ") {
            let item = items.last_mut().ok_or_else(|| wrong("a behaviour before the first item"))?;
            item.behaviours.push(Behaviour { sentence: sentence.trim().to_owned(), tests: Vec::new(), later: None });
        } else if let Some(rest) = line.strip_prefix("  ") {
            let behaviour = items.last_mut().and_then(|item| item.behaviours.last_mut()).ok_or_else(|| wrong("a test before the first behaviour"))?;
            let Some(entry) = rest.strip_prefix("- ") else {
                behaviour.sentence = format!("{} {}", behaviour.sentence, rest.trim());
                continue;
            };
            let reason = entry.strip_prefix("later:").map(str::trim).filter(|reason| !reason.is_empty());
            match (named_test(entry), reason) {
                (Some(test), _) => behaviour.tests.push(test),
                (None, Some(reason)) => behaviour.later = Some(reason.to_owned()),
                (None, None) => return Err(wrong("neither `name` nor later: reason")),
            }
        }
    }
    Ok(items)
}

/// `` `name` `` or `` `name` in folder ``.
fn named_test(entry: &str) -> Option<NamedTest> {
    let (name, place) = entry.strip_prefix('`')?.split_once('`')?;
    let place = place.strip_prefix(" in ").map(|place| place.trim().to_owned());
    Some(NamedTest { name: name.to_owned(), place })
}

/// All problems of the items and the tests.
fn compare(items: &[Item], found: &[FoundTest]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let mut listed = BTreeSet::new();
    let expected = expected();
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in found {
        paths.entry(test.name.as_str()).or_default().push(test.path.as_str());
    }
    for item in items {
        let name = &item.name;
        if !expected.contains(name) {
            problems.push(format!("{name} is no item of the specification"));
        }
        if !seen.insert(name.as_str()) {
            problems.push(format!("{name} is there twice"));
        }
        if item.behaviours.is_empty() {
            problems.push(format!("{name} has no behaviours"));
        }
        for Behaviour { sentence, tests, later } in &item.behaviours {
            match (tests.is_empty(), later) {
                (true, None) => problems.push(format!("{name}: {sentence:?} has no test")),
                (false, Some(_)) => problems.push(format!("{name}: {sentence:?} has tests and is marked as later")),
                _ => {}
            }
            for test in tests {
                listed.insert(test.name.as_str());
                let all = paths.get(test.name.as_str()).map(Vec::as_slice).unwrap_or_default();
                let is_meant = |path: &&&str| test.place.as_deref().is_none_or(|place| path.starts_with(place));
                let place = test.place.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
                match all.iter().filter(is_meant).count() {
                    0 => problems.push(format!("{name}: there is no test {}{place}", test.name)),
                    1 => {}
                    _ => problems.push(format!("{name}: several files have a test {} ({}); write which is meant", test.name, all.join(", "))),
                }
            }
        }
    }
    problems.extend(expected.iter().filter(|item| !seen.contains(item.as_str())).map(|item| format!("{item} is missing")));
    for FoundTest { name, path } in found {
        match item(name) {
            Some(item) if !expected.contains(&item) => problems.push(format!("{path}: {name} begins with {item}, which is no item")),
            Some(_) if !listed.contains(name.as_str()) => problems.push(format!("{path}: {name} is listed under no behaviour in lab/tests/spec")),
            _ => {}
        }
    }
    problems
}

/// One line per item: the number of behaviours that tests assert.
fn table(items: &[Item]) -> String {
    let place = |item: &Item| {
        let (group, number) = item.name.split_at_checked(1).unwrap_or_default();
        (GROUPS.iter().position(|(name, _)| *name == group), number.parse::<u32>().ok())
    };
    let mut sorted: Vec<&Item> = items.iter().collect();
    sorted.sort_by_key(|item| place(item));
    let mut table = String::from("item   asserted  what\n");
    for item in sorted {
        let mut later: Vec<&str> = item.behaviours.iter().filter_map(|behaviour| behaviour.later.as_deref()).collect();
        later.dedup();
        let later = if later.is_empty() { String::new() } else { format!(" (later: {})", later.join("; ")) };
        let share = format!("{}/{}", item.covered(), item.behaviours.len());
        writeln!(table, "{:<5} {share:>9}  {}{later}", item.name, item.title).unwrap();
    }
    table
}

fn expected() -> BTreeSet<String> {
    GROUPS.iter().flat_map(|(group, count)| (1..=*count).map(move |number| format!("{group}{number}"))).collect()
}

/// All tests, and functions that have an item in their name but are not run.
fn tests() -> (Vec<FoundTest>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for file in ["crates", "lab"].iter().flat_map(|folder| files(&root().join(folder), "rs")) {
        // Store promises are functions in a list; a macro makes a test of each.
        let list = fs::read_to_string(file.with_file_name("list.rs")).ok().filter(|text| text.contains("promises! {")).unwrap_or_default();
        for (name, has_test) in functions(&fs::read_to_string(&file).unwrap()) {
            if has_test || list.lines().any(|line| line.trim().strip_suffix(',') == Some(&name)) {
                found.push(FoundTest { name, path: shown(&file) });
            } else if item(&name).is_some() {
                problems.push(format!("{}: {name} carries an item and is no test that runs", shown(&file)));
            }
        }
    }
    // Those of the page are in JavaScript.
    let is_suite = |file: &PathBuf| file.to_str().is_some_and(|name| name.ends_with(".test.mjs"));
    for file in files(&root().join("lab/browser"), "mjs").into_iter().filter(is_suite) {
        let text = fs::read_to_string(&file).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("test(\"")?.split('"').next());
        found.extend(names.map(|name| FoundTest { name: name.to_owned(), path: shown(&file) }));
    }
    // Third-party programs are driven by scripts.
    let check = fs::read_to_string(root().join("check")).unwrap();
    let peers = check.split_whitespace().filter(|word| word.starts_with("lab/peers/") && root().join(word).is_file());
    found.extend(peers.collect::<BTreeSet<_>>().into_iter().map(|peer| FoundTest { name: peer.to_owned(), path: peer.to_owned() }));
    (found, problems)
}

/// The functions of a source file, and whether each is a test that runs: it has a test attribute and is not ignored, or a harness's `main`
/// calls it.
fn functions(text: &str) -> Vec<(String, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let attributes: Vec<&&str> = lines[..at].iter().rev().take_while(|above| above.starts_with("#[") || above.starts_with("//")).collect();
        let has_test = attributes.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
        let is_ignored = attributes.iter().any(|line| line.starts_with("#[ignore"));
        // A harness may have its `main` in another file, which calls `run` in this one.
        let has_harness = text.contains("fn main()") || text.contains("pub(crate) fn run()");
        let is_called = has_harness && name != "main" && text.matches(&format!("{name}()")).count() > 1;
        found.push((name.to_owned(), (has_test && !is_ignored) || is_called));
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// `s1_two_calls` belongs to S1.
fn item(name: &str) -> Option<String> {
    let (item, _) = name.split_once('_')?;
    let (letter, number) = item.split_at_checked(1)?;
    let is_group = GROUPS.iter().any(|(group, _)| group.to_lowercase() == letter);
    (is_group && number.parse::<u32>().is_ok()).then(|| item.to_uppercase())
}

/// The files below a folder with this ending, sorted.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry, ending));
        } else if entry.extension().is_some_and(|kind| kind == ending) {
            found.push(entry);
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
