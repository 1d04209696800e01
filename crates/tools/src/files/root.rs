//! The root's descriptor and all operations beneath it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode as Bits, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use super::glob::Glob;
use crate::ToolError;
use crate::beneath::{self, Links};
use crate::time::rfc3339;

const PATH_BYTES_MAX: usize = 4_000;
const NAME_BYTES_MAX: usize = 255;
const PATTERN_BYTES_MAX: usize = 256;
const ENTRIES_MAX: usize = 1_000;
const FOUND_MAX: usize = 200;
const VISITED_MAX: usize = 50_000;
const DEPTH_MAX: usize = 40;
/// Limits of the text in one reply, and of the part of a file in which lines are counted.
const READ_BYTES_MAX: usize = 96 << 10;
const SCAN_BYTES_MAX: u64 = 256 << 20;
const FILE_BYTES_MAX: u64 = 8 << 20;

const DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Does not block on a pipe and does not acquire a controlling terminal.
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

pub(crate) struct Root {
    root: OwnedFd,
    /// The last part of its path.
    name: String,
}

/// What happens to an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// An error, unless it has exactly the new content.
    Create,
    Replace,
    Append,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

impl Entry {
    pub(super) fn line(&self) -> String {
        match self.kind {
            EntryKind::File => format!("{} ({} bytes)", self.path, self.bytes),
            EntryKind::Folder => format!("{}/", self.path),
            EntryKind::Link => format!("{} (a link)", self.path),
            EntryKind::Other => format!("{} (not a file)", self.path),
        }
    }
}

pub(super) struct Part {
    pub(super) text: String,
    pub(super) lines: usize,
    pub(super) next_line: Option<usize>,
    pub(super) at: Option<String>,
}

impl Root {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn open(path: &Path) -> Result<Root, String> {
        let root = fs::open(path, DIR, Bits::empty()).map_err(|error| format!("the folder {} cannot be opened: {error}", path.display()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let root = Root { root, name };
        // Fails now instead of at the first call.
        root.resolve(".", DIR, Links::Inside).map_err(|error| format!("this system cannot keep paths beneath a folder ({error})"))?;
        Ok(root)
    }

    pub(super) fn list(&self, path: &str) -> Result<(Vec<Entry>, bool), ToolError> {
        let path = checked(path)?;
        let dir = self.resolve(path, DIR, Links::Inside).map_err(|error| explain(path, error))?;
        let mut entries = Vec::new();
        let mut cut = false;
        for (name, stat) in entries_of(dir.as_fd()).map_err(|error| explain(path, error))? {
            if entries.len() == ENTRIES_MAX {
                cut = true;
                break;
            }
            entries.push(entry(name, &stat));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, cut))
    }

    pub(super) fn read(&self, path: &str, from_line: usize, lines: usize) -> Result<Part, ToolError> {
        let path = checked(path)?;
        let (file, stat) = self.plain_file(path)?;
        only_name(path, &stat)?;
        let mut reader = BufReader::new(file.take(SCAN_BYTES_MAX));
        let begin = reader.fill_buf().map_err(|error| ToolError(format!("`{path}` cannot be read: {error}")))?;
        if begin.contains(&0) {
            return Err(ToolError(format!("`{path}` is not a text file")));
        }
        let mut part = lines_of(&mut reader, from_line, lines).map_err(|error| ToolError(format!("`{path}` cannot be read: {error}")))?;
        if part.lines == 0 && from_line > 1 {
            return Err(ToolError(format!("`{path}` has no line {from_line}; read it from line 1")));
        }
        part.at = rfc3339(stat.st_mtime);
        Ok(part)
    }

