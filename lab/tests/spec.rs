//! Which test stands for which item of the specification. A test carries its item in its name (`s1_…`, `k8_…`); here they are found in the
//! source, printed as a table (`./check` ends with it), and an item that is due and has none fails.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Every item, in a few words. What is not due yet says when it will be.
const ITEMS: [(&str, &str, Option<&str>); 53] = [
    ("S1", "two model calls, however many tasks", None),
    ("S2", "tools from a registry, the enabled ones", None),
    ("S3", "the plan is JSON, arguments fit the tool's schema", None),
    ("S4", "an unusable plan becomes one task", None),
    ("S5", "tasks pending to their end, whole results, in parallel", None),
    ("S6", "synthesis sees all results; HTML, sanitized", None),
    ("S7", "a synthesis that is no JSON still answers", None),
    ("S8", "state by thread; the last ten turns", None),
    ("S9", "one pass, or planning again", None),
    ("S10", "a cached list of tools before the plan", None),
    ("C1", "POST /api/query", None),
    ("C2", "intent by the model, with five messages", None),
    ("C3", "only the stages that are needed", None),
    ("C4", "search: text and confidence", None),
    ("C5", "summarize: the last three responses", None),
    ("C6", "conversation queries from the history alone", None),
    ("C7", "full history in a database; CSV", None),
    ("C8", "what the response carries", None),
    ("C9", "the page", None),
    ("R1", "think, plan, execute, reflect, respond", None),
    ("R2", "direct or agentic", None),
    ("R3", "plans: steps, complexity, criteria, chaining", None),
    ("R4", "results of steps; adjusted retries", None),
    ("R5", "reflection", None),
    ("R6", "limits per phase; degrades, never hangs", None),
    ("R7", "context per user and chat", None),
    ("R8", "plans, patterns, reflections are cached", None),
    ("R9", "model failures: back-off, direct, words", None),
    ("R10", "OpenAI-style HTTP, Ollama, gRPC", None),
    ("R11", "files and code in a sandbox", None),
    ("R12", "agentic under twice direct", None),
    ("P1", "agents are processes", None),
    ("P2", "the supervisor plans capabilities", None),
    ("P3", "LangServe", None),
    ("P4", "the researcher", None),
    ("P5", "completed_capability", None),
    ("P6", "document creator and mail agent", None),
    ("P7", "messages appended, context merged", None),
    ("P8", "agents that are down", None),
    ("K1", "the transition table, exactly", None),
    ("K2", "five retries, and the words past them", None),
    ("K3", "messages between agents", None),
    ("K4", "research steps, each with its own state", None),
    ("K5", "researcher and expert have tools", None),
    ("K6", "critics decide, with feedback", None),
    ("K7", "final answer and reasoning trace", None),
    ("K8", "four kinds of error; the state is checked", None),
    ("X1", "five flows, one engine", None),
    ("X2", "a front door", None),
    ("X3", "watched, stopped, resumed, replayed, branched", None),
    ("X4", "answers with no key and no server", None),
    ("X5", "the protocols that tools speak", None),
    ("X6", "past one machine", Some("later")),
];

#[test]
fn every_item_that_is_due_has_a_test() {
    let tests = tests();
    let mut table = String::from("item    tests  what, and one of them\n");
    let mut missing = Vec::new();
    for (item, what, due) in ITEMS {
        let named = tests.get(&item.to_lowercase()).map(Vec::as_slice).unwrap_or_default();
        let line = match (named, due) {
            ([], Some(when)) => format!("{item:<5} {when:>7}  {what}"),
            ([], None) => {
                missing.push(item);
                format!("{item:<5} {:>7}  {what}", "NONE")
            }
            ([first, ..], _) => format!("{item:<5} {:>7}  {what}: {first}", named.len()),
        };
        writeln!(table, "{line}").unwrap();
    }
    println!("\n{table}");
    assert!(missing.is_empty(), "no test carries {missing:?} in its name");
    let unknown: Vec<&String> = tests.keys().filter(|item| !ITEMS.iter().any(|(known, _, _)| known.to_lowercase() == **item)).collect();
    assert!(unknown.is_empty(), "these are no items: {unknown:?}");
}

/// A test that nobody runs shows nothing.
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
            // Those that need other people's programs are run by the scripts that install them.
            let is_run = words.contains(&name.as_str()) || peers.contains(&format!("--test {name}"));
            assert!(!is_suite || is_run, "`./check` does not run {}", suite.display());
        }
    }
}

fn scripts() -> String {
    let files = fs::read_dir(root().join("lab/peers")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Names of tests by the item they carry, sorted.
fn tests() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in ["crates", "lab"].into_iter().flat_map(|folder| sources(&root().join(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = function(line) else { continue };
            let Some(item) = item(name) else { continue };
            // A harness of its own calls its tests by name; all others have the attribute.
            let is_called = text.contains("fn main()") && text.matches(&format!("{name}()")).count() > 1;
            let is_test = lines[at.saturating_sub(3)..at].iter().any(|above| above.trim_start().starts_with("#[") && above.contains("test"));
            assert!(is_test || is_called, "{name} in {} carries an item and is no test", file.display());
            found.entry(item).or_default().push(name.to_owned());
        }
    }
    // The page's are in its browser's language.
    for file in fs::read_dir(root().join("lab/browser")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        for name in text.lines().filter_map(|line| line.strip_prefix("test(\"")?.split('"').next()) {
            if let Some(item) = item(name) {
                found.entry(item).or_default().push(name.to_owned());
            }
        }
    }
    found.values_mut().for_each(|names| names.sort());
    found
}

fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
    rest.split('(').next()
}

/// `s1_two_calls` is about S1.
fn item(name: &str) -> Option<String> {
    let (item, _) = name.split_once('_')?;
    let (letter, number) = item.split_at_checked(1)?;
    (["s", "c", "r", "p", "k", "x"].contains(&letter) && number.parse::<u32>().is_ok()).then(|| item.to_owned())
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files.extend(sources(&entry));
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            files.push(entry);
        }
    }
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
