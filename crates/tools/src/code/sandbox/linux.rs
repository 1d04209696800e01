//! Sandbox of a worker on Linux: the process enters it before it reads the program.
//!
//! ```text
//! parent ── exec ──► outer: parent-death signal, new namespaces ── exec ──► inner: PID 1 of its namespace
//!                     (waits, passes on the exit status)                     only a scratch folder, no network, no
//!                                                                           capabilities, limits, few system calls
//! ```
//!
//! A parent-death signal is sent only for a parent that ends after it was requested. Both processes therefore check, after requesting it,
//! that their parent is still the one that started them.
//!
//! Each restriction that a kernel or container does not allow is reported with the reason. Two are mandatory: the system call filter
//! (seccomp), and one of the two that block files (an own root, or Landlock).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{DumpableBehavior, Pid, Resource, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::{Limits, Restrictions};
use crate::confine::{Calls, close_inherited, landlock, lower_limit, memory_now, seccomp};

impl Restrictions {
    fn note<T>(&mut self, wall: &str, built: &Result<T, impl std::fmt::Display>) -> bool {
        match built {
            Ok(_) => self.up.push(wall.into()),
            Err(e) => self.missing.push(format!("{wall}: {e}")),
        }
        built.is_ok()
    }
}

/// Missing kernel features are detected when a worker starts.
pub(super) const UNSUPPORTED: Option<&str> = None;

const INNER: &str = "inner";

/// Enters the sandbox and runs `body` there; never returns. `arguments` follow the name of the command. Must be called first in `main`:
/// namespaces cannot be created once there are threads.
pub fn enter(arguments: &[String], body: impl FnOnce(&Limits, &Restrictions)) -> ! {
    let ended = match arguments {
        [limits] => serde_json::from_str(limits).map_err(|e| e.to_string()).and_then(|limits| outer(&limits)),
        [limits, inner, outer, walls] if inner == INNER => {
            let read = serde_json::from_str(limits).and_then(|limits: Limits| Ok((limits, serde_json::from_str(walls)?)));
            read.map_err(|e| e.to_string()).and_then(|(mut limits, walls)| {
                let walls = close_in(&mut limits, outer, walls)?;
                body(&limits, &walls);
                Ok(0)
            })
        }
        _ => Err("a worker is started by Baton itself, with its limits".into()),
    };
    match ended {
        Ok(code) => std::process::exit(code),
        Err(why) => {
            eprintln!("sandbox: {why}");
            std::process::exit(70);
        }
    }
}

/// Creates the namespaces and starts the program again inside: the first process of a PID namespace must be a child.
fn outer(limits: &Limits) -> Result<i32, String> {
    let failed_step = |what: &'static str| move |e: rustix::io::Errno| format!("{what}: {e}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed_step("dying with the parent"))?;
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(limits.parent) {
        return Err(PARENT_ENDED.into());
    }
    // Inherited by the inner process, so that no part of it runs without this limit.
    lower_limit(Resource::Cpu, limits.cpu_seconds_max.max(1)).map_err(failed_step("processor time"))?;
    rustix::thread::set_no_new_privs(true).map_err(failed_step("no new privileges"))?;
    close_inherited().map_err(|e| format!("closing what was inherited: {e}"))?;
    let mut walls = Restrictions { up: vec!["no new privileges".into()], missing: Vec::new() };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let apart =
        UnshareFlags::NEWUSER | UnshareFlags::NEWPID | UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // Deprecated because of threads that share open files; there is one thread, and files are not among the flags.
    #[allow(deprecated)]
    let unshared = rustix::thread::unshare(apart);
    if walls.note("namespaces (user, process, mount, network, ipc)", &unshared) {
        // Root inside its namespace, so that it may mount; unprivileged outside.
        let mapped = fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {user} 1")))
            .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")));
        if let Err(e) = mapped {
            walls.missing.push(format!("mapping of the user: {e}"));
        }
    }
    let walls = serde_json::to_string(&walls).map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| format!("finding this program: {e}"))?;
    let own_pid = fs::read_link("/proc/self").map_err(|e| format!("reading its own process id: {e}"))?;
    let status = Command::new(program).args(std::env::args_os().skip(1)).arg(INNER).arg(own_pid).arg(walls).env_clear().status();
    let status = status.map_err(|e| format!("starting the inner process: {e}"))?;
    // A signal is reported like a shell does.
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

const PARENT_ENDED: &str = "the parent has ended";

/// The first process of a PID namespace has no parent there, so that `getppid` returns 0; `/proc`, mounted outside of the namespace, names it.
fn parent_in_proc() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.map(|pid| pid.trim().to_owned()).ok_or_else(|| io::Error::other("/proc/self/status names no parent"))
}

/// The remaining restrictions, in the order in which each is still possible. `outer` is the process that started this one, as `/proc` names it.
fn close_in(limits: &mut Limits, outer: &str, mut walls: Restrictions) -> Result<Restrictions, String> {
    let failed_step = |what: &'static str| move |e: rustix::io::Errno| format!("{what}: {e}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed_step("dying with the parent"))?;
    if parent_in_proc().map_err(|e| format!("reading its parent: {e}"))? != outer {
        return Err(PARENT_ENDED.into());
    }
    let own_world = rustix::process::getpid().as_raw_nonzero().get() == 1;
    let here = memory_now().map_err(|e| format!("reading its own size: {e}"))?;
    let rooted = own_world && walls.note("a root of its own", &own_root(limits));
    if rooted {
        limits.scratch = PathBuf::from("/");
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed_step("not dumpable"))?;
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, none).map_err(failed_step("giving up rights"))?;
    walls.up.push("no rights (capabilities)".into());

    let mib = 1 << 20;
    let resources = [
        (Resource::Core, 0),
        (Resource::As, here + limits.memory_mib_max * mib),
        (Resource::Cpu, limits.cpu_seconds_max.max(1)),
        (Resource::Fsize, limits.scratch_mib_max * mib),
        (Resource::Nofile, 32),
        (Resource::Nproc, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
    ];
    for (resource, max) in resources {
        lower_limit(resource, max).map_err(failed_step("limits"))?;
    }
    walls.up.push("limits (processor, memory, files, processes)".into());
    let locked = walls.note("landlock", &landlock(Some(&limits.scratch)));
    if !rooted && !locked {
        return Err(format!("nothing here keeps files away, so nothing is run: {}", walls.missing.join("; ")));
    }
    seccomp(Calls::PipesAndFiles).map_err(|e| format!("seccomp: {e}"))?;
    walls.up.push("allowed calls (seccomp)".into());
    Ok(walls)
}

/// An empty file system in memory as the only one.
fn own_root(limits: &Limits) -> io::Result<()> {
    let scratch = limits.scratch.as_path();
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let size = CString::new(format!("size={}m,nr_inodes=10000,mode=0700", limits.scratch_mib_max)).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("scratch", scratch, "tmpfs", flags, size.as_c_str())?;
    std::env::set_current_dir(scratch)?;
    // The old root is stacked on the new one, and is unmounted.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}
