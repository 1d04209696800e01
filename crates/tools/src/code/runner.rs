//! Starts a worker, reads its messages, and kills it when it exceeds a limit.
//!
//! One thread starts the worker and waits until it has exited: with a parent-death signal, a child is killed when the *thread* that started
//! it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::protocol::{Request, WorkerMessage};
use super::sandbox::Limits;
use super::{CodeResult, Outcome, RunArguments, Settings, WORKER_COMMAND};
use crate::workspace::FileBytes;

/// How often a run checks whether its caller is still there.
const LOOK: Duration = Duration::from_millis(50);
/// Starting the worker twice is not part of the program's time.
const START_SECONDS_MAX: u64 = 5;
const COMPLAINT_BYTES_MAX: u64 = 4_000;

/// The result of a program, and the files it wrote.
pub(super) async fn run(settings: Arc<Settings>, asked: RunArguments, files: Vec<FileBytes>) -> Result<(CodeResult, Vec<FileBytes>), String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let unwanted = Arc::new(AtomicBool::new(false));
    let _guard = Guard(unwanted.clone());
    let started = std::thread::Builder::new().name("code".into()).spawn(move || {
        // If the receiver is gone, `unwanted` is set.
        let _ = sender.send(run_here(&settings, asked, files, &unwanted));
    });
    started.map_err(|e| format!("no thread for a worker can be started ({e}); try again later"))?;
    receiver.await.unwrap_or_else(|_| Err("the thread that ran the worker crashed; try again".into()))
}

/// Signals on drop that the caller is gone.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run_here(settings: &Settings, asked: RunArguments, files: Vec<FileBytes>, unwanted: &AtomicBool) -> Result<(CodeResult, Vec<FileBytes>), String> {
    let scratch = Scratch::make(settings)?;
    let limits = Limits {
        cpu_seconds_max: settings.seconds_max + 1,
        memory_mib_max: settings.memory_mib_max,
        scratch_mib_max: settings.scratch_mib_max,
        scratch: scratch.0.clone(),
        parent: std::process::id().try_into().unwrap_or(0),
    };
    let limits = serde_json::to_string(&limits).map_err(|e| e.to_string())?;
    let request = Request {
        code: asked.code,
        inputs: asked.inputs,
        files,
        run_ms_max: settings.seconds_max * 1000,
        output_bytes_max: settings.output_bytes_max,
        result_bytes_max: settings.result_bytes_max,
    };
    let request = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    let mut child = start(settings, &limits, &scratch)?;
    let (sender, lines) = sync_channel(64);
    let complaints = listen(&mut child, settings, sender, request);
    let mut output = WorkerOutput::default();
    let deadline = begun + Duration::from_secs(settings.seconds_max + 1 + START_SECONDS_MAX);
    let stopped = output.until_the_end(&lines, deadline, unwanted);
    if stopped.is_some() {
        end(&child);
    }
    drop(lines);
    let status = child.wait().map_err(|e| format!("the worker cannot be waited for: {e}"))?;
    // Its PID namespace ends with it; without one, its process group is killed.
    end(&child);
    let complaints = complaints.join().unwrap_or_default();
    let files = std::mem::take(&mut output.files);
    Ok((output.judged(settings, stopped, status, &complaints, begun), files))
}

fn start(settings: &Settings, limits: &str, scratch: &Scratch) -> Result<Child, String> {
    let words = match settings.worker.as_slice() {
        [] => {
            let own = std::env::current_exe().map_err(|e| format!("this program cannot find itself to start a worker: {e}"))?;
            vec![own.into_os_string(), WORKER_COMMAND.into()]
        }
        words => words.iter().map(Into::into).collect(),
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(limits).env_clear().current_dir(&scratch.0).process_group(0);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.map_err(|e| format!("the worker {} cannot be started ({e})", words[0].display()))
}

fn end(child: &Child) {
    // It may have exited already.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Sends the request and forwards the worker's messages; stderr follows at the end.
fn listen(child: &mut Child, settings: &Settings, sender: SyncSender<Line>, request: Vec<u8>) -> std::thread::JoinHandle<String> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        // A worker that has exited does not read; its exit status shows why.
        stdin.map(|mut stdin| stdin.write_all(&request))
    });
    // Twice the size for JSON escapes and base64, plus the frame.
    let bytes_max = (2 * (settings.output_bytes_max + settings.result_bytes_max) + 200_000) as u64 + 2 * (settings.scratch_mib_max << 20);
    std::thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        let mut reader = BufReader::new(stdout.take(bytes_max));
        loop {
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) if reader.get_ref().limit() == 0 => return drop(sender.send(Line::TooMuch)),
                Ok(0) | Err(_) => return,
                Ok(_) => match serde_json::from_slice(&line) {
                    Ok(message) => {
                        if sender.send(Line::Message(message)).is_err() {
                            return;
                        }
                    }
                    Err(_) => return drop(sender.send(if reader.get_ref().limit() == 0 { Line::TooMuch } else { Line::Garbage })),
                },
            }
        }
    });
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes);
            // The rest is read and dropped, so that the worker does not block on a full pipe.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

