//! Prefixes of prompts in files beside the weights, so that a new process need not read again the instructions that earlier ones read.
//!
//! ```text
//!   WEIGHTS.prefixes/seen.json        hashes of the instructions of the last calls: no text
//!   WEIGHTS.prefixes/HASH.prefix      tokens, and what the network computed for them
//! ```
//!
//! Only instructions are kept (a prompt's first message), and of them only what two calls with different questions had in common: what a user wrote does not
//! get here. A file counts for exactly these weights and kernels; one that is damaged is removed. What cannot be written is not kept, and nothing else
//! depends on it.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Tokens whose hash is compared: prefixes are kept in multiples of this.
const BLOCK: usize = 16;
/// Shorter ones are computed about as fast as they are read.
const TOKENS_MIN: usize = 64;
/// A file must save at least so many tokens more than what is known without it.
const GAIN_MIN: usize = 32;
const TOKENS_MAX: usize = 2_048;
const FILES_MAX: usize = 12;
const FILES_BYTES_MAX: u64 = 256 << 20;
const SEEN_MAX: usize = 48;
const SEEN_BYTES_MAX: u64 = 1 << 20;
const LEFT_OVER_AGE: Duration = Duration::from_secs(3_600);
const MAGIC: &[u8; 8] = b"BATONKV1";
const HASH_BYTES: usize = 32;

/// Which weights and kernels a file is for.
pub(super) type Identity = [u8; HASH_BYTES];

pub(super) struct PrefixFiles {
    folder: PathBuf,
    identity: Identity,
    seen: Vec<CallHashes>,
    kept: Vec<PrefixFile>,
}

/// The instructions of one call, and what came after them.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct CallHashes {
    /// Hashes of the first 16 tokens, the first 32, and so on.
    blocks: Vec<u64>,
    rest: u64,
}

struct PrefixFile {
    path: PathBuf,
    tokens: Vec<u32>,
    bytes: u64,
    used: SystemTime,
}

/// What the network computed for some tokens can be written and read.
pub(super) trait Stored: Sized {
    /// Writes the first `len` tokens.
    fn write(&self, len: usize, to: &mut impl Write) -> io::Result<()>;
    /// What was written of `len` tokens, in room for `capacity`.
    fn read(&self, len: usize, capacity: usize, from: &mut impl Read) -> io::Result<Self>;
}

/// Weights by their size and time, and their first bytes; `with` is what else the numbers depend on.
pub(super) fn identity(weights: &Path, with: &str) -> io::Result<Identity> {
    let file = File::open(weights)?;
    let meta = file.metadata()?;
    let mut hash = Sha256::new();
    hash.update(MAGIC);
    hash.update(meta.len().to_le_bytes());
    hash.update(meta.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes());
    hash.update(with.as_bytes());
    let mut head = Vec::new();
    file.take(1 << 16).read_to_end(&mut head)?;
    hash.update(&head);
    Ok(hash.finalize().into())
}

impl PrefixFiles {
    pub(super) fn open(weights: &Path, identity: Identity) -> Self {
        let mut name = weights.file_name().unwrap_or_default().to_owned();
        name.push(".prefixes");
        let folder = weights.with_file_name(name);
        let mut files = PrefixFiles { seen: read_seen(&folder.join("seen.json")), folder, identity, kept: Vec::new() };
        files.list();
        files
    }

