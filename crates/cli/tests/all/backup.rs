//! Backups while a server runs, and restoring them.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::serve_hostile::token;
use crate::{Home, LOOKS_UP};

fn path(home: &Home, name: &str) -> String {
    home.db().with_file_name(name).to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_made_during_runs_is_whole_and_its_runs_replay_elsewhere() {
    let home = Home::new();
    let ada = token(&home, "ada");
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    served.upload_without_waiting(&ada, "own.md", "# Own\n\nThe garden of Ada has roses.\n").await;
    let body = json!({ "question": "What happens after a crash?", "flow": "search" });
    let (_, first) = served.by(&ada, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    let file = path(&home, "backup.tar");
    // Runs start and end meanwhile.
    let going = async {
        for _ in 0..40 {
            served.by(&ada, Method::POST, "/api/runs", Some(&body)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let command = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        home.well(&["backup", &file, "--json"])
    };
    let ((), made) = tokio::join!(going, command);
    assert!(made.lines()[0]["files"].as_u64().unwrap() >= 3, "{made:?}");
    home.baton(&["backup", &file]).complains(2, &["exists already"]);

    let other = Home::new();
    let restored = &other.well(&["restore", &file, "--json"]).lines()[0];
    assert!(restored["threads"].as_u64().unwrap() >= 1, "{restored}");
    for name in ["uploads/ada/own.md", "audit/00000001.jsonl"] {
        let read = |home: &Home| std::fs::read(path(home, name)).unwrap();
        assert!(read(&home).starts_with(&read(&other)[..20]), "{name}");
    }
    other.well(&["audit", "verify"]);
    let run = first["run"].as_str().unwrap();
    other.well(&["runs", "replay", run]);
    let runs = other.well(&["runs", "list", "--json", "--limit", "100"]).lines();
    for run in runs.iter().filter(|run| run["status"] == "done") {
        other.well(&["runs", "replay", run["run"].as_str().unwrap()]);
    }
    // Ada's token is valid again, and her document is found.
    drop(served);
    let served = other.serve(&other.script(LOOKS_UP), &[]);
    let (status, shown) = served.by(&ada, Method::GET, &format!("/api/runs/{run}"), None).await;
    assert_eq!((status, shown["status"].as_str()), (200, Some("done")), "{shown}");
    let (_, documents) = served.by(&ada, Method::GET, "/api/documents", None).await;
    assert_eq!(documents["files"][0]["name"], "own.md", "{documents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_replaced_by_a_damaged_backup_or_without_force() {
    let home = Home::new();
    home.well(&["ask", "What is it?", "--thread", "first"]);
    let file = path(&home, "backup.tar");
    home.well(&["backup", &file]);
    let bytes = std::fs::read(&file).unwrap();

    home.well(&["ask", "What is it?", "--thread", "second"]);
    home.baton(&["restore", &file]).complains(2, &["there is data already", "--force"]);
    let threads = || home.well(&["threads", "list"]).out;
    let damages: [(&str, Vec<u8>); 3] = [
        ("cut", bytes[..bytes.len() / 2].to_vec()),
        ("changed", {
            let mut changed = bytes.clone();
            changed[5_000] ^= 1;
            changed
        }),
        ("another file", b"not a tar file, but long enough to be looked at".repeat(40)),
    ];
    for (name, damaged) in damages {
        let file = path(&home, "damaged.tar");
        std::fs::write(&file, damaged).unwrap();
        let output = home.baton(&["restore", "--force", &file]);
        assert_eq!(output.code, Some(1), "{name}: {output:?}");
        assert!(output.err.contains("cannot be used"), "{name}: {output:?}");
        assert!(threads().contains("second"), "{name}");
    }
    // Not while a server uses the database.
    let served = home.serve(&home.script(LOOKS_UP), &[]);
    home.baton(&["restore", "--force", &file]).complains(1, &["another process has", "stop it first"]);
    drop(served);

    let restored = home.well(&["restore", "--force", &file]);
    assert!(threads().contains("first") && !threads().contains("second"), "{restored:?}");
    let aside = restored.out.lines().find_map(|line| line.strip_prefix("what was there is in ")?.split(';').next()).unwrap();
    assert!(Path::new(aside).join("baton.db").is_file(), "{restored:?}");
    home.baton(&["restore", "/nowhere.tar", "--force"]).complains(2, &["there is no file /nowhere.tar", "baton backup"]);
}

#[test]
fn an_archive_with_paths_that_lead_out_is_refused() {
    let home = Home::new();
    for name in ["../evil", "uploads/../../evil", "/tmp/evil", "access/8080.token", ".ssh/authorized_keys"] {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        // Written without the checks of the library, like a malicious archive.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, &b"evil"[..]).unwrap();
        let file = path(&home, "evil.tar");
        std::fs::write(&file, tar.into_inner().unwrap()).unwrap();
        let output = home.baton(&["restore", &file]);
        assert_eq!(output.code, Some(1), "{name}: {output:?}");
        assert!(!home.db().with_file_name("evil").exists() && !Path::new("/tmp/evil").exists() && !home.db().exists(), "{name}");
    }
}
