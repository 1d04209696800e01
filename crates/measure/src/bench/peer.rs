//! LangGraph as a peer: installed from PyPI into a virtual environment, measured by small scripts that do the same work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use service::{Result, ServiceError};
use terminal::remark;

use super::report::ENGINE;
use super::setup::BenchSetup;
use super::wrong;

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Peer {
    Langgraph,
}

const PINNED: [&str; 3] = ["langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2", "aiosqlite"];

/// A peer that can be measured.
pub(crate) struct Ready {
    python: PathBuf,
}

impl Peer {
    pub(crate) fn ready(self) -> Result<Ready> {
        let Peer::Langgraph = self;
        Ok(Ready { python: environment("bench-langgraph", &PINNED)? })
    }
}

/// A Python with these packages in a virtual environment, created if missing.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let cache = dirs::cache_dir().ok_or_else(|| ServiceError::Failed("this user has no cache folder for the peer's environment".into()))?;
    let folder = cache.join("baton").join(name);
    let (python, mark) = (folder.join("bin").join("python"), folder.join("installed"));
    // Written last, so that an interrupted installation is repeated.
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == packages.join(" ")) && python.exists() {
        return Ok(python);
    }
    remark(&format!("installing {} into {}", packages.join(", "), folder.display()));
    std::fs::create_dir_all(&folder)?;
    run(
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder),
        "python3 with its venv module is needed (Debian: apt install python3-venv)",
    )?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&python).args(pip).args(packages), "PyPI must be reachable for this first time")?;
    std::fs::write(&mark, packages.join(" "))?;
    Ok(python)
}

impl Ready {
    pub(crate) fn version(&self) -> String {
        PINNED[0].replace("==", " ")
    }

    /// Runs a script in a separate process; it prints one JSON object with our keys.
    pub(crate) fn measure(&self, name: &str, script: &str, setup: &BenchSetup) -> Result<Vec<(&'static str, f64)>> {
        let place = setup.place()?;
        let path = place.path().join(format!("{name}.py"));
        std::fs::write(&path, script)?;
        let mut command = Command::new(&self.python);
        command.arg(&path).args(setup.sizes.is_quick.then_some("quick")).current_dir(place.path());
        // Otherwise it would look for a trace server.
        command.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
        let printed = run(&mut command, "the peer's script failed")?;
        let line = printed.lines().last().unwrap_or_default();
        let Ok(Value::Object(object)) = serde_json::from_str(line) else { return Err(wrong(format!("the peer printed {line:?}"))) };
        let known = |key: &str| ENGINE.iter().map(|number| number.key).find(|known| *known == key);
        object.iter().map(|(key, number)| Ok((known(key).ok_or_else(|| wrong(key))?, number.as_f64().ok_or_else(|| wrong(number))?))).collect()
    }
}

fn run(command: &mut Command, need: &str) -> Result<String> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| ServiceError::Failed(format!("{program} cannot be run: {error}; {need}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(8)..].join("\n  ");
    Err(ServiceError::Failed(format!("{program} failed ({}); {need}:\n  {end}", output.status)))
}
