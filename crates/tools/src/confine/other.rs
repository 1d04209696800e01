//! Limits of the reader process on any Unix. Files and the network stay reachable; a document that crashes its parser, or exceeds memory or
//! time, ends only this process.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, Resource};

use super::{ReaderLimits, lower_limit};

/// How often the process measures its own memory: few systems enforce such a limit.
const MEASURE_EVERY: Duration = Duration::from_millis(20);

/// Limits memory, processor time, open files and new processes of this process.
pub(crate) fn confine_reader(limits: &ReaderLimits) -> Result<(), String> {
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(limits.parent) {
        return Err("the parent has ended".into());
    }
    let taken = memory_peak().map_err(|error| format!("reading its own size: {error}"))?;
    let mib = 1 << 20;
    watch_memory(taken + limits.memory_mib_max * mib, limits.memory_mib_max)?;
    lower_limit(Resource::Cpu, limits.cpu_seconds_max.max(1)).map_err(|error| format!("limits: {error}"))?;
    // Not every system has each of these.
    let wanted = [
        (Resource::Core, 0),
        (Resource::Data, taken + limits.memory_mib_max * mib),
        (Resource::Stack, limits.stack_mib_max * mib),
        (Resource::Fsize, 0),
        (Resource::Nofile, 16),
        (Resource::Nproc, 0),
    ];
    for (resource, max) in wanted {
        let _ = lower_limit(resource, max);
    }
    Ok(())
}

/// Exits when memory exceeds `bytes_max`. The text on standard error is the one by which the parent recognises a failed allocation.
fn watch_memory(bytes_max: u64, mib_max: u64) -> Result<(), String> {
    let watch = move || {
        loop {
            if memory_peak().is_ok_and(|bytes| bytes > bytes_max) {
                eprintln!("memory allocation of more than {mib_max} MiB");
                std::process::abort();
            }
            std::thread::sleep(MEASURE_EVERY);
        }
    };
    std::thread::Builder::new().name("memory".into()).spawn(watch).map(drop).map_err(|error| format!("watching its memory: {error}"))
}

/// Peak resident memory of this process, in bytes.
fn memory_peak() -> nix::Result<u64> {
    // macOS reports bytes, all others KiB.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1 << 10 };
    Ok(u64::try_from(getrusage(UsageWho::RUSAGE_SELF)?.max_rss()).unwrap_or(0) * unit)
}