enum Line {
    Message(WorkerMessage),
    TooMuch,
    Garbage,
}

/// Why it was killed by the runner.
#[derive(Clone, Copy, PartialEq)]
enum Stopped {
    Late,
    TooMuch,
    Garbage,
    Unwanted,
}

#[derive(Default)]
struct WorkerOutput {
    stdout: String,
    walls: super::Restrictions,
    files: Vec<FileBytes>,
    last: Option<WorkerMessage>,
}

impl WorkerOutput {
    fn until_the_end(&mut self, lines: &Receiver<Line>, deadline: Instant, unwanted: &AtomicBool) -> Option<Stopped> {
        loop {
            if unwanted.load(Ordering::Relaxed) {
                return Some(Stopped::Unwanted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(Stopped::Late);
            }
            match lines.recv_timeout(left.min(LOOK)) {
                Ok(Line::Message(WorkerMessage::Out(text))) => self.stdout.push_str(&text),
                Ok(Line::Message(WorkerMessage::Walls(walls))) => self.walls = walls,
                Ok(Line::Message(WorkerMessage::File(file))) => self.files.push(file),
                Ok(Line::Message(last)) => self.last = Some(last),
                Ok(Line::TooMuch) => return Some(Stopped::TooMuch),
                Ok(Line::Garbage) => return Some(Stopped::Garbage),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn judged(self, settings: &Settings, stopped: Option<Stopped>, status: ExitStatus, complaints: &str, begun: Instant) -> CodeResult {
        let late = format!("it ran longer than the {} s allowed: do less at once, or look for a loop that does not end", settings.seconds_max);
        let too_much = format!("it printed more than the {} bytes that are kept: print less", settings.output_bytes_max);
        let full = format!("it needed more than the {} MiB of memory allowed: work on less at once", settings.memory_mib_max);
        let (outcome, result, error) = match (stopped, self.last) {
            (Some(Stopped::Late | Stopped::Unwanted), _) => (Outcome::TimeLimit, Value::Null, Some(late)),
            (Some(Stopped::TooMuch), _) => (Outcome::OutputLimit, Value::Null, Some(too_much)),
            (Some(Stopped::Garbage), _) => {
                (Outcome::Crashed, Value::Null, Some("the worker printed something that makes no sense, and was ended".into()))
            }
            (None, Some(WorkerMessage::Done { result })) => (Outcome::Ok, result, None),
            (None, Some(WorkerMessage::Failed { kind, error })) => match kind.as_str() {
                "TimeoutError" if error.contains("time limit exceeded") => (Outcome::TimeLimit, Value::Null, Some(format!("{error}\n{late}"))),
                "MemoryError" if error.contains("more was printed") => (Outcome::OutputLimit, Value::Null, Some(too_much)),
                "MemoryError" => (Outcome::MemoryLimit, Value::Null, Some(format!("{error}\n{full}"))),
                _ => (Outcome::Error, Value::Null, Some(error)),
            },
            (None, _) => {
                // The outer process reports a signal like a shell does.
                let signal = status.signal().or(status.code().filter(|code| *code > 128).map(|code| code - 128));
                match signal {
                    _ if complaints.contains("memory allocation of") => (Outcome::MemoryLimit, Value::Null, Some(full)),
                    Some(libc::SIGXCPU | libc::SIGKILL) => (Outcome::TimeLimit, Value::Null, Some(late)),
                    _ => (
                        Outcome::Crashed,
                        Value::Null,
                        Some(format!("the interpreter ended by itself ({status}); nothing outside was touched. {}", complaints.trim())),
                    ),
                }
            }
        };
        let milliseconds = begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        CodeResult {
            outcome,
            stdout: self.stdout,
            result,
            error,
            files: Vec::new(),
            milliseconds,
            walls_missing: self.walls.missing.clone(),
            walls: self.walls,
        }
    }
}

/// The scratch folder of a run, removed on drop.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn make(settings: &Settings) -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let base = settings.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let path = base.join(format!("baton-code-{}-{}-{now}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        // Created here or not at all: an existing folder of that name is refused.
        std::fs::create_dir_all(&base)
            .and_then(|()| std::fs::DirBuilder::new().mode(0o700).create(&path))
            .map_err(|e| format!("no scratch folder can be made in {} ({e})", base.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), "a scratch folder stays behind: {e}");
        }
    }
}
