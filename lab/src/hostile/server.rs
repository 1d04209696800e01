//! The server as a process with a limit on its memory.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::requests;

const SCRIPT: &str = include_str!("../soak/world.script");

pub(super) struct Server {
    process: Child,
    pub(super) url: String,
    baton: PathBuf,
    folder: tempfile::TempDir,
}

impl Server {
    /// `prlimit` of util-linux limits the data of the process: everything that it allocates and writes to.
    pub(super) fn start(baton: &Path, memory_bytes_max: u64) -> Result<Server, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let script = folder.path().join("world.script");
        // The first rule that fits wins.
        let hostile =
            requests::answers().into_iter().map(|(question, answer)| format!("when model answer text~{question} reply {}\n", Value::from(answer)));
        std::fs::write(&script, hostile.chain([SCRIPT.to_owned()]).collect::<String>()).map_err(|error| error.to_string())?;
        let log = File::create(folder.path().join("log")).map_err(|error| error.to_string())?;
        let mut command = Command::new("prlimit");
        command.arg(format!("--data={memory_bytes_max}")).arg(baton).args([
            "serve",
            "--port",
            "0",
            "--json",
            "--token",
            "the-operator-of-the-lab",
            "--script",
        ]);
        command.arg(&script);
        let mut process = at_home(&mut command, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("prlimit {}: {error}; build baton, or name it with --baton", baton.display()))?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let printed: Value = serde_json::from_str(&line).map_err(|error| {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            format!("the server printed {line:?}: {error}\n{log}")
        })?;
        let url = printed["url"].as_str().ok_or_else(|| format!("no address in {line:?}"))?.to_owned();
        Ok(Server { process, url, baton: baton.to_owned(), folder })
    }

    /// A token for a user.
    pub(super) fn token(&self, user: &str) -> Result<String, String> {
        let mut command = Command::new(&self.baton);
        let output = at_home(command.args(["tokens", "add", user, "--json"]), self.folder.path()).output().map_err(|error| error.to_string())?;
        let printed: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("baton tokens add: {error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        printed["token"].as_str().map(str::to_owned).ok_or_else(|| "baton tokens add printed no token".to_owned())
    }

    pub(super) fn ended(&mut self) -> Option<String> {
        match self.process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                Some(format!("{status}; the last lines of its log: {last:?}"))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    pub(super) fn memory_kib(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// The most that was ever in use.
    pub(super) fn peak_kib(&self) -> u64 {
        self.status("VmHWM:").unwrap_or_default()
    }

    fn status(&self, name: &str) -> Option<u64> {
        // `prlimit` becomes the program that it starts, so that this is the server itself.
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    }
}

fn at_home<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    for (name, value) in [("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")] {
        command.env(name, folder.join(value));
    }
    command.env("BATON_DB", folder.join("baton.db")).env("BATON_NO_PULL", "1").env_remove("BATON_TOKEN").env_remove("BATON_LOG")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone, or it goes now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
