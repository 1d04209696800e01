//! The kernel resolves the path.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::Links;

/// The kernel returns `EAGAIN` when something is renamed during resolution.
const TRIES_MAX: usize = 64;

pub(crate) fn open(folder: impl AsFd, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let how = match links {
        Links::Inside => inside,
        Links::Refused => inside | ResolveFlags::NO_SYMLINKS,
    };
    let open = || openat2(&folder, path, flags, Mode::empty(), how);
    for _ in 1..TRIES_MAX {
        match open() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            end => return end,
        }
    }
    open()
}
