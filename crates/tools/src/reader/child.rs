//! The reader process: gives up every right it does not need, then reads one job after the other from its standard input.
//!
//! It needs memory and its three pipes, so no call that opens a file, a connection or a process is left to it.

use std::fs;
use std::io;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use super::{frame, job};
use crate::code::sandbox;

/// Passed to the child as its last argument.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Limits {
    /// On top of what the program itself takes.
    pub(super) memory_mib_max: u64,
    pub(super) stack_mib_max: u64,
    /// Over its whole life.
    pub(super) cpu_seconds_max: u64,
    /// It ends with this process.
    pub(super) parent: i32,
}

/// Runs as a reader and never returns. `arguments` are those after [`super::READER_COMMAND`]. To be called before anything else is set up:
/// no runtime, no threads.
pub fn reader_main(arguments: &[String]) -> ! {
    enter(arguments, serve)
}

/// Gives up all rights and limits itself, then runs `body` and ends.
pub fn enter(arguments: &[String], body: impl FnOnce() -> io::Result<()>) -> ! {
    let limits = match arguments {
        [limits] => serde_json::from_str(limits).map_err(|error| error.to_string()),
        _ => Err("a reader is started by Baton itself, with its limits".into()),
    };
    let ended = limits.and_then(|limits| confine(&limits)).and_then(|()| body().map_err(|error| error.to_string()));
    match ended {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(super::worker::FAILED);
        }
    }
}

fn serve() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    while let Some(job) = frame::read(&mut from)? {
        let bytes = frame::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let result = job::perform(serde_json::from_slice(&job)?, &bytes);
        drop(bytes);
        frame::write(&mut to, &serde_json::to_vec(&result)?)?;
    }
    Ok(())
}

fn confine(limits: &Limits) -> Result<(), String> {
    let explain = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(explain("ending with the parent"))?;
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(limits.parent) {
        return Err("the parent has ended".into());
    }
    rustix::thread::set_no_new_privs(true).map_err(explain("no new privileges"))?;
    sandbox::close_inherited().map_err(|error| format!("closing inherited files: {error}"))?;
    // Where memory of the whole machine or service runs out, this process is ended before its parent. Best effort, and only while dumpable.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(explain("not dumpable"))?;
    let taken = sandbox::memory_now().map_err(|error| format!("reading its own size: {error}"))?;
    let mib = 1 << 20;
    let resources = [
        (Resource::Core, 0),
        (Resource::As, taken + limits.memory_mib_max * mib),
        (Resource::Stack, limits.stack_mib_max * mib),
        (Resource::Cpu, limits.cpu_seconds_max.max(1)),
        (Resource::Fsize, 0),
        (Resource::Nofile, 16),
        (Resource::Nproc, 0),
        (Resource::Memlock, 0),
    ];
    for (resource, max) in resources {
        // One that is lower already stays.
        let max = rustix::process::getrlimit(resource).maximum.map_or(max, |now| now.min(max));
        rustix::process::setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) }).map_err(explain("limits"))?;
    }
    // On a kernel without Landlock, the list of allowed calls already keeps files and the network away.
    let _ = sandbox::landlock(None);
    sandbox::seccomp(sandbox::Calls::PipesOnly).map_err(|error| format!("seccomp: {error}"))
}
