//! Hostile documents: the reader process ends, indexing continues, and the file is named with the reason.
//!
//! This binary is its own reader, like Baton: `reader document-reader LIMITS`. With `probe LIMITS` it confines itself like a reader and
//! tries to escape. With `index FOLDER HOME` it limits its memory and indexes a folder, like a server.

#![allow(clippy::unwrap_used)]

#[path = "../../../../lab/hostile/documents.rs"]
mod documents;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use baton_tools::reader::{READER_COMMAND, ReaderProcess, Settings};
use index::{Folders, InProcess, Model, ReadLimits, Reader, Skipped, Step};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rustix::process::{Resource, Rlimit};
use serde_json::{Value, json};

/// Only reached by documents that never end.
const HANG: Duration = Duration::from_secs(120);
/// Whether a reader has no files and no network; elsewhere it only has limits on memory and time.
const CONFINED: bool = cfg!(all(target_os = "linux", not(feature = "portable")));
const LIMITS: ReadLimits = ReadLimits { bytes_max: 32 << 20, time_max: Duration::from_secs(5) };

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [READER_COMMAND, ..] => baton_tools::reader::reader_main(&words[1..]),
        ["probe", ..] => baton_tools::reader::enter(&words[1..], probe),
        ["index", folder, home] => return index_folder(Path::new(folder), Path::new(home)),
        // All other arguments are for the test harness.
        _ => {}
    }
    each_hostile_document_ends_only_its_reader();
    memory_of_the_indexing_process_stays_bounded();
    if CONFINED {
        a_reader_cannot_reach_files_network_or_processes();
    }
    a_reader_that_cannot_start_is_not_the_files_fault();
    if cfg!(target_os = "linux") {
        one_child_reads_many_files();
        a_document_that_takes_long_leaves_a_reader_for_others();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(pages_are_parsed_by_the_reader());
    println!("all contained");
}

fn reader() -> ReaderProcess {
    ReaderProcess::new(Settings::default()).unwrap()
}

fn honest() -> (&'static Path, Vec<u8>) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../index/tests/files/harbour.pdf");
    (Path::new("harbour.pdf"), fs::read(file).unwrap())
}

fn each_hostile_document_ends_only_its_reader() {
    let reader = reader();
    let (name, bytes) = honest();
    for (hostile, hostile_bytes) in documents::all() {
        let size = hostile_bytes.len();
        let began = std::time::Instant::now();
        let read = reader.read(Path::new(hostile), hostile_bytes, LIMITS);
        let outcome = match &read {
            Ok(document) => format!("{} blocks", document.texts().count()),
            Err(why) => why.to_string(),
        };
        println!("{hostile} ({size} bytes): {outcome} ({:.1} s)", began.elapsed().as_secs_f32());
        assert!(began.elapsed() < HANG, "{hostile}");
        let is_expected = match hostile {
            "self-reference.pdf" => matches!(&read, Err(Skipped::Crashed(why)) if why == "stack overflow"),
            // Its parser continues without the part it could not unpack.
            "double-deflate.pdf" => matches!(read, Err(Skipped::TooMuchMemory { .. } | Skipped::Empty)),
            "nested-forms.pdf" => matches!(read, Err(Skipped::TooSlow { .. })),
            "deep-objects.pdf" => true,
            _ => read.is_ok() || matches!(read, Err(Skipped::Empty)),
        };
        assert!(is_expected, "{hostile}: {outcome}");
        let good = reader.read(name, bytes.clone(), LIMITS).unwrap();
        assert!(good.texts().any(|(text, _)| text.contains("harbour")), "after {hostile}");
    }
}