    fn list(&mut self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.iter().filter(|path| is_left_over(path)).for_each(|path| remove(path));
        let paths = paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "prefix"));
        // Of other weights or other kernels they are left for those, until they are the oldest.
        self.kept = paths.filter_map(|path| read_kept(&path, &self.identity)).collect();
    }

    /// The file that begins as the prompt does for the most tokens, if that is worth reading where `known` tokens are known anyway.
    pub(super) fn find(&self, prompt: &[u32], known: usize) -> Option<(usize, usize)> {
        let readable = &prompt[..prompt.len().saturating_sub(1)];
        let common = |kept: &PrefixFile| kept.tokens.iter().zip(readable).take_while(|(a, b)| a == b).count();
        let best = self.kept.iter().enumerate().map(|(at, kept)| (common(kept), at)).max()?;
        (best.0 >= TOKENS_MIN && best.0 >= known + GAIN_MIN).then_some((best.1, best.0))
    }

    /// What the file at this place of the list holds, in room for `capacity` tokens; `like` is of the same kind.
    pub(super) fn load<S: Stored>(&mut self, at: usize, capacity: usize, like: &S) -> Option<S> {
        let kept = self.kept.get_mut(at)?;
        match read_file(kept, capacity, like) {
            Ok(stored) => {
                kept.used = SystemTime::now();
                // The time of use is only for the order in which files go.
                if let Err(error) = File::open(&kept.path).and_then(|file| file.set_modified(kept.used)) {
                    tracing::debug!("{} cannot be marked as used: {error}", kept.path.display());
                }
                Some(stored)
            }
            Err(error) => {
                tracing::debug!("{} is dropped: {error}", kept.path.display());
                let kept = self.kept.swap_remove(at);
                remove(&kept.path);
                None
            }
        }
    }

    /// Records a call, and returns how many tokens of its instructions are worth keeping: those which another call with another question began with too.
    pub(super) fn observe(&mut self, instructions: &[u32], rest: &[u32]) -> Option<usize> {
        let instructions = &instructions[..instructions.len().min(TOKENS_MAX)];
        let now = CallHashes { blocks: block_hashes(instructions), rest: short_hash(rest) };
        let common = |seen: &CallHashes| seen.blocks.iter().zip(&now.blocks).take_while(|(a, b)| a == b).count() * BLOCK;
        let shared = self.seen.iter().filter(|seen| seen.rest != now.rest).map(common).max().unwrap_or(0);
        if !self.seen.contains(&now) {
            self.seen.push(now);
            let over = self.seen.len().saturating_sub(SEEN_MAX);
            self.seen.drain(..over);
            self.save_seen();
        }
        let covered = self.find(instructions, 0).map_or(0, |(_, len)| len);
        (shared >= TOKENS_MIN && shared >= covered + GAIN_MIN).then_some(shared)
    }

    pub(super) fn keep<S: Stored>(&mut self, tokens: &[u32], stored: &S) {
        let path =
            self.folder.join(format!("{:016x}.prefix", short_hash(tokens) ^ u64::from_le_bytes(self.identity[..8].try_into().unwrap_or_default())));
        match write_file(&path, &self.identity, tokens, stored) {
            Ok(bytes) => {
                // A shorter one of the same beginning is of no more use.
                let (shorter, kept) = std::mem::take(&mut self.kept).into_iter().partition(|kept: &PrefixFile| tokens.starts_with(&kept.tokens));
                self.kept = kept;
                shorter.iter().filter(|kept: &&PrefixFile| kept.path != path).for_each(|kept| remove(&kept.path));
                self.kept.push(PrefixFile { path, tokens: tokens.to_vec(), bytes, used: SystemTime::now() });
                bound(&self.folder);
                self.kept.retain(|kept| kept.path.exists());
            }
            Err(error) => tracing::debug!("a prefix is not kept in {}: {error}", self.folder.display()),
        }
    }

    fn save_seen(&self) {
        let written = serde_json::to_vec(&self.seen).map_err(io::Error::other).and_then(|json| {
            create_folder(&self.folder)?;
            replace(&self.folder.join("seen.json"), |file| file.write_all(&json))
        });
        if let Err(error) = written {
            tracing::debug!("what was seen of prompts is not kept in {}: {error}", self.folder.display());
        }
    }
}

/// Half written by a process that ended long ago.
fn is_left_over(path: &Path) -> bool {
    let is_partial = path.extension().is_some_and(|extension| extension.to_string_lossy().starts_with("partial-"));
    let age = || fs::metadata(path).and_then(|meta| meta.modified()).ok()?.elapsed().ok();
    is_partial && age().is_some_and(|age| age > LEFT_OVER_AGE)
}

fn read_seen(path: &Path) -> Vec<CallHashes> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut seen: Vec<CallHashes> = serde_json::from_reader(file.take(SEEN_BYTES_MAX)).unwrap_or_default();
    seen.truncate(SEEN_MAX);
    seen
}

