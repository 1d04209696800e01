//! Opens a path beneath a folder and nothing outside it, whatever symbolic links it contains and even if they change meanwhile.
//!
//! `linux.rs` leaves that to the kernel (`openat2`). `other.rs` opens one component after the other, each relative to the descriptor of the
//! one before.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
#[path = "linux.rs"]
mod system;
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
#[path = "other.rs"]
mod system;

pub(crate) use system::open;

/// Treatment of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Followed as long as they stay beneath the folder.
    Inside,
    /// An error (`ELOOP`).
    Refused,
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    use super::*;

    fn opened(folder: &Path, path: &str, links: Links) -> Result<String, Errno> {
        let folder = File::open(folder).unwrap();
        let file = open(&folder, Path::new(path), OFlags::RDONLY | OFlags::CLOEXEC, links)?;
        let mut text = String::new();
        match File::from(file).read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => Ok("a folder".into()),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    #[test]
    fn paths_and_links_stay_beneath_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        fs::write(root.join("a/file"), "inside").unwrap();
        symlink("a/file", root.join("link")).unwrap();
        symlink("../file", root.join("a/b/up")).unwrap();
        symlink("a/b", root.join("folder")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("../../secret", root.join("a/out")).unwrap();
        symlink(place.path().join("secret"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let cases = [
            ("a/file", Ok("inside"), Ok("inside")),
            ("./a//b/../file", Ok("inside"), Ok("inside")),
            (".", Ok("a folder"), Ok("a folder")),
            ("a/..", Ok("a folder"), Ok("a folder")),
            ("link", Ok("inside"), Err(Errno::LOOP)),
            ("folder/up", Ok("inside"), Err(Errno::LOOP)),
            ("folder/../file", Ok("inside"), Err(Errno::LOOP)),
            ("..", Err(Errno::XDEV), Err(Errno::XDEV)),
            ("../root/a/file", Err(Errno::XDEV), Err(Errno::XDEV)),
            ("a/../../secret", Err(Errno::XDEV), Err(Errno::XDEV)),
            ("/etc/hostname", Err(Errno::XDEV), Err(Errno::XDEV)),
            ("out", Err(Errno::XDEV), Err(Errno::LOOP)),
            ("a/out", Err(Errno::XDEV), Err(Errno::LOOP)),
            ("absolute", Err(Errno::XDEV), Err(Errno::LOOP)),
            ("loop", Err(Errno::LOOP), Err(Errno::LOOP)),
            ("nothing", Err(Errno::NOENT), Err(Errno::NOENT)),
            ("a/file/x", Err(Errno::NOTDIR), Err(Errno::NOTDIR)),
            ("a/file/", Err(Errno::NOTDIR), Err(Errno::NOTDIR)),
            ("a/b/", Ok("a folder"), Ok("a folder")),
        ];
        for (path, inside, refused) in cases {
            assert_eq!(opened(&root, path, Links::Inside).as_deref(), inside.as_ref().map(|text| *text), "{path}");
            assert_eq!(opened(&root, path, Links::Refused).as_deref(), refused.as_ref().map(|text| *text), "{path} without links");
        }
    }

    /// A folder that is repeatedly replaced by a link to the outside while paths through it are opened.
    #[test]
    fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("door")).unwrap();
        fs::create_dir_all(place.path().join("outside")).unwrap();
        fs::write(root.join("door/file"), "inside").unwrap();
        fs::write(place.path().join("outside/file"), "secret").unwrap();
        symlink("../outside", root.join("trap")).unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (door, trap, aside) = (root.join("door"), root.join("trap"), root.join("aside"));
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    for (from, to) in [(&door, &aside), (&trap, &door), (&door, &trap), (&aside, &door)] {
                        fs::rename(from, to).unwrap();
                    }
                }
            });
            for _ in 0..3_000 {
                match opened(&root, "door/file", Links::Inside) {
                    Ok(text) => assert_eq!(text, "inside"),
                    Err(error) => assert!([Errno::XDEV, Errno::NOENT, Errno::AGAIN, Errno::NOTDIR, Errno::LOOP].contains(&error), "{error}"),
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
