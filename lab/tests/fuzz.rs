//! The targets of `fuzz/` without libFuzzer: every file of the corpus, and mutations of it for a moment. `lab/fuzz` is the longer way.
//!
//! A finding is printed with its bytes in hex; put it into `fuzz/corpus/TARGET` when it is fixed, so that it is tried from then on.

#[path = "../../fuzz/src/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scripted::mangled::mangled;

/// Of each target: `BATON_FUZZ_MS`, or few enough to wait for.
fn time_max() -> Duration {
    Duration::from_millis(std::env::var("BATON_FUZZ_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(500))
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("the folder can be listed").path();
        let bytes = std::fs::read(&path).expect("the file can be read");
        (path, bytes)
    };
    let mut all: Vec<(PathBuf, Vec<u8>)> = files.map(read).collect();
    all.sort();
    assert!(!all.is_empty(), "{} is empty", folder.display());
    all
}

fn attempt(target: targets::Target, bytes: &[u8]) -> Result<(), String> {
    let began = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| target(bytes)));
    match ended {
        Ok(()) if began.elapsed() < SLOW => Ok(()),
        Ok(()) => Err(format!("took {:?}", began.elapsed())),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
            Err(words.unwrap_or_default())
        }
    }
}

/// No input of the corpus is larger than some kilobytes; what takes this long on it is quadratic or worse.
const SLOW: Duration = Duration::from_secs(20);

#[test]
fn no_bytes_break_a_parser() {
    let mut findings = Vec::new();
    for &(name, target) in targets::ALL {
        let files = corpus(name);
        for (path, bytes) in &files {
            if let Err(why) = attempt(target, bytes) {
                findings.push(format!("{name}: {}: {why}", path.display()));
            }
        }
        let until = Instant::now() + time_max();
        let mut tried = 0_u64;
        let seed: u64 = std::env::var("BATON_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let mut each: Vec<_> =
            files.iter().enumerate().map(|(at, (_, bytes))| mangled(bytes, seed.wrapping_mul(1_000).wrapping_add(at as u64))).collect();
        'time: while Instant::now() < until {
            for bytes in each.iter_mut().filter_map(Iterator::next) {
                tried += 1;
                if let Err(why) = attempt(target, &bytes) {
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    findings.push(format!("{name}: {why}\n  {hex}"));
                    break 'time;
                }
            }
        }
        println!("{name}: {} files, {tried} mutations", files.len());
        assert!(tried > 0, "{name}: nothing was tried");
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Every target has a corpus folder, and every folder has a target.
#[test]
fn every_target_has_a_corpus_and_the_other_way_round() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let mut folders: Vec<String> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    folders.sort();
    let mut names: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
}