/// End to end, in a process with little memory: hostile files are skipped with a reason, others are found, and unchanged files are not read
/// again.
fn memory_of_the_indexing_process_stays_bounded() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, bytes) in documents::all() {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let (name, bytes) = honest();
    fs::write(folder.path().join(name), bytes).unwrap();
    // Old enough that an unchanged time means an unchanged file.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    }
    let run = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.arg("index").args([folder.path(), home.path()]).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let first = run();
    let skipped = first["skipped"].as_object().unwrap();
    let why = |name: &str| skipped.iter().find(|(file, _)| file.ends_with(name)).map(|(_, why)| why.as_str().unwrap()).unwrap_or_default();
    assert_eq!(why("self-reference.pdf"), "reading it crashed the reader (stack overflow); it is skipped until it changes");
    assert!(!why("double-deflate.pdf").is_empty(), "{first}");
    assert!(why("nested-forms.pdf").contains("took longer"), "{first}");
    assert_eq!(first["found"], json!(true), "{first}");
    let second = run();
    assert_eq!((&second["read"], &second["skipped"]), (&json!(0), &first["skipped"]));
    // New content under the same name is read.
    fs::write(folder.path().join("self-reference.pdf"), honest().1).unwrap();
    let third = run();
    assert_eq!(third["read"], json!(1));
    assert!(!third["skipped"].as_object().unwrap().keys().any(|file| file.ends_with("self-reference.pdf")), "{third}");
}

fn index_folder(folder: &Path, home: &Path) {
    if cfg!(target_os = "linux") {
        let pages: u64 = fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
        let limit = Some(pages * rustix::param::page_size() as u64 + (1 << 30));
        rustix::process::setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    }
    let limits = index::Limits { file_time_max: LIMITS.time_max, ..index::Limits::default() };
    let folders = Folders::open(&[folder.to_owned()], home, &Model::none(), limits).unwrap().with_reader(Arc::new(reader()));
    let mut read = 0;
    let report = folders.refresh(&mut |step| read += usize::from(matches!(step, Step::Reading { .. }))).unwrap();
    let found = folders.search("When are harbour dues collected?", 3).unwrap().hits.iter().any(|hit| hit.file.ends_with("harbour.pdf"));
    let skipped: serde_json::Map<String, Value> = report.skipped.iter().map(|(file, why)| (file.clone(), json!(why.to_string()))).collect();
    println!("{}", json!({ "read": read, "found": found, "skipped": skipped }));
}

fn a_reader_cannot_reach_files_network_or_processes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let limits = json!({ "memory_mib_max": 64, "stack_mib_max": 8, "cpu_seconds_max": 5, "parent": std::process::id() });
    let mut child = Command::new(std::env::current_exe().unwrap());
    let mut child = child.arg("probe").arg(limits.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(listener.local_addr().unwrap().to_string().as_bytes()).unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(printed, "file: refused\nown file: refused\nnetwork: refused\nthread: refused\nprocess: refused\n", "{status}");
    // Only Baton starts a reader.
    let stranger = Command::new(std::env::current_exe().unwrap()).arg(READER_COMMAND).arg(r#"{"memory_mib_max":1}"#).output().unwrap();
    assert!(!stranger.status.success());
}

fn probe() -> io::Result<()> {
    let mut address = String::new();
    io::stdin().read_to_string(&mut address)?;
    let mut out = io::stdout();
    let mut report = |what: &str, is_refused: bool| writeln!(out, "{what}: {}", if is_refused { "refused" } else { "reached" });
    report("file", fs::read("/etc/hostname").is_err())?;
    report("own file", fs::read(format!("/proc/self/{}", "status")).is_err())?;
    report("network", TcpStream::connect(&address).is_err())?;
    report("thread", std::thread::Builder::new().spawn(|| ()).is_err())?;
    report("process", Command::new("/bin/true").status().is_err())
}

fn a_reader_that_cannot_start_is_not_the_files_fault() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (name, bytes) = honest();
    fs::write(folder.path().join(name), bytes).unwrap();
    fs::write(folder.path().join("note.md"), "# Note\n\nSmall text needs no reader process.\n").unwrap();
    let open = || Folders::open(&[folder.path().into()], home.path(), &Model::none(), index::Limits::default()).unwrap();
    for command in ["/nothing/here", "/bin/false"] {
        let broken = ReaderProcess::new(Settings { command: vec![command.into()], ..Settings::default() }).unwrap();
        let report = open().with_reader(Arc::new(broken)).refresh(&mut |_| ()).unwrap();
        assert_eq!((report.files, report.skipped.len()), (1, 1), "{command}: {report:?}");
        println!("{command}: {}", report.skipped.values().next().unwrap());
    }
    let report = open().with_reader(Arc::new(InProcess)).refresh(&mut |_| ()).unwrap();
    assert_eq!((report.files, report.skipped.len()), (2, 0), "{report:?}");
}