    /// Returns the size of the file afterwards.
    pub(crate) fn write(&self, path: &str, content: &[u8], mode: WriteMode) -> Result<u64, ToolError> {
        let path = checked(path)?;
        let (folder, name) = parent_and_name(path)?;
        let dir = self.made(folder).map_err(|error| explain(folder, error))?;
        // An append reads, joins and replaces the whole file, so concurrent ones are serialized.
        let _alone = (mode == WriteMode::Append).then(|| alone(&dir)).transpose().map_err(|error| explain(folder, error))?;
        let there = match fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(explain(path, error)),
        };
        if let Some(stat) = &there {
            match kind_of(stat) {
                EntryKind::File if mode == WriteMode::Create => return self.created(path, content),
                EntryKind::File => {}
                EntryKind::Folder => return Err(ToolError(format!("`{path}` is a folder; name a file in it"))),
                EntryKind::Link => return Err(ToolError(format!("`{path}` is a link, and links are not written through; write to the file itself"))),
                EntryKind::Other => return Err(ToolError(format!("`{path}` is not a file"))),
            }
        }
        let mut before = Vec::new();
        if mode == WriteMode::Append && there.is_some() {
            let opened = fs::openat(&dir, name, LOOK | OFlags::NOFOLLOW, Bits::empty()).map_err(|error| explain(path, error))?;
            let stat = fs::fstat(&opened).map_err(|error| explain(path, error))?;
            if kind_of(&stat) != EntryKind::File || stat.st_nlink > 1 {
                return Err(ToolError(format!("`{path}` is not a plain file with one name; replace it with mode `replace`")));
            }
            File::from(opened)
                .take(FILE_BYTES_MAX + 1)
                .read_to_end(&mut before)
                .map_err(|error| ToolError(format!("`{path}` cannot be read: {error}")))?;
        }
        let size = (before.len() + content.len()) as u64;
        if size > FILE_BYTES_MAX {
            return Err(ToolError(format!("`{path}` would have {size} bytes, more than the {FILE_BYTES_MAX} allowed; write several files")));
        }
        let bits = Bits::from_raw_mode(there.map_or(0o644, |stat| stat.st_mode & 0o777));
        put(dir.as_fd(), name, [&before, content], bits, mode == WriteMode::Create).map_err(|error| match error {
            Errno::EXIST => taken(path),
            error => explain(path, error),
        })?;
        Ok(size)
    }

