//! The server process, and its numbers from the system and from its own metrics.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

const SCRIPT: &str = include_str!("world.script");
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Server {
    process: Child,
    pub(super) url: String,
    http: reqwest::Client,
    folder: tempfile::TempDir,
}

/// A sample of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    pub at_s: f64,
    /// Resident memory.
    pub memory_kib: u64,
    /// Open files and sockets.
    pub files: u64,
    /// Threads of the operating system.
    pub threads: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// Runs in memory.
    pub runs: u64,
    pub streams: u64,
}

impl Server {
    pub(super) fn start(baton: &Path) -> Result<Server, String> {
        let words = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let folder = tempfile::tempdir().map_err(|e| words("no folder", &e))?;
        let script = folder.path().join("world.script");
        std::fs::write(&script, SCRIPT).map_err(|e| words("the script cannot be written", &e))?;
        let log = File::create(folder.path().join("log")).map_err(|e| words("no log", &e))?;
        let mut process = Command::new(baton)
            .args(["serve", "--port", "0", "--json", "--db"])
            .arg(folder.path().join("baton.db"))
            .arg("--script")
            .arg(&script)
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .env("XDG_CONFIG_HOME", folder.path().join("config"))
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .env_remove("BATON_TOKEN")
            .env_remove("BATON_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{} cannot be started: {e}; build it, or name it with --baton", baton.display()))?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|e| words("the server printed nothing", &e))?;
        }
        let printed: Value = serde_json::from_str(&line).map_err(|e| format!("the server printed {line:?}: {e}"))?;
        let url = printed["url"].as_str().ok_or_else(|| format!("no address in {line:?}"))?.to_owned();
        // Each sample has its own connection, so that every sample has the same number open.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(PATIENCE).build().map_err(|e| e.to_string())?;
        Ok(Server { process, url, http, folder })
    }

    /// Its exit status, if it has exited.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    pub(super) async fn sample(&self, at: Duration) -> Result<Sample, String> {
        let response = self.http.get(format!("{}/metrics", self.url)).send().await.map_err(|e| format!("{e:?}"))?;
        let text = response.text().await.map_err(|e| format!("{e:?}"))?;
        let number = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
            found.ok_or_else(|| format!("/metrics has no {name}"))
        };
        let id = self.process.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).map_err(|e| format!("/proc/{id}: {e}"))?;
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).map_err(|e| format!("/proc/{id}/fd: {e}"))?.count();
        Ok(Sample {
            at_s: at.as_secs_f64(),
            memory_kib: of("VmRSS:").ok_or("no VmRSS")?,
            files: files as u64,
            threads: of("Threads:").ok_or("no Threads")?,
            tasks: number("baton_tasks")?,
            runs: number("baton_runs_going")?,
            streams: number("baton_streams")?,
        })
    }

    /// Its warnings: the first of each kind and the count.
    pub(super) fn warnings(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
