//! A server that is a child process, and everything it starts.
//!
//! It gets its own process group, so that a launcher such as `npx` does not leave the real server behind. Ending is asked for in three
//! ways, each harder: standard input closes, SIGTERM, SIGKILL. When nobody can wait (the runtime goes down) it is SIGKILL at once.
//! Only our own SIGKILL leaves a child that does not read its input; one that does ends by itself.
//!
//! A child sees a few harmless variables of our environment and what its configuration names; our keys are not among them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::bounded::{Bounded, LINE_BYTES_MAX};
use super::config::RedactedText;
use super::server::StderrTail;

/// What every child may see of our environment.
const SEEN: [&str; 17] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];
const ENDS_BY_ITSELF: Duration = Duration::from_secs(2);
const ENDS_AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// The longest line of standard error that is kept.
const STDERR_LINE_BYTES_MAX: u64 = 4 << 10;

pub(crate) struct ChildTransport {
    lines: AsyncRwTransport<RoleClient, Bounded<ChildStdout>, ChildStdin>,
    group: Group,
}

impl ChildTransport {
    pub(crate) fn spawn(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, RedactedText>,
        cwd: Option<&PathBuf>,
        stderr_tail: &Arc<StderrTail>,
    ) -> Result<Self, String> {
        let mut child = Command::new(command);
        child.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        child.env_clear().envs(SEEN.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        child.envs(env.iter().map(|(name, value)| (name, value.reveal())));
        child.process_group(0).kill_on_drop(true);
        if let Some(cwd) = cwd {
            child.current_dir(cwd);
        }
        let mut child = child.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("the command {command:?} was not found; install it or give its full path"),
            _ => format!("the command {command:?} cannot be started: {error}"),
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(format!("the command {command:?} has no pipes"));
        };
        // Everything it prints has to be read, or it stops when the pipe is full.
        stderr_tail.set_open(true);
        tokio::spawn(listen(stderr, stderr_tail.clone()));
        let lines = AsyncRwTransport::new_client(Bounded::new(stdout, stderr_tail.clone()), stdin).with_max_line_length(LINE_BYTES_MAX);
        Ok(ChildTransport { lines, group: Group { child: Some(child) } })
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = std::io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        self.lines.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.lines.receive()
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.lines.close().await?;
        self.group.end().await;
        Ok(())
    }
}

/// The child and whatever it started.
struct Group {
    child: Option<Child>,
}

impl Group {
    async fn end(&mut self) {
        let Some(child) = self.child.as_mut() else { return };
        let group = id(child);
        if tokio::time::timeout(ENDS_BY_ITSELF, child.wait()).await.is_err() {
            signal(group, Signal::TERM);
            // Whether it ended or not, the rest of the group is killed below.
            let _ = tokio::time::timeout(ENDS_AFTER_SIGNAL, child.wait()).await;
        }
        signal(group, Signal::KILL);
        // Collects the child, or it would stay in the process table.
        let _ = child.wait().await;
        self.child = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // tokio collects the child itself afterwards (`kill_on_drop`).
        if let Some(child) = &self.child {
            signal(id(child), Signal::KILL);
        }
    }
}

/// The group has the number of its first process.
fn id(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // There may be nobody left, which is what was wanted.
        let _ = kill_process_group(group, signal);
    }
}

async fn listen(stderr: tokio::process::ChildStderr, stderr_tail: Arc<StderrTail>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr).take(STDERR_LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return stderr_tail.set_open(false),
            Ok(_) => stderr_tail.note(String::from_utf8_lossy(&line).trim_end().to_owned()),
        }
    }
}