fn short_hash(tokens: &[u32]) -> u64 {
    let mut hash = Sha256::new();
    tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
    first_bytes(&hash)
}

fn first_bytes(hash: &Sha256) -> u64 {
    hash.clone().finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn block_hashes(tokens: &[u32]) -> Vec<u64> {
    let mut hash = Sha256::new();
    let block = |block: &[u32]| {
        block.iter().for_each(|token| hash.update(token.to_le_bytes()));
        first_bytes(&hash)
    };
    tokens.chunks_exact(BLOCK).map(block).collect()
}

/// The head of a file: whose it is, and its tokens.
fn read_head(from: &mut impl Read) -> io::Result<(Identity, Vec<u32>)> {
    let mut magic = [0; MAGIC.len()];
    let mut identity = [0; HASH_BYTES];
    let mut count = [0; 4];
    from.read_exact(&mut magic)?;
    from.read_exact(&mut identity)?;
    from.read_exact(&mut count)?;
    let count = u32::from_le_bytes(count) as usize;
    if &magic != MAGIC || !(1..=TOKENS_MAX).contains(&count) {
        return Err(io::Error::other("it is not a prefix file"));
    }
    let mut bytes = vec![0; count * 4];
    from.read_exact(&mut bytes)?;
    let (tokens, _) = bytes.as_chunks::<4>();
    Ok((identity, tokens.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()))
}

fn read_kept(path: &Path, identity: &Identity) -> Option<PrefixFile> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let (whose, tokens) = read_head(&mut BufReader::new(file)).ok()?;
    (&whose == identity).then(|| PrefixFile {
        path: path.to_owned(),
        tokens,
        bytes: meta.len(),
        used: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
    })
}

/// Reads or writes, and hashes what passes.
struct HashingStream<T> {
    inner: T,
    hash: Sha256,
}

impl<R: Read> Read for HashingStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

impl<W: Write> Write for HashingStream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn read_file<S: Stored>(kept: &PrefixFile, capacity: usize, like: &S) -> io::Result<S> {
    let mut from = HashingStream { inner: BufReader::with_capacity(1 << 20, File::open(&kept.path)?), hash: Sha256::new() };
    let (_, tokens) = read_head(&mut from)?;
    if tokens != kept.tokens {
        return Err(io::Error::other("it is another file now"));
    }
    let stored = like.read(tokens.len(), capacity, &mut from)?;
    let mut end = [0; HASH_BYTES];
    from.inner.read_exact(&mut end)?;
    let is_whole = from.hash.finalize().as_slice() == end && kept.bytes == fs::metadata(&kept.path)?.len();
    if is_whole { Ok(stored) } else { Err(io::Error::other("it is damaged")) }
}

fn write_file<S: Stored>(path: &Path, identity: &Identity, tokens: &[u32], stored: &S) -> io::Result<u64> {
    create_folder(path.parent().unwrap_or(Path::new(".")))?;
    let count = u32::try_from(tokens.len()).map_err(io::Error::other)?;
    replace(path, |file| {
        let mut to = HashingStream { inner: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new() };
        to.write_all(MAGIC)?;
        to.write_all(identity)?;
        to.write_all(&count.to_le_bytes())?;
        tokens.iter().try_for_each(|token| to.write_all(&token.to_le_bytes()))?;
        stored.write(tokens.len(), &mut to)?;
        let HashingStream { mut inner, hash } = to;
        inner.write_all(&hash.finalize())?;
        inner.flush()
    })?;
    Ok(fs::metadata(path)?.len())
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a file under another name first, so that no reader sees half of it.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&partial).and_then(|mut file| write(&mut file)).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        remove(&partial);
    }
    written
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("{} cannot be removed: {error}", path.display());
    }
}