    /// An existing file with exactly this content was created by the same call before.
    fn created(&self, path: &str, content: &[u8]) -> Result<u64, ToolError> {
        let (file, _) = self.plain_file(path)?;
        let mut there = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut there).map_err(|error| ToolError(format!("`{path}` cannot be read: {error}")))?;
        if there == content { Ok(content.len() as u64) } else { Err(taken(path)) }
    }

    pub(super) fn find(&self, pattern: &str) -> Result<(Vec<Entry>, bool), ToolError> {
        let pattern = pattern.trim().trim_start_matches("./");
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX || pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(ToolError(format!(
                "`pattern` must be what a path under the root looks like, such as `*.md` or `notes/**/*.txt`, of at most {PATTERN_BYTES_MAX} bytes"
            )));
        }
        let glob = Glob::new(pattern).map_err(|_| ToolError("`pattern` is too long; use fewer wildcards".into()))?;
        let mut found = Vec::new();
        let is_cut = self.walk(|path, stat| {
            if found.len() == FOUND_MAX {
                return false;
            }
            if glob.fits(&path) {
                found.push(entry(path, stat));
            }
            true
        });
        Ok((found, is_cut))
    }

    /// Every file and folder, within the limits of a walk.
    pub(crate) fn files(&self) -> Result<Vec<Entry>, ToolError> {
        let mut found = Vec::new();
        self.walk(|path, stat| {
            found.push(entry(path, stat));
            true
        });
        Ok(found)
    }

    /// A regular file, whole.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        let path = checked(path)?;
        let (file, stat) = self.plain_file(path)?;
        only_name(path, &stat)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| ToolError(format!("`{path}` cannot be read: {error}")))?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(ToolError(format!("`{path}` has more than the {FILE_BYTES_MAX} bytes that are read at once"))),
            false => Ok(bytes),
        }
    }

    /// Visits everything below the root, in order, without following links, until `visit` returns `false`. Returns whether something was
    /// left out.
    fn walk(&self, mut visit: impl FnMut(String, &Stat) -> bool) -> bool {
        let mut visited = 0;
        let mut is_cut = false;
        let mut folders = vec![(String::new(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let path = if folder.is_empty() { "." } else { &folder };
            // Removed or not readable: skipped.
            let Ok(dir) = self.resolve(path, DIR, Links::Refused) else { continue };
            let Ok(entries) = entries_of(dir.as_fd()) else { continue };
            let mut inner = Vec::new();
            let mut here: Vec<(String, Stat)> = entries.collect();
            here.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, stat) in here {
                visited += 1;
                if visited > VISITED_MAX {
                    return true;
                }
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if kind_of(&stat) == EntryKind::Folder {
                    if depth + 1 < DEPTH_MAX {
                        inner.push((path.clone(), depth + 1));
                    } else {
                        is_cut = true;
                    }
                }
                if !visit(path, &stat) {
                    return true;
                }
            }
            folders.extend(inner.into_iter().rev());
        }
        is_cut
    }

    fn plain_file(&self, path: &str) -> Result<(File, Stat), ToolError> {
        let opened = self.resolve(path, LOOK, Links::Inside).map_err(|error| explain(path, error))?;
        let stat = fs::fstat(&opened).map_err(|error| explain(path, error))?;
        match kind_of(&stat) {
            EntryKind::File => Ok((File::from(opened), stat)),
            EntryKind::Folder => Err(ToolError(format!("`{path}` is a folder; use `list` for it"))),
            EntryKind::Link | EntryKind::Other => Err(ToolError(format!("`{path}` is not a file that can be read (a pipe, a device or a socket)"))),
        }
    }

    /// Opens the folder, creating missing ones, without following links.
    fn made(&self, folder: &str) -> Result<OwnedFd, Errno> {
        let mut dir = self.resolve(".", DIR, Links::Refused)?;
        for part in Path::new(folder).components() {
            let Component::Normal(name) = part else { continue };
            match fs::mkdirat(&dir, name, Bits::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            dir = beneath::open(&dir, Path::new(name), DIR, Links::Refused)?;
        }
        Ok(dir)
    }

    fn resolve(&self, path: &str, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
        beneath::open(&self.root, Path::new(path), flags, links)
    }
}

/// Atomic: written to a temporary file, synced, then renamed.
fn put(dir: BorrowedFd<'_>, name: &OsStr, content: [&[u8]; 2], bits: Bits, only_new: bool) -> Result<(), Errno> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let beside = format!(".baton-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match fs::openat(dir, &beside, flags, Bits::from_raw_mode(0o600)) {
        // Left by a crashed process with the same id.
        Err(Errno::EXIST) => {
            fs::unlinkat(dir, &beside, AtFlags::empty())?;
            fs::openat(dir, &beside, flags, Bits::from_raw_mode(0o600))?
        }
        end => end?,
    };
    let fill = || {
        let mut file = File::from(opened);
        let written = content.into_iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_all());
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fs::fchmod(&file, bits)?;
        let how = if only_new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        fs::renameat_with(dir, &beside, dir, name, how)
    };
    let end = fill();
    if end.is_err() {
        // The first error is the one to report.
        let _ = fs::unlinkat(dir, &beside, AtFlags::empty());
        return end;
    }
    fs::fsync(dir)
}

fn lines_of(reader: &mut impl std::io::BufRead, from_line: usize, lines: usize) -> std::io::Result<Part> {
    let mut text: Vec<u8> = Vec::new();
    let mut line = 1;
    // Start of the current line in `text`; `None` between lines.
    let mut begun: Option<usize> = None;
    let mut next_line = None;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        if line >= from_line.saturating_add(lines) {
            next_line = Some(line);
            break;
        }
        // Up to the next line or the end of the buffer.
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        if line >= from_line {
            let begin = *begun.get_or_insert(text.len());
            let room = READ_BYTES_MAX - text.len();
            if piece.len() > room {
                if line == from_line {
                    // A line longer than a whole reply is cut, otherwise the reader could not get past it.
                    text.extend_from_slice(&piece[..room]);
                    text.extend_from_slice("… (the rest of this line is left out)".as_bytes());
                    line += 1;
                } else {
                    text.truncate(begin);
                }
                begun = None;
                next_line = Some(line);
                break;
            }
            text.extend_from_slice(piece);
        }
        let used = piece.len();
        reader.consume(used);
        if end.is_some() {
            line += 1;
            begun = None;
        }
    }
    // The last line of a file need not end with a newline.
    let past = if begun.is_some() { line + 1 } else { line };
    let lines = past.saturating_sub(from_line);
    let text = String::from_utf8_lossy(&text).trim_end_matches(['\n', '\r']).to_owned();
    Ok(Part { text, lines, next_line, at: None })
}

