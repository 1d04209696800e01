//! Landlock, seccomp and the limits of the reader process on Linux.

use std::fs;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Pid, Resource, Signal};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

use super::{ReaderLimits, lower_limit};

/// Leaves a reader only memory and its three pipes: afterwards no system call that opens a file, a connection or a process is allowed.
pub(crate) fn confine_reader(limits: &ReaderLimits) -> Result<(), String> {
    let explain = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(explain("ending with the parent"))?;
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(limits.parent) {
        return Err("the parent has ended".into());
    }
    rustix::thread::set_no_new_privs(true).map_err(explain("no new privileges"))?;
    close_inherited().map_err(|error| format!("closing inherited files: {error}"))?;
    // If memory runs out, this process is killed before its parent. Best effort, and only while dumpable.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(explain("not dumpable"))?;
    let taken = memory_now().map_err(|error| format!("reading its own size: {error}"))?;
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
        lower_limit(resource, max).map_err(explain("limits"))?;
    }
    // On a kernel without Landlock, the system call filter already blocks files and the network.
    let _ = landlock(None);
    seccomp(Calls::PipesOnly).map_err(|error| format!("seccomp: {error}"))
}

/// Denies the network and every file except those below `scratch`.
pub(crate) fn landlock(scratch: Option<&Path>) -> Result<(), String> {
    let abi = ABI::V6;
    let mine = AccessFs::from_all(abi)
        & !(AccessFs::Execute
            | AccessFs::MakeSym
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::IoctlDev
            | AccessFs::Refer);
    let build = || -> Result<RulesetStatus, landlock::RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(abi))?;
        let ruleset = ruleset.handle_access(AccessNet::from_all(abi))?.scope(Scope::from_all(abi))?.create()?;
        let ruleset = match scratch.map(PathFd::new) {
            Some(Ok(fd)) => ruleset.add_rule(PathBeneath::new(fd, mine))?,
            // Without its scratch folder it has no files at all.
            Some(Err(_)) | None => ruleset,
        };
        Ok(ruleset.restrict_self()?.ruleset)
    };
    match build() {
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has none".into()),
        Ok(_) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

/// Only the listed system calls are allowed. None of these starts a process, opens a connection, traces or signals another process, creates
/// a link, or makes writable memory executable.
pub(crate) fn seccomp(calls: Calls) -> Result<(), String> {
    let file_calls = if calls == Calls::PipesAndFiles { FILE_CALLS } else { &[] };
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().chain(file_calls).map(|call| (*call, Vec::new())).collect();
    let only = |index, op, value| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        Ok(vec![SeccompRule::new(vec![SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)?])?])
    };
    let build = || -> Result<BpfProgram, seccompiler::BackendError> {
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, only(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?);
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        rules.insert(libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, own as u64)?);
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
    };
    let program = build().map_err(|e| e.to_string())?;
    seccompiler::apply_filter(&program).map_err(|e| e.to_string())
}

/// The system calls left to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// It cannot open files.
    PipesOnly,
    #[cfg_attr(not(feature = "code"), expect(dead_code, reason = "only programs have files"))]
    PipesAndFiles,
}

const ALLOWED: &[i64] = &[
    // Its pipes.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_fcntl,
    // Memory (mmap and mprotect are added without the right to execute).
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    // Time, random numbers, its own thread and exit.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

const FILE_CALLS: &[i64] = &[
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_ftruncate,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];

/// Closes all inherited descriptors besides the three pipes.
pub(crate) fn close_inherited() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The descriptor used for listing is closed already.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}

pub(crate) fn memory_now() -> io::Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Ok(pages * rustix::param::page_size() as u64)
}
