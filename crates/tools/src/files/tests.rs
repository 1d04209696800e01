//! Every known way out of a folder, and the expected result.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tempfile::TempDir;

use crate::Settings;
use crate::testing::{Session, session_with};
use crate::workspace::Workspaces;

/// A root with files, beside files that must not be found.
struct TestFolders {
    _all: TempDir,
    root: std::path::PathBuf,
    outside: std::path::PathBuf,
}

const TREASURE: &str = "the treasure outside";

fn house() -> TestFolders {
    let all = tempfile::tempdir().unwrap();
    let (root, outside) = (all.path().join("root"), all.path().join("outside"));
    fs::create_dir_all(root.join("notes/deep")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret.txt"), TREASURE).unwrap();
    fs::write(root.join("notes/plan.md"), "one\ntwo\nthree\nfour").unwrap();
    fs::write(root.join("notes/deep/end.md"), "the end\n").unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("picture.png"), b"\x89PNG\0\0\0").unwrap();
    fs::write(root.join("latin.txt"), b"caf\xe9\n").unwrap();
    TestFolders { _all: all, root, outside }
}

async fn open(root: &Path) -> Session {
    session_with("files", &Settings { workspaces: Some(Workspaces::fixed(root.to_owned(), root.join("../records"))), ..Settings::bare() }).await
}

