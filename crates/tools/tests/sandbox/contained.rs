//! Hostile programs in the sandbox: as Python that a model might write, and, to test the sandbox without monty, as system calls from inside
//! it.
//!
//! This binary is its own worker, like Baton: `sandbox code-worker LIMITS`. With `probe PORT:FOLDER LIMITS` it enters the sandbox and tries
//! to escape; `probe-bare` does so without namespaces, as on a machine that does not allow them. `host FOLDER` runs a program that does not
//! end.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use baton_tools::code::{Code, Outcome, RunArguments, Settings, sandbox};
use baton_tools::workspace::Workspaces;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use crate::probe;

pub(crate) fn run() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["code-worker", ..] => baton_tools::code::worker_main(&words[1..]),
        ["probe", outside, ..] => sandbox::enter(&words[2..], |limits, walls| probe::probe(outside, limits, walls)),
        ["probe-bare", outside, ..] => {
            // With a second thread, the kernel refuses a user namespace.
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            std::thread::spawn(move || receiver.recv());
            let _kept = sender;
            sandbox::enter(&words[2..], |limits, walls| probe::probe(outside, limits, walls))
        }
        ["host", home, ..] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let code = Code::new(Settings { seconds_max: 3600, ..settings(Path::new(home)) }, None);
            let ran = runtime.block_on(code.run(asked("while True:\n    pass", json!({}))));
            panic!("it ended by itself: {ran:?}");
        }
        // All other arguments are for the test harness.
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(what_honest_code_gets());
    runtime.block_on(r11_hostile_code_is_contained_and_reported());
    runtime.block_on(r15_code_reads_and_writes_the_files_of_its_thread());
    runtime.block_on(a_run_nobody_waits_for_is_ended());
    the_walls_hold_without_the_interpreter();
    garbage_is_answered_with_an_error_and_unknown_clients_are_refused();
    a_worker_does_not_outlive_its_parent();
    an_inner_process_whose_parent_ended_before_it_was_ready_ends();
    println!("all contained");
}

fn settings(home: &Path) -> Settings {
    Settings { scratch: Some(home.into()), seconds_max: 2, memory_mib_max: 128, scratch_mib_max: 8, output_bytes_max: 20_000, ..Settings::default() }
}

fn asked(code: &str, inputs: Value) -> RunArguments {
    RunArguments { code: code.into(), inputs: if let Value::Object(fields) = inputs { fields } else { Map::new() } }
}

async fn what_honest_code_gets() {
    let home = tempfile::tempdir().unwrap();
    let code = Code::new(settings(home.path()), None);
    // Code and inputs; expected output and result.
    let cases = [
        ("print(1 + 1)\n'a' * 3", json!({}), "2\n", json!("aaa")),
        ("sum(xs) / len(xs)", json!({"xs": [1, 2, 3, 4]}), "", json!(2.5)),
        ("{'n': n, 's': sorted(words)}", json!({"n": null, "words": ["b", "a"]}), "", json!({"n": null, "s": ["a", "b"]})),
        ("2 ** 100", json!({}), "", json!("1267650600228229401496703205376")),
        ("float('nan')", json!({}), "", json!("nan")),
        ("(1, {2: 3})", json!({}), "", json!([1, {"2": 3}])),
        ("x = 1", json!({}), "", json!(null)),
        ("print('é' * 3)", json!({}), "ééé\n", json!(null)),
        ("from pathlib import Path\nPath('a.txt').write_text('hi')\nPath('/a.txt').read_text()", json!({}), "", json!("hi")),
        ("with open('b.txt', 'w') as f:\n    f.write('xyz')\nopen('b.txt').read()", json!({}), "", json!("xyz")),
        ("from pathlib import Path\nPath('a.txt').exists()", json!({}), "", json!(false)),
        ("import os\nos.getenv('PATH')", json!({}), "", json!(null)),
        ("import math, json, re\nmath.sqrt(16)", json!({}), "", json!(4.0)),
    ];
    for (text, inputs, stdout, result) in cases {
        let ran = code.run(asked(text, inputs)).await.unwrap();
        assert_eq!((ran.outcome, ran.stdout.as_str(), &ran.result), (Outcome::Ok, stdout, &result), "{text}: {ran:?}");
    }
    println!("walls missing here: {:?}", code.run(asked("1", json!({}))).await.unwrap().walls_missing);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "scratch folders stay behind");
}

