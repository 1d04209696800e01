//! The thread that owns the reader process: starts it, passes jobs to it, kills it when a job takes too long, and replaces it.
//!
//! The kernel kills a child when the thread that started it ends, so this thread runs as long as the child may be needed.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::job::{Job, JobResult};
use super::{READER_COMMAND, Settings, frame};
use crate::confine::ReaderLimits;

/// The exit code of a child that could not be confined, or received something other than jobs.
pub(super) const FAILED: i32 = 70;
/// Starting the child is not part of a job's time.
const START_MAX: Duration = Duration::from_secs(10);
/// A child is replaced after this much time on jobs. Its processor time limit is higher than that plus one job.
const WORK_MAX: Duration = Duration::from_secs(120);
const CPU_SECONDS_MAX: u64 = 300;
const STDERR_BYTES_MAX: u64 = 4_000;

pub(super) struct Order {
    pub(super) job: Job,
    pub(super) bytes: Vec<u8>,
    pub(super) time_max: Duration,
    pub(super) answer: Box<dyn FnOnce(Result<JobResult, Failure>) + Send>,
}

/// Why a job has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Not caused by the document.
    #[error("the document reader does not work: {0}")]
    Start(String),
    #[error("reading it takes too long")]
    TooSlow,
    #[error("reading it takes too much memory")]
    TooMuchMemory,
    #[error("reading it crashed the reader ({0})")]
    Crashed(String),
}

impl Failure {
    pub(super) fn worker_ended() -> Self {
        Failure::Start("its thread has ended".into())
    }
}

/// Until the sender of `orders` is dropped.
pub(super) fn run(settings: &Settings, orders: &Receiver<Order>) {
    let mut reader: Option<Running> = None;
    loop {
        let order = match orders.recv_timeout(settings.idle_max) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => {
                reader = None;
                match orders.recv() {
                    Ok(order) => order,
                    Err(_) => return,
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Order { job, bytes, time_max, answer } = order;
        let result = match reader.take().map_or_else(|| Running::start(settings), Ok) {
            Ok(mut running) => match running.perform(&job, bytes, time_max) {
                Ok(result) => {
                    reader = Some(running).filter(|running| running.jobs < settings.jobs_max && running.worked < WORK_MAX);
                    Ok(result)
                }
                Err(Stopped::Late) => Err(Failure::TooSlow),
                Err(Stopped::Ended) => Err(running.why_it_ended()),
                Err(Stopped::Garbage(why)) => Err(Failure::Crashed(why)),
            },
            Err(why) => Err(Failure::Start(why)),
        };
        answer(result);
    }
}

/// A child that waits for jobs. Dropping it kills it.
struct Running {
    child: Child,
    frames: Sender<Vec<u8>>,
    results: Receiver<std::io::Result<Vec<u8>>>,
    stderr: Option<JoinHandle<String>>,
    jobs: u32,
    worked: Duration,
}

enum Stopped {
    Late,
    Ended,
    Garbage(String),
}

impl Running {
    fn start(settings: &Settings) -> Result<Self, String> {
        let limits = ReaderLimits {
            memory_mib_max: settings.memory_mib_max,
            stack_mib_max: settings.stack_mib_max,
            cpu_seconds_max: CPU_SECONDS_MAX,
            parent: std::process::id().try_into().unwrap_or(0),
        };
        let limits = serde_json::to_string(&limits).map_err(|error| error.to_string())?;
        let words = match settings.command.as_slice() {
            [] => {
                let own = std::env::current_exe().map_err(|error| format!("the path of this program is not known: {error}"))?;
                vec![own.into_os_string(), READER_COMMAND.into()]
            }
            words => words.iter().map(Into::into).collect(),
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(limits).env_clear().current_dir("/").process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{} cannot be started: {error}", words[0].display()))?;
        let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err("it has no pipes".into());
        };
        let (frames, outgoing) = channel::<Vec<u8>>();
        // A child that has exited does not read; its exit status shows why.
        std::thread::spawn(move || outgoing.iter().try_for_each(|bytes| frame::write(&mut stdin, &bytes)));
        let (sender, results) = channel();
        std::thread::spawn(move || {
            while let Some(result) = frame::read(&mut stdout).transpose() {
                let is_last = result.is_err();
                if sender.send(result).is_err() || is_last {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut bytes);
            // The rest is read and dropped, so that the child does not block on a full pipe.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Running { child, frames, results, stderr: Some(stderr), jobs: 0, worked: Duration::ZERO })
    }

    fn perform(&mut self, job: &Job, bytes: Vec<u8>, time_max: Duration) -> Result<JobResult, Stopped> {
        let job = serde_json::to_vec(job).map_err(|error| Stopped::Garbage(error.to_string()))?;
        let begun = Instant::now();
        if self.frames.send(job).and_then(|()| self.frames.send(bytes)).is_err() {
            return Err(Stopped::Ended);
        }
        let limit = if self.jobs == 0 { time_max + START_MAX } else { time_max };
        let result = match self.results.recv_timeout(limit) {
            Ok(Ok(result)) => result,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(Stopped::Ended),
            Ok(Err(error)) => return Err(Stopped::Garbage(error.to_string())),
            Err(RecvTimeoutError::Timeout) => return Err(Stopped::Late),
            Err(RecvTimeoutError::Disconnected) => return Err(Stopped::Ended),
        };
        self.jobs += 1;
        self.worked += begun.elapsed();
        serde_json::from_slice(&result).map_err(|error| Stopped::Garbage(format!("its answer cannot be read: {error}")))
    }

    fn why_it_ended(mut self) -> Failure {
        // Its standard output is closed, so it is about to exit.
        let status = match self.child.wait_timeout(START_MAX) {
            Some(status) => status,
            None => return Failure::Crashed("it closed its output".into()),
        };
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match status.signal() {
            // No document makes it exit by itself.
            None => Failure::Start(if stderr.trim().is_empty() { status.to_string() } else { stderr.trim().to_owned() }),
            _ if stderr.contains("memory allocation of") => Failure::TooMuchMemory,
            Some(libc::SIGXCPU) => Failure::TooSlow,
            // A raised stack limit keeps Rust from recognising an overflow of the main thread; the code is safe Rust, so other causes are
            // unlikely.
            Some(libc::SIGSEGV | libc::SIGBUS) => Failure::Crashed("stack overflow".into()),
            _ if stderr.contains("overflowed its stack") => Failure::Crashed("stack overflow".into()),
            _ => Failure::Crashed(status.to_string()),
        }
    }
}

trait WaitTimeout {
    fn wait_timeout(&mut self, limit: Duration) -> Option<ExitStatus>;
}

impl WaitTimeout for Child {
    fn wait_timeout(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