fn one_child_reads_many_files() {
    let reader = Arc::new(reader());
    let (name, bytes) = honest();
    for _ in 0..50 {
        reader.read(name, bytes.clone(), LIMITS).unwrap();
        assert!(reader.read(Path::new("a.md"), b"# A\n\nb\n".to_vec(), LIMITS).is_ok());
    }
    assert_eq!(children(), 1);
    drop(reader);
    let began = std::time::Instant::now();
    while children() > 0 {
        assert!(began.elapsed() < HANG, "the child outlives its reader");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_document_that_takes_long_leaves_a_reader_for_others() {
    let reader = reader();
    let (name, bytes) = honest();
    std::thread::scope(|scope| {
        let hostile = scope.spawn(|| reader.read(Path::new("nested-forms.pdf"), documents::pdf_with_nested_forms(), LIMITS));
        while children() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        reader.read(name, bytes, LIMITS).unwrap();
        assert!(!hostile.is_finished(), "the other one was read meanwhile");
        assert!(matches!(hostile.join().unwrap(), Err(Skipped::TooSlow { .. })));
    });
}

/// Child processes of this one that have not exited.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default().split_whitespace().count()).sum()
}

/// A page from a local server, through the tool `fetch`.
async fn pages_are_parsed_by_the_reader() {
    let hostile = format!("<html><body>{}<p>{}</body></html>", "<b><div>".repeat(300), "<p>x <i>y".repeat(50_000));
    let honest = "<html><head><title>Tides</title></head><body><article><h1>Tides</h1><p>High water comes twice a day at this harbour, and the \
                  pilot knows when.</p></article></body></html>";
    let app = axum::Router::new()
        .route("/hostile", axum::routing::get(move || async move { axum::response::Html(hostile) }))
        .route("/honest", axum::routing::get(move || async move { axum::response::Html(honest) }));
    let pdf = |bytes: Vec<u8>| axum::routing::get(move || async move { ([("content-type", "application/pdf")], bytes) });
    let app = app.route("/harbour.pdf", pdf(self::honest().1)).route("/self.pdf", pdf(documents::pdf_with_self_referencing_form()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let settings = baton_tools::Settings { reader: Some(Arc::new(reader())), private_hosts: vec![base.to_string()], ..baton_tools::Settings::bare() };
    let fetch = baton_tools::kind("fetch").unwrap().build(&settings).unwrap();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(fetch.serve(theirs));
    let client = ().serve(ours).await.unwrap();
    for (path, words) in [
        ("hostile", None),
        ("self.pdf", Some("crashed the reader (stack overflow)")),
        ("honest", Some("High water comes twice")),
        ("harbour.pdf", Some("page 2")),
    ] {
        let arguments = json!({ "url": format!("http://{base}/{path}") });
        let call = CallToolRequestParams::new("fetch").with_arguments(arguments.as_object().unwrap().clone());
        let reply = tokio::time::timeout(HANG, client.call_tool(call)).await.unwrap().unwrap();
        let text = serde_json::to_string(&reply.content).unwrap();
        println!("{path}: {}", text.chars().take(200).collect::<String>());
        assert!(words.is_none_or(|words| text.contains(words)), "{text}");
    }
    assert_eq!(children(), 1);
}
