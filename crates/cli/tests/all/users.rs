//! Exporting and deleting everything of a user.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::Home;
use crate::serve_hostile::token;

const MARKER: &str = "xq7markerzz";

/// Every file below a folder that has the marker in it.
fn holding(folder: &Path, marker: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, marker));
        } else if std::fs::read(&path).unwrap().windows(marker.len()).any(|part| part == marker.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_user_leaves_no_trace_and_others_keep_theirs() {
    let home = Home::new();
    let (ada, bob) = (token(&home, "ada"), token(&home, "bob"));
    let served = home.serve("", &["--model", "extract"]);
    for (token, name) in [(&ada, MARKER), (&bob, "bobsword")] {
        served.upload(token, "own.md", &format!("# Notes\n\nThe garden has a {name} in it.\n")).await;
        let body = json!({ "question": format!("Where is the {name} in the garden?"), "flow": "direct" });
        let (status, run) = served.by(token, Method::POST, "/api/runs?wait=1", Some(&body)).await;
        assert_eq!(status, 201, "{run}");
        let code = json!({ "question": format!("files.write {{\"path\": \"a.txt\", \"content\": \"{name}\"}}"), "flow": "reason" });
        let (_, run) = served.by(token, Method::POST, "/api/runs?wait=1", Some(&code)).await;
        assert_eq!(run["status"], "done", "{run}");
        let item = json!({ "namespace": ["notes"], "key": "k", "value": { "word": name } });
        assert_eq!(served.by(token, Method::PUT, "/store/items", Some(&item)).await.0, 204);
    }
    let folder = home.db().parent().unwrap().to_owned();
    let workspaces = |marker: &str| holding(&folder.join("workspaces"), marker).len();
    assert_eq!((workspaces(MARKER), workspaces("bobsword")), (1, 1), "each wrote a file");
    home.baton(&["users", "delete", "ada", "--yes"]).complains(1, &["another process has", "stop it first"]);
    drop(served);

    let file = folder.join("ada.tar");
    let exported = home.well(&["users", "export", "ada", file.to_str().unwrap(), "--json"]);
    assert_eq!(exported.lines()[0]["threads"], 2, "{exported:?}");
    let mut names = Vec::new();
    let mut text = String::new();
    for entry in tar::Archive::new(std::fs::File::open(&file).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        names.push(entry.path().unwrap().display().to_string());
        std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
    }
    for part in ["user.json", "threads/000001/thread.json", "uploads/own.md", "documents-of-protocols/langgraph.item.json", "manifest.json"] {
        assert!(names.iter().any(|name| name == part), "{part}: {names:?}");
    }
    assert!(names.iter().any(|name| name.ends_with("files/a.txt")), "{names:?}");
    assert!(text.contains(MARKER) && !text.contains("bobsword") && !text.contains(&ada));
    std::fs::remove_file(&file).unwrap();

    assert!(!holding(&folder, MARKER).is_empty());
    let asked = home.baton(&["users", "delete", "ada"]);
    assert_eq!(asked.code, Some(2));
    assert!(asked.out.contains("2 threads") && asked.out.contains("--yes"), "{asked:?}");
    assert!(!holding(&folder, MARKER).is_empty());
    home.well(&["users", "delete", "ada", "--yes"]);
    assert_eq!(holding(&folder, MARKER), Vec::<PathBuf>::new());
    assert!(!folder.join("cache/baton/index").exists());
    home.baton(&["users", "delete", "ada", "--yes"]).complains(2, &["there is no data of a user \"ada\"", "bob"]);
    let users: Vec<Value> = home.well(&["users", "list", "--json"]).lines();
    assert_eq!(users.len(), 1, "{users:?}");
    assert_eq!((users[0]["user"].as_str(), users[0]["threads"].as_u64()), (Some("bob"), Some(2)));
    assert_eq!(workspaces("bobsword"), 1);

    // The index is rebuilt, Bob finds his own documents, and Ada's token is invalid.
    let served = home.serve("", &["--model", "extract"]);
    assert_eq!(served.by(&ada, Method::GET, "/api/status", None).await.0, 401);
    let body = json!({ "question": "Where is the bobsword in the garden?", "flow": "direct" });
    let (_, run) = served.by(&bob, Method::POST, "/api/runs?wait=1", Some(&body)).await;
    assert_eq!(run["status"], "done", "{run}");
}

#[test]
fn a_deleted_thread_takes_its_files_along() {
    let home = Home::new();
    let write = |thread: &str| {
        let mut command = home.command(&[
            "ask",
            "files.write {\"path\": \"a.txt\", \"content\": \"xq7markerzz\"}",
            "--flow",
            "reason",
            "--model",
            "extract",
            "--thread",
            thread,
        ]);
        let config = home.db().with_file_name("config");
        let output = command.env_remove("BATON_SCRIPT").env("XDG_CONFIG_HOME", config).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    write("one");
    write("other");
    let workspaces = home.db().with_file_name("workspaces");
    assert_eq!(holding(&workspaces, MARKER).len(), 2);
    home.well(&["threads", "delete", "one"]);
    assert_eq!(holding(&workspaces, MARKER).len(), 1);
    home.well(&["threads", "prune", "--keep", "0"]);
    assert_eq!(holding(&workspaces, MARKER), Vec::<PathBuf>::new());
    assert_eq!(holding(home.db().parent().unwrap(), MARKER), Vec::<PathBuf>::new(), "neither in the database");
}
