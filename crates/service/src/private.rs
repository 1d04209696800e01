//! Files and folders that only this account can read.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, set_permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a folder with missing parents. One that other accounts could read is made private.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let is_shared = folder.metadata()?.mode() & 0o077 != 0;
    if is_shared && let Err(error) = set_permissions(folder, Permissions::from_mode(0o700)) {
        tracing::warn!("other accounts may read {}: {error}", folder.display());
    }
    Ok(())
}

/// Replaces a file atomically.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are readable by this account only.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Opens a file for appending.
pub fn append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Creates a file that must not exist yet.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