/// Removes the files that were used longest ago, until number and size are within the limits. Files that a process left half written count too.
fn bound(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let of = |entry: fs::DirEntry| {
        let meta = entry.metadata().ok()?;
        let path = entry.path();
        (path.file_name()? != "seen.json").then(|| (meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), path))
    };
    let mut files: Vec<_> = entries.flatten().filter_map(of).collect();
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut count = files.len();
    for (_, size, path) in files {
        if count <= FILES_MAX && bytes <= FILES_BYTES_MAX {
            return;
        }
        remove(&path);
        (count, bytes) = (count - 1, bytes - size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte a token.
    #[derive(Clone, Debug, PartialEq)]
    struct Bytes(Vec<u8>);

    impl Stored for Bytes {
        fn write(&self, len: usize, to: &mut impl Write) -> io::Result<()> {
            to.write_all(&self.0[..len])
        }

        fn read(&self, len: usize, capacity: usize, from: &mut impl Read) -> io::Result<Self> {
            let mut bytes = vec![0; len];
            from.read_exact(&mut bytes)?;
            bytes.truncate(capacity);
            Ok(Bytes(bytes))
        }
    }

    fn open(folder: &Path) -> PrefixFiles {
        PrefixFiles::open(&folder.join("weights.gguf"), [7; HASH_BYTES])
    }

    fn tokens(count: u32, from: u32) -> Vec<u32> {
        (from..from + count).collect()
    }

    #[test]
    fn what_two_questions_share_is_kept_for_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let instructions = tokens(200, 1);
        assert_eq!(open(folder.path()).observe(&instructions, &[1]), None, "nothing is shared yet");
        assert_eq!(open(folder.path()).observe(&instructions, &[1]), None, "the same question again is no other question");
        let mut other = instructions[..150].to_vec();
        other.extend(tokens(60, 900));
        let mut files = open(folder.path());
        assert_eq!(files.observe(&other, &[2]), Some(144), "whole blocks");
        files.keep(&other[..144], &Bytes(vec![5; 144]));
        assert_eq!(files.observe(&other, &[3]), Some(208), "all of it is shared with the second call now");

        let mut files = open(folder.path());
        let prompt = [&instructions[..], &[42]].concat();
        assert_eq!(files.find(&prompt, 0), Some((0, 144)));
        assert_eq!(files.find(&prompt, 120), None, "too little is gained");
        assert_eq!(files.find(&tokens(200, 500), 0), None);
        assert_eq!(files.load(0, 500, &Bytes(Vec::new())), Some(Bytes(vec![5; 144])));
    }

    #[test]
    fn a_damaged_file_is_removed_and_another_models_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = open(folder.path());
        files.keep(&tokens(64, 1), &Bytes(vec![5; 64]));
        assert!(PrefixFiles::open(&folder.path().join("weights.gguf"), [8; HASH_BYTES]).kept.is_empty());
        let path = files.kept[0].path.clone();
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - HASH_BYTES - 3;
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(open(folder.path()).load(0, 100, &Bytes(Vec::new())), None);
        assert!(!path.exists());
        for garbage in [&b""[..], b"BATONKV1", &[255; 200]] {
            fs::write(&path, garbage).unwrap();
            assert!(open(folder.path()).kept.is_empty());
        }
    }

    #[test]
    fn files_are_bounded_and_a_longer_prefix_replaces_a_shorter_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = open(folder.path());
        for at in 0..20 {
            files.keep(&tokens(64, at * 1_000), &Bytes(vec![1; 64]));
        }
        assert!(files.kept.len() <= FILES_MAX && open(folder.path()).kept.len() <= FILES_MAX);
        let before = files.kept.len();
        let newest = files.kept.iter().map(|kept| kept.tokens[0]).max().unwrap();
        files.keep(&tokens(80, newest), &Bytes(vec![1; 80]));
        assert_eq!(files.kept.len(), before);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).keep(&tokens(64, 1), &Bytes(vec![5; 64]));
        let left = open(folder.path()).folder.join("a.partial-1");
        fs::write(&left, "x").unwrap();
        open(folder.path());
        assert!(left.exists(), "it may be another process's");
        File::options().write(true).open(&left).unwrap().set_modified(SystemTime::now() - 2 * LEFT_OVER_AGE).unwrap();
        open(folder.path());
        assert!(!left.exists());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut files = open(folder.path());
        files.keep(&tokens(64, 1), &Bytes(vec![5; 64]));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files.folder), mode(&files.kept[0].path)), (0o700, 0o600));
    }
}