async fn r11_hostile_code_is_contained_and_reported() {
    use Outcome::*;
    let home = tempfile::tempdir().unwrap();
    let code = Code::new(settings(home.path()), None);
    let parens = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    // Name, code, possible outcomes, and a word of the message.
    let cases: &[(&str, &str, &[Outcome], &str)] = &[
        ("a mistake", "x = [1]\nx[5]", &[Error], "IndexError"),
        ("not Python", "def (", &[Error], "SyntaxError"),
        ("infinite loop", "while True:\n    pass", &[TimeLimit], "2 s allowed"),
        (
            "caught limits",
            "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
            &[TimeLimit],
            "2 s allowed",
        ),
        ("memory bomb", "x = []\nwhile True:\n    x.append('a' * 1000000 + str(len(x)))", &[MemoryLimit], "128 MiB"),
        ("one giant string", "x = 'a' * 10 ** 11\nlen(x)", &[MemoryLimit, Error], ""),
        ("a giant list", "x = [0] * 10 ** 10", &[MemoryLimit, Error], ""),
        ("a giant number", "len(str(7 ** 10 ** 9))", &[MemoryLimit, TimeLimit, Error], ""),
        ("numbers that grow", "x = 2\nwhile True:\n    x = x * x", &[MemoryLimit, TimeLimit, Error], ""),
        ("deep recursion", "def f(n):\n    return f(n + 1)\nf(0)", &[Error], "RecursionError"),
        ("deep brackets", &parens, &[Error, Crashed, MemoryLimit], ""),
        ("a deep value", "x = []\nfor i in range(200000):\n    x = [x]\nx", &[Ok, Error, Crashed, MemoryLimit, TimeLimit], ""),
        ("a value in itself", "x = []\nx.append(x)\nx", &[Ok], ""),
        ("huge output", "while True:\n    print('x' * 1000)", &[OutputLimit], "print less"),
        ("huge line", "print('x' * 1000000)", &[OutputLimit], "print less"),
        ("huge result", "'x' * 10000000", &[Ok, MemoryLimit], ""),
        ("shell", "import os\nos.system('id')", &[Error], ""),
        ("fork", "import os\nwhile True:\n    os.fork()", &[Error], ""),
        ("subprocess", "import subprocess\nsubprocess.run(['id'])", &[Error], ""),
        ("network", "import socket\nsocket.create_connection(('127.0.0.1', 22))", &[Error], ""),
        ("download", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')", &[Error], ""),
        ("passwd", "open('/etc/passwd').read()", &[Error], "FileNotFoundError"),
        ("/proc", "open('/proc/1/environ').read()", &[Error], "FileNotFoundError"),
        ("climbing", "from pathlib import Path\nPath('../../../../etc/passwd').read_text()", &[Error], "PermissionError"),
        ("symbolic link", "import os\nos.symlink('/etc/passwd', 'x')", &[Error], ""),
        ("hard link", "import os\nos.link('/etc/passwd', 'x')", &[Error], ""),
        ("signal", "import os\nos.kill(os.getppid(), 9)", &[Error], ""),
        ("ctypes", "import ctypes\nctypes.string_at(0)", &[Error], ""),
        ("imports by name", "__import__('os').system('id')", &[Error], ""),
        ("eval", "eval('__import__(\"os\").system(\"id\")')", &[Error], ""),
        ("subclasses", "().__class__.__bases__[0].__subclasses__()", &[Error], ""),
        (
            "file bomb",
            "from pathlib import Path\ni = 0\nwhile True:\n    Path('f' + str(i)).write_text('x' * 1000000)\n    i += 1",
            &[Error, TimeLimit],
            "",
        ),
        ("many files", "from pathlib import Path\ni = 0\nwhile True:\n    Path('f' + str(i)).write_text('')\n    i += 1", &[Error, TimeLimit], ""),
        ("a name that is none", "open('a\\0b').read()", &[Error], ""),
        ("exit", "import sys\nsys.exit(0)", &[Error, Ok], ""),
    ];
    for (name, text, wanted, words) in cases {
        let ran = code.run(asked(text, json!({}))).await.unwrap();
        let error = ran.error.clone().unwrap_or_default();
        println!("{name}: {:?} in {} ms: {:.100}", ran.outcome, ran.milliseconds, error.lines().last().unwrap_or_default());
        assert!(wanted.contains(&ran.outcome) && error.contains(words), "{name}: {ran:?}");
        assert!(ran.stdout.len() <= 20_000 && ran.result.to_string().len() <= 210_000, "{name}: too much comes out");
    }
    for (text, inputs) in [("", json!({})), (&"#".repeat(300_000), json!({})), ("1", json!({"x": "y".repeat(2_000_000)}))] {
        assert!(code.run(asked(text, inputs)).await.is_err());
    }
    let odd = code.run(asked("1", json!({"not a name": 1}))).await.unwrap();
    assert_eq!(odd.outcome, Error, "{odd:?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "scratch folders stay behind");
}

/// Files are shared with the tool `files`, by thread; a failed program changes none, and a repeated call changes them once.
async fn r15_code_reads_and_writes_the_files_of_its_thread() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::per_thread(home.path().join("workspaces"));
    let code = Code::new(settings(home.path()), Some(workspaces.clone()));
    let run = async |thread: &str, key: &str, text: &str| {
        let meta = [("baton/thread".to_owned(), json!(thread)), ("baton/key".to_owned(), json!(key))].into_iter().collect();
        code.run_in_workspace(asked(text, json!({})), meta).await.unwrap()
    };
    let folder = workspaces.folder(Some("a"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("data.csv"), "x,1\ny,2\nz,6\n").unwrap();
    let mean = "rows = open('data.csv').read().strip().split('\\n')\nmean = sum([float(r.split(',')[1]) for r in rows]) / len(rows)\n\
                with open('mean.txt', 'w') as f:\n    f.write(str(mean))\nmean";
    let ran = run("a", "k1", mean).await;
    assert_eq!((ran.outcome, &ran.result), (Outcome::Ok, &json!(3.0)), "{ran:?}");
    assert_eq!(ran.files.iter().map(|file| (file.path.as_str(), file.bytes)).collect::<Vec<_>>(), [("mean.txt", 3)]);
    assert_eq!(std::fs::read_to_string(folder.join("mean.txt")).unwrap(), "3.0");
    // The same call again, as after a crash: the first reply, and no second line.
    let append = "with open('log.txt', 'a') as f:\n    f.write('line ')\n1";
    for key in ["k2", "k2", "k3"] {
        assert_eq!(run("a", key, append).await.outcome, Outcome::Ok);
    }
    assert_eq!(std::fs::read_to_string(folder.join("log.txt")).unwrap(), "line line ");
    let failed = run("a", "k4", "with open('log.txt', 'w') as f:\n    f.write('gone')\n1 / 0").await;
    assert_eq!((failed.outcome, failed.files.len()), (Outcome::Error, 0), "{failed:?}");
    assert_eq!(std::fs::read_to_string(folder.join("log.txt")).unwrap(), "line line ");
    let other = run("b", "k5", "open('data.csv').read()").await;
    assert!(other.error.as_deref().is_some_and(|error| error.contains("FileNotFoundError")), "{other:?}");
}

async fn a_run_nobody_waits_for_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let code = Code::new(Settings { seconds_max: 3600, ..settings(home.path()) }, None);
    let run = code.run(asked("while True:\n    pass", json!({})));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(500), run).await.is_err());
    // Its scratch folder is removed with it; otherwise it would exist for an hour.
    let begun = std::time::Instant::now();
    while std::fs::read_dir(home.path()).unwrap().count() > 0 {
        assert!(begun.elapsed().as_secs() < 60, "the run goes on");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Starts a mode of the binary like the runner does, with some input.
fn start(mode: &[&str], scratch: &Path, input: &[u8]) -> Output {
    let limits = json!({"cpu_seconds_max": 20, "memory_mib_max": 256, "scratch_mib_max": 8, "scratch": scratch, "parent": std::process::id()});
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(mode).arg(limits.to_string()).env_clear().current_dir(scratch).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn the_walls_hold_without_the_interpreter() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for mode in ["probe", "probe-bare"] {
        let home = tempfile::tempdir().unwrap();
        let scratch = home.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let output = start(&[mode, &format!("{port}:{}", home.path().display())], &scratch, b"");
        let text = String::from_utf8(output.stdout).unwrap();
        println!("== {mode}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
        assert!(!text.contains("ESCAPED"), "{mode}:\n{text}");
        let contained = text.lines().filter(|line| line.starts_with("contained")).count();
        // The file bomb comes last; without namespaces the kernel kills the process at it.
        assert!(contained >= 34, "{mode}: only {contained} attempts were reported, {}\n{text}", output.status);
        assert!(!home.path().join("escaped").exists() && !Path::new("/tmp/baton-escaped").exists());
        let walls = text.lines().next().unwrap();
        assert!(walls.contains("landlock") && walls.contains("seccomp"), "{walls}");
        if mode == "probe-bare" {
            assert!(walls.contains("\"missing\":[\"namespaces"), "{walls}");
        }
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody got through to the network");
}

fn garbage_is_answered_with_an_error_and_unknown_clients_are_refused() {
    let home = tempfile::tempdir().unwrap();
    for input in [&b""[..], b"\xff\xfe\x00garbage", b"{\"code\": 1}", b"[[[[[[", &[b'['; 1 << 20]] {
        let output = start(&["code-worker"], home.path(), input);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\"failed\"") && text.contains("makes no sense"), "{text} {}", String::from_utf8_lossy(&output.stderr));
    }
    for words in [&["code-worker"][..], &["code-worker", "{}"], &["code-worker", "{}", "inner", "1", "{}"]] {
        let output = Command::new(std::env::current_exe().unwrap()).args(words).output().unwrap();
        assert!(matches!(output.status.code(), Some(70)), "{words:?}: {output:?}");
    }
}

fn a_worker_does_not_outlive_its_parent() {
    let home = tempfile::tempdir().unwrap();
    let name = home.path().display().to_string();
    // The host and both of its workers have the folder in their arguments.
    let alive = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
        processes.filter(|words| String::from_utf8_lossy(words).contains(&name)).count()
    };
    let wait_for = |count: usize| {
        let begun = std::time::Instant::now();
        while alive() != count {
            assert!(begun.elapsed().as_secs() < 60, "{} processes, and there should be {count}", alive());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let mut host = Command::new(std::env::current_exe().unwrap()).arg("host").arg(home.path()).spawn().unwrap();
    wait_for(3);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for(0);
}

/// The outer process is killed while the inner one is stopped before it could request a signal for that.
fn an_inner_process_whose_parent_ended_before_it_was_ready_ends() {
    let home = tempfile::tempdir().unwrap();
    let limits = json!({"cpu_seconds_max": 3600, "memory_mib_max": 128, "scratch_mib_max": 8, "scratch": home.path(), "parent": std::process::id()});
    let endless =
        json!({"code": "while True:\n    pass", "inputs": {}, "files": [], "run_ms_max": 3_600_000, "output_bytes_max": 1, "result_bytes_max": 1});
    for _ in 0..5 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("code-worker").arg(limits.to_string()).env_clear().current_dir(home.path()).process_group(0);
        let mut outer = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        outer.stdin.take().unwrap().write_all(endless.to_string().as_bytes()).unwrap();
        // It has one thread, and no other child.
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner = loop {
            if let Some(pid) = std::fs::read_to_string(&children).unwrap().split_whitespace().next() {
                break Pid::from_raw(pid.parse().unwrap()).unwrap();
            }
            assert!(outer.try_wait().unwrap().is_none(), "the outer process ended by itself");
        };
        kill_process(inner, Signal::STOP).unwrap();
        outer.kill().unwrap();
        outer.wait().unwrap();
        kill_process(inner, Signal::CONT).unwrap();
        let begun = std::time::Instant::now();
        // A process that has ended, but was not waited for, has no arguments any more.
        while std::fs::read(format!("/proc/{}/cmdline", inner.as_raw_nonzero())).is_ok_and(|words| !words.is_empty()) {
            if begun.elapsed().as_secs() >= 20 {
                kill_process(inner, Signal::KILL).unwrap();
                panic!("the inner process runs on without its parent");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
