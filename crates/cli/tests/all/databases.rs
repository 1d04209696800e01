//! Databases written by earlier versions: they open, and their runs replay exactly and continue.
//!
//! `databases/schema-4.sqlite.gz` was written by the release before schema 5: one finished run of the sample and one that waits for an
//! approval.

use std::io::Read as _;

use crate::Home;

#[test]
fn a_database_of_schema_4_opens_and_its_runs_replay_and_resume() {
    let home = Home::new();
    let mut database = Vec::new();
    flate2::read::GzDecoder::new(&include_bytes!("databases/schema-4.sqlite.gz")[..]).read_to_end(&mut database).unwrap();
    std::fs::write(home.db(), database).unwrap();

    let status = |run: &str| home.runs().into_iter().find(|row| row["run"].as_str().unwrap().ends_with(run)).unwrap()["status"].clone();
    assert_eq!((status("36361339"), status("51cb9caa")), ("done".into(), "asking".into()));
    assert!(home.well(&["runs", "replay", "36361339"]).out.contains("16 journal entries give the same 58 events"));

    home.well(&["runs", "answer", "51cb9caa", "yes"]);
    assert_eq!((status("51cb9caa"), home.changes("notes.append")), ("done".into(), 1));
    assert!(home.well(&["runs", "replay", "51cb9caa"]).out.contains("the same"));
}
