//! Error messages for wrong input and damaged files.

use crate::Home;

#[test]
fn an_unknown_run_is_answered_with_those_there_are() {
    let home = Home::new();
    home.baton(&["runs", "show", "zz"]).complains(3, &["there is no database", "baton ask"]);
    home.well(&["ask", "What is it?"]);
    let run = home.newest();
    home.baton(&["runs", "show", "zz"]).complains(2, &["no run's id contains \"zz\"", &run, "baton runs list"]);
    home.well(&["ask", "And this?"]);
    // Ids begin with a time, and these two are recent.
    home.baton(&["runs", "show", &run[..6]]).complains(2, &["fits several runs", &run]);
    home.baton(&["runs", "show", ""]).complains(2, &["which run?"]);
}

#[test]
fn a_truncated_database_is_refused_with_what_to_do() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let whole = std::fs::read(home.db()).unwrap();
    for left in [whole.len() / 2, 50] {
        std::fs::write(home.db(), &whole[..left]).unwrap();
        for args in [&["runs", "list"][..], &["ask", "x"], &["threads", "prune", "--keep", "0"]] {
            home.baton(args).complains(3, &["baton.db is damaged", "restore it from a copy"]);
        }
        assert_eq!(std::fs::read(home.db()).unwrap(), &whole[..left], "it is not touched");
    }
    std::fs::write(home.db(), &whole).unwrap();
    assert_eq!(home.runs().len(), 1);
}

#[test]
fn foreign_files_and_folders_are_left_alone() {
    let home = Home::new();
    std::fs::write(home.db(), "a letter to a friend, which is longer than the header of a database by some way: ".repeat(4)).unwrap();
    home.baton(&["ask", "x"]).complains(3, &["not a SQLite file"]);
    let nowhere = home.folder.path().join("no/such/folder.db");
    home.baton(&["ask", "x", "--db", nowhere.to_str().unwrap()]).complains(3, &["cannot be opened", "--db"]);
}

#[test]
fn wrong_usage_is_an_error_that_names_the_right_one() {
    let home = Home::new();
    home.baton(&["ask", " "]).complains(2, &["what is the question?"]);
    home.baton(&["ask", "x", "--flow", "chess"]).complains(2, &["no flow \"chess\"", "auto, direct, search, chat, reason, panel, report, supervise"]);
    home.baton(&["ask", "x", "--flow", "team", "--approve"]).complains(2, &["team has no plan to approve", "reason, report, research, search"]);
    home.baton(&["ask", "x", "--thread", ""]).complains(2, &["--thread"]);
    home.baton(&["runs", "list", "--status", "lost"]).complains(2, &["running, asking"]);
    home.baton(&["runs", "resume"]).complains(2, &["RUN"]);
    home.baton(&["walk"]).complains(2, &["walk"]);
}

#[test]
fn help_has_examples_and_the_version_is_printed() {
    let home = Home::new();
    assert_eq!(home.well(&["--version"]).out, format!("baton {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.well(&["--help"]).out;
    for words in ["Examples:", "Exit codes:", "130", "BATON_DB"] {
        assert!(help.contains(words), "no {words:?} in {help}");
    }
    for args in [
        &["ask", "--help"][..],
        &["chat", "--help"],
        &["completions", "--help"],
        &["runs", "--help"],
        &["runs", "fork", "--help"],
        &["bench", "engine", "--help"],
    ] {
        assert!(home.well(args).out.contains("Examples:"), "{args:?}");
    }
    // Every command that ends a run documents the exit codes.
    for args in [&["ask", "--help"][..], &["chat", "--help"]] {
        assert!(home.well(args).out.contains("4  the run waits for a person"), "{args:?}");
    }
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let home = Home::new();
    home.well(&["ask", "What is it?"]);
    let mut child = home.command(&["runs", "watch", &home.newest(), "--json"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
