//! Opens one path component after the other without following links: a link is read, and its target replaces it in the path.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::Links;

/// The limit of Linux for one path.
const LINKS_MAX: usize = 40;
/// Each is an open descriptor during the walk.
const FOLDERS_MAX: usize = 128;

pub(crate) fn open(folder: impl AsFd, path: &Path, mut flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The remaining components, next one last; and the folders above.
    let mut parts = Vec::new();
    flags |= push_parts(&mut parts, path)?;
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut links_left = LINKS_MAX;
    while let Some(part) = parts.pop() {
        if part == ".." {
            folders.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = folders.last().map_or_else(|| folder.as_fd(), AsFd::as_fd);
        let is_last = parts.is_empty();
        let how = if is_last { flags } else { folder_flags } | OFlags::NOFOLLOW;
        match retry_on_intr(|| openat(here, &part, how, Mode::empty())) {
            Ok(opened) if is_last => return Ok(opened),
            Ok(_) if folders.len() == FOLDERS_MAX => return Err(Errno::NAMETOOLONG),
            Ok(opened) => folders.push(opened),
            Err(error) => {
                // Systems differ in the error for a link, so it is detected by reading it.
                let Ok(target) = readlinkat(here, &part, Vec::new()) else { return Err(error) };
                if links == Links::Refused || links_left == 0 {
                    return Err(Errno::LOOP);
                }
                links_left -= 1;
                let target_flags = push_parts(&mut parts, Path::new(OsStr::from_bytes(target.as_bytes())))?;
                if is_last {
                    flags |= target_flags;
                }
            }
        }
    }
    let here = folders.last().map_or_else(|| folder.as_fd(), AsFd::as_fd);
    retry_on_intr(|| openat(here, ".", flags, Mode::empty()))
}

/// Returns the flags required by the last component: a path that ends with a slash must be a folder.
fn push_parts(parts: &mut Vec<OsString>, path: &Path) -> Result<OFlags, Errno> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT);
    }
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => parts.push(name.to_owned()),
            Component::ParentDir => parts.push("..".into()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    let bytes = path.as_os_str().as_bytes();
    Ok(if bytes.ends_with(b"/") || bytes.ends_with(b"/.") { OFlags::DIRECTORY } else { OFlags::empty() })
}
