//! Attempts to escape with system calls; each reports its result.

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use baton_tools::code::sandbox::{Limits, Restrictions};
use rustix::process::{Pid, Signal};

/// `outside` is a listening port and the parent folder of the scratch, as `PORT:FOLDER`.
pub(crate) fn probe(outside: &str, limits: &Limits, walls: &Restrictions) {
    let (port, folder) = outside.split_once(':').unwrap_or_default();
    let port: u16 = port.parse().unwrap_or(9);
    println!("walls {}", serde_json::to_string(walls).unwrap_or_default());
    let here = limits.scratch.as_path();
    let parent = Pid::from_raw(limits.parent).unwrap_or(Pid::INIT);

    // These must work, so that the rest is meaningful.
    let own = fs::write(here.join("mine"), "x");
    report("its own scratch can be used", own.is_err(), &format!("{own:?}"));

    escape("read /etc/passwd", fs::read("/etc/passwd"));
    escape("read /proc/1/environ", fs::read("/proc/1/environ"));
    escape("read /proc/self/environ", fs::read("/proc/self/environ"));
    escape("read the parent's memory", File::open(format!("/proc/{}/mem", limits.parent)));
    escape("list /", fs::read_dir("/etc"));
    escape("write to /tmp", fs::write("/tmp/baton-escaped", "x"));
    escape("write beside the scratch", fs::write(Path::new(folder).join("escaped"), "x"));
    escape("climb out with ..", fs::read(here.join("../../../../../../etc/passwd")));
    escape("symbolic link", symlink("/etc/passwd", here.join("link")).and_then(|()| fs::read(here.join("link"))));
    escape("hard link", fs::hard_link("/etc/passwd", here.join("hard")));
    escape("device", File::open("/dev/sda").or(File::open("/dev/mem")));

    escape("connect over TCP", TcpStream::connect(("127.0.0.1", port)));
    escape("UDP", UdpSocket::bind("0.0.0.0:0"));
    escape("UNIX socket", UnixStream::connect("/run/dbus/system_bus_socket"));
    escape("socket pair", UnixStream::pair());

    escape("start a program", Command::new("/bin/true").status());
    escape("become a program", Err::<(), _>(Command::new("/bin/true").exec()));
    let own = here.join("own");
    let made = fs::write(&own, "#!/bin/sh\n").and_then(|()| fs::set_permissions(&own, fs::Permissions::from_mode(0o755)));
    escape("run what it wrote", made.and_then(|()| Command::new(&own).status()));
    // Any process that starts shows in the number.
    let bombs = (0..200).filter(|_| Command::new("/bin/sleep").arg("60").spawn().is_ok()).count();
    report("fork bomb", bombs > 0, &format!("{bombs} processes"));
    let threads = (0..200).filter(|_| thread::Builder::new().spawn(|| {}).is_ok()).count();
    report("thread bomb", threads > 0, &format!("{threads} threads"));

    escape("signal to the parent", rustix::process::kill_process(parent, Signal::KILL));
    escape("signal to everybody's first", rustix::process::kill_process(Pid::INIT, Signal::TERM));
    escape("signal to the group", rustix::process::kill_current_process_group(Signal::TERM));
    escape("see whether the parent runs", rustix::process::test_kill_process(parent));
    escape("trace", nix::sys::ptrace::traceme());

    escape("mount", rustix::mount::mount("none", "/", "tmpfs", rustix::mount::MountFlags::empty(), None));
    escape("change root", rustix::process::chroot("/"));
    // Deprecated because of threads; here it must fail.
    #[allow(deprecated)]
    let unshared = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER);
    escape("new namespace", unshared);
    escape("raise a limit", rustix::process::setrlimit(rustix::process::Resource::As, rustix::process::Rlimit { current: None, maximum: None }));
    escape("another user", rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(12345)));
    let rights = rustix::thread::capabilities(None);
    report("rights", rights.as_ref().is_ok_and(|sets| !sets.permitted.is_empty()), &format!("{rights:?}"));
    let environment = std::env::vars().count();
    report("environment", environment > 0, &format!("{environment} variables"));

    let mut held: Vec<Vec<u8>> = Vec::new();
    let mib = 1 << 20;
    // Ten gigabytes in pieces that are really used.
    while held.len() < 10 * 64 {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(16 * mib).is_err() {
            break;
        }
        piece.resize(16 * mib, 1_u8);
        held.push(piece);
    }
    let got = held.len() as u64 * 16;
    drop(held);
    // Memory mapped when the limit was set counts in addition, and some of it is freed later.
    const SLACK_MIB: u64 = 64;
    report("memory bomb", got > limits.memory_mib_max + SLACK_MIB, &format!("{got} MiB"));

    // The last one: without namespaces, the kernel kills the process at the limit.
    let mut written = 0;
    if let Ok(mut file) = File::create(here.join("big")) {
        let piece = vec![1_u8; mib];
        while written < 10 * 1024 && file.write_all(&piece).is_ok() {
            written += 1;
            if written > limits.scratch_mib_max + 1 {
                break;
            }
        }
    }
    report("file bomb", written > limits.scratch_mib_max, &format!("{written} MiB"));
}

fn escape<T, E: std::fmt::Display>(what: &str, tried: Result<T, E>) {
    match tried {
        Ok(_) => report(what, true, "it worked"),
        Err(e) => report(what, false, &e.to_string()),
    }
}

fn report(what: &str, escaped: bool, how: &str) {
    println!("{} {what}: {how}", if escaped { "ESCAPED" } else { "contained" });
}