#[tokio::test]
async fn reads_lists_and_finds() {
    let house = house();
    let files = open(&house.root).await;
    let read = files.call("read", json!({"path": "notes/plan.md"})).await;
    assert_eq!(read.data["passages"][0]["text"], "one\ntwo\nthree\nfour");
    assert_eq!(read.data["passages"][0]["place"], "lines 1-4");
    let part = files.call("read", json!({"path": "notes/plan.md", "from_line": 2, "lines": 2})).await;
    assert_eq!((part.data["passages"][0]["text"].as_str(), part.data["next_line"].as_u64()), (Some("two\nthree"), Some(4)));
    assert!(part.text.contains("from_line 4"));
    assert_eq!(files.call("read", json!({"path": "empty"})).await.data["passages"], json!([]));
    assert_eq!(files.call("read", json!({"path": "notes/deep/../plan.md", "lines": 1})).await.data["passages"][0]["text"], "one");
    assert_eq!(files.call("read", json!({"path": "latin.txt"})).await.data["passages"][0]["text"], "caf\u{fffd}");

    let list = files.call("list", json!({"path": "."})).await;
    let names: Vec<&str> = list.data["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["empty", "latin.txt", "notes", "picture.png"]);
    let found = files.call("find", json!({"pattern": "*.md"})).await;
    let names: Vec<&str> = found.data["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["notes/plan.md", "notes/deep/end.md"]);
    assert!(files.call("find", json!({"pattern": "*.zig"})).await.text.contains("nothing"));
}

#[tokio::test]
async fn lines_added_at_once_are_all_there() {
    let house = house();
    let files = open(&house.root).await;
    let adding = (0..40).map(|number| files.call("append", json!({"path": "log", "content": format!("line {number}\n")})));
    futures::future::join_all(adding).await;
    let lines = fs::read_to_string(house.root.join("log")).unwrap();
    assert_eq!(lines.lines().collect::<std::collections::BTreeSet<_>>().len(), 40, "{lines}");
}

#[tokio::test]
async fn writes_whole_files() {
    let house = house();
    let files = open(&house.root).await;
    let on_disk = |path: &str| fs::read_to_string(house.root.join(path)).unwrap();
    files.call("write", json!({"path": "new/folder/a.md", "content": "first", "mode": "create"})).await;
    assert_eq!(on_disk("new/folder/a.md"), "first");
    // Repeating the call, as after a crash, has no further effect; other content is an error.
    files.call("write", json!({"path": "new/folder/a.md", "content": "first", "mode": "create"})).await;
    files.refuses("write", json!({"path": "new/folder/a.md", "content": "second", "mode": "create"}), &["already there", "replace"]).await;
    fs::set_permissions(house.root.join("new/folder/a.md"), fs::Permissions::from_mode(0o640)).unwrap();
    files.call("write", json!({"path": "new/folder/a.md", "content": "second", "mode": "replace"})).await;
    assert_eq!(on_disk("new/folder/a.md"), "second");
    assert_eq!(fs::metadata(house.root.join("new/folder/a.md")).unwrap().permissions().mode() & 0o777, 0o640);
    files.call("append", json!({"path": "new/folder/a.md", "content": " and third"})).await;
    files.call("append", json!({"path": "log", "content": "begun"})).await;
    assert_eq!((on_disk("new/folder/a.md").as_str(), on_disk("log").as_str()), ("second and third", "begun"));
    let left: Vec<_> = fs::read_dir(house.root.join("new/folder")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing unfinished is left");
    let write = files.tools.iter().find(|tool| tool.name == "write").unwrap().annotations.clone().unwrap();
    assert_eq!((write.read_only_hint, write.destructive_hint, write.idempotent_hint), (Some(false), Some(true), Some(true)));
    let append = files.tools.iter().find(|tool| tool.name == "append").unwrap().annotations.clone().unwrap();
    assert_eq!((append.destructive_hint, append.idempotent_hint), (Some(false), Some(false)));
}

#[tokio::test]
async fn r11_no_path_leads_out() {
    let house = house();
    let (root, outside) = (&house.root, &house.outside);
    symlink(outside, root.join("link-out")).unwrap();
    symlink(outside.join("secret.txt"), root.join("link-secret")).unwrap();
    symlink("../outside/secret.txt", root.join("link-relative")).unwrap();
    symlink("notes/plan.md", root.join("link-inside")).unwrap();
    symlink("loop-b", root.join("loop-a")).unwrap();
    symlink("loop-a", root.join("loop-b")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("/proc/self/cwd", root.join("magic-cwd")).unwrap();
    symlink("/dev/zero", root.join("zero")).unwrap();
    symlink(outside.join("not-yet"), root.join("dangling")).unwrap();
    fs::hard_link(outside.join("secret.txt"), root.join("hard")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let files = open(root).await;

    let absolute = outside.join("secret.txt");
    let long = "x".repeat(300);
    let deep = "d/".repeat(3_000);
    let reads: &[(&str, &str)] = &[
        ("../outside/secret.txt", "leads out"),
        ("notes/../../outside/secret.txt", "leads out"),
        ("notes/./.././../outside/secret.txt", "leads out"),
        ("..", "leads out"),
        ("/etc/passwd", "absolute"),
        (absolute.to_str().unwrap(), "absolute"),
        ("//etc/passwd", "absolute"),
        ("link-out/secret.txt", "leads out"),
        ("link-secret", "leads out"),
        ("link-relative", "leads out"),
        ("magic/etc/passwd", "leads out"),
        ("magic-cwd/Cargo.toml", "leads out"),
        ("zero", "leads out"),
        ("dangling", "leads out"),
        ("loop-a", "link"),
        ("hard", "hard links"),
        ("pipe", "not a file"),
        ("socket", "not a file"),
        ("notes", "folder"),
        ("picture.png", "not a text file"),
        ("notes/plan.md/", "not a folder"),
        ("notes/plan.md/x", "not a folder"),
        ("gone.md", "`list` and `find`"),
        ("", "empty"),
        ("a\0b", "NUL"),
        ("notes/plan.md\0.png", "NUL"),
        (&long, "too long"),
        (&deep, "too long"),
        ("..\\outside\\secret.txt", "not there"),
        ("%2e%2e/outside/secret.txt", "not there"),
        ("．．/outside/secret.txt", "not there"),
        ("~/.bashrc", "not there"),
        ("$HOME/.bashrc", "not there"),
        ("NOTES/PLAN.MD", "not there"),
        ("file:///etc/passwd", "not there"),
    ];
    for (path, part) in reads {
        let message = files.refuses("read", json!({"path": path}), &[part]).await;
        assert!(!message.contains(TREASURE), "{path}: {message}");
    }
    assert_eq!(files.call("read", json!({"path": "link-inside", "lines": 1})).await.data["passages"][0]["text"], "one");
    files.refuses("read", json!({"path": "notes/plan.md", "from_line": 99}), &["no line 99"]).await;
    files.refuses("read", json!({"path": "notes/plan.md", "from_line": 0}), &["from 1"]).await;

    for (path, part) in [("..", "leads out"), ("link-out", "leads out"), ("/", "absolute"), ("magic", "leads out"), ("notes/plan.md", "not a folder")]
    {
        files.refuses("list", json!({"path": path}), &[part]).await;
    }
    for pattern in ["", "../**", "/etc/*", "a/../../*"] {
        files.refuses("find", json!({"pattern": pattern}), &["under the root"]).await;
    }
    let found = files.call("find", json!({"pattern": "**"})).await;
    assert!(!found.text.contains("secret.txt"), "links are not followed: {}", found.text);

    let writes: &[(&str, &str)] = &[
        ("../outside/new", "does not name a file"),
        ("notes/../../outside/new", "does not name a file"),
        ("link-out/new", "link"),
        ("link-secret", "link"),
        ("link-inside", "link"),
        ("dangling", "link"),
        ("magic/tmp/new", "link"),
        ("pipe", "not a file"),
        ("notes", "folder"),
        ("notes/", "does not name a file"),
        (".", "does not name a file"),
        ("/tmp/new", "absolute"),
        ("notes/plan.md/new", "not a folder"),
        ("notes/.baton-1-1.tmp", "kept for"),
        ("a\0b", "NUL"),
        (&long, "too long"),
    ];
    for (path, part) in writes {
        files.refuses("write", json!({"path": path, "content": "overwritten", "mode": "replace"}), &[part]).await;
        files.refuses("append", json!({"path": path, "content": "overwritten"}), &[part]).await;
    }
    // Through a hard link: the name inside is replaced, the one outside keeps its content.
    files.refuses("append", json!({"path": "hard", "content": "overwritten"}), &["replace"]).await;
    files.call("write", json!({"path": "hard", "content": "mine now", "mode": "replace"})).await;
    files.refuses("write", json!({"path": "big", "content": "x".repeat(3 << 20).repeat(3), "mode": "replace"}), &["several files"]).await;
    assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), TREASURE);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1, "nothing was made outside");
}

/// A folder is repeatedly swapped for a link to the outside while files are read and written through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_races_lead_nowhere() {
    let house = house();
    let (root, outside) = (house.root.clone(), house.outside.clone());
    fs::create_dir(root.join("door")).unwrap();
    fs::write(root.join("door/secret.txt"), "inside").unwrap();
    symlink(&outside, root.join("trap")).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (root, over) = (root.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut swaps = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let (door, trap) = (root.join("door"), root.join("trap"));
                rustix::fs::renameat_with(rustix::fs::CWD, &door, rustix::fs::CWD, &trap, rustix::fs::RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        })
    };
    let files = open(&root).await;
    let (mut inside, mut refused) = (0, 0);
    for round in 0..600 {
        let reply = match round % 3 {
            0 => files.call_any("read", json!({"path": "door/secret.txt"})).await,
            1 => files.call_any("write", json!({"path": "door/new.txt", "content": "x", "mode": "replace"})).await,
            _ => files.call_any("read", json!({"path": "door/../door/secret.txt"})).await,
        };
        assert!(!reply.text.contains(TREASURE), "{}", reply.text);
        if reply.is_error { refused += 1 } else { inside += 1 }
    }
    over.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(swaps > 10, "the race was run {swaps} times");
    assert!(inside > 0, "{inside} went well, {refused} were refused");
    assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), TREASURE);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was written outside");
}

#[tokio::test]
async fn long_files_are_read_in_parts() {
    let house = house();
    let text: String = (1..=5_000).map(|n| format!("line {n} {}\n", "x".repeat(60))).collect();
    fs::write(house.root.join("long"), &text).unwrap();
    fs::write(house.root.join("wide"), format!("{}\nsecond\n", "y".repeat(300_000))).unwrap();
    let files = open(&house.root).await;
    let (mut next, mut read) = (Some(1), String::new());
    while let Some(line) = next {
        let part = files.call("read", json!({"path": "long", "from_line": line, "lines": 2_000})).await;
        read.push_str(part.data["passages"][0]["text"].as_str().unwrap());
        read.push('\n');
        next = part.data["next_line"].as_u64();
    }
    assert_eq!(read, text);
    let wide = files.call("read", json!({"path": "wide"})).await;
    assert!(wide.text.len() < 220_000 && wide.text.contains("left out"));
    assert_eq!(wide.data["next_line"], 2);
    assert_eq!(files.call("read", json!({"path": "wide", "from_line": 2})).await.data["passages"][0]["text"], "second");
}