fn entries_of(dir: BorrowedFd<'_>) -> Result<impl Iterator<Item = (String, Stat)>, Errno> {
    let held = dir.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let entries = Dir::read_from(dir)?;
    Ok(entries.filter_map(Result::ok).filter_map(move |entry| {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return None;
        }
        let stat = fs::statat(&held, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((name.to_string_lossy().into_owned(), stat))
    }))
}

fn entry(path: String, stat: &Stat) -> Entry {
    Entry { path, kind: kind_of(stat), bytes: u64::try_from(stat.st_size).unwrap_or(0) }
}

fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// Locks the folder against concurrent appends, also of other processes.
fn alone(dir: impl AsFd) -> rustix::io::Result<OwnedFd> {
    let lock = fs::openat(dir, ".", LOOK | OFlags::DIRECTORY, Bits::empty())?;
    rustix::io::retry_on_intr(|| fs::flock(&lock, FlockOperation::LockExclusive))?;
    Ok(lock)
}

/// Rejects paths that the kernel or a planner would misinterpret.
fn checked(path: &str) -> Result<&str, ToolError> {
    if path.is_empty() {
        return Err("`path` is empty; `.` is the root".into());
    }
    if path.contains('\0') {
        return Err("`path` has a NUL character in it; give a plain path such as `notes/plan.md`".into());
    }
    if let Some(inside) = path.strip_prefix('/') {
        return Err(ToolError(format!(
            "`{path}` is absolute; paths are relative to the root, so try `{}`",
            if inside.is_empty() { "." } else { inside }
        )));
    }
    if path.len() > PATH_BYTES_MAX || path.split('/').any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(ToolError(format!("`path` is too long: {PATH_BYTES_MAX} bytes in all and {NAME_BYTES_MAX} for each name are allowed")));
    }
    Ok(path)
}

fn parent_and_name(path: &str) -> Result<(&str, &OsStr), ToolError> {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    if matches!(name, "" | "." | "..") || folder.split('/').any(|part| part == "..") {
        return Err(ToolError(format!("`{path}` does not name a file; give a path under the root without `..`, such as `notes/plan.md`")));
    }
    if name.starts_with(".baton-") {
        return Err(ToolError(format!("names beginning with `.baton-` are kept for unfinished writes; call `{path}` something else")));
    }
    Ok((folder, OsStr::from_bytes(name.as_bytes())))
}

fn only_name(path: &str, stat: &Stat) -> Result<(), ToolError> {
    match stat.st_nlink > 1 {
        true => Err(ToolError(format!("`{path}` has several hard links, so its other name may be outside the root; make a copy and read that"))),
        false => Ok(()),
    }
}

fn taken(path: &str) -> ToolError {
    ToolError(format!("`{path}` is already there and holds something else; use mode `replace`, the tool `append`, or another name"))
}

fn explain(path: &str, error: Errno) -> ToolError {
    ToolError(match error {
        Errno::NOENT => format!("`{path}` is not there; `list` and `find` show what is"),
        Errno::XDEV => format!("`{path}` leads out of the root, which is not allowed"),
        Errno::LOOP => format!("`{path}` goes through a link that is not followed"),
        Errno::NOTDIR => format!("`{path}` is not a folder, or goes through something that is none"),
        Errno::ISDIR => format!("`{path}` is a folder"),
        Errno::ACCESS | Errno::PERM => format!("there is no right to `{path}`"),
        Errno::NXIO | Errno::NODEV => format!("`{path}` is not a file that can be read (a pipe, a device or a socket)"),
        Errno::AGAIN => format!("`{path}` is being renamed all the time; try again"),
        Errno::NAMETOOLONG => format!("`{path}` is too long"),
        error => format!("`{path}`: {error}"),
    })
}
