//! Locations of indexes: the user's cache folder, because everything in it can be created again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use index::{Folders, Limits, Model};

use crate::error::{Result, ServiceError};
use crate::private;
use crate::reader;

/// An index that was not opened for this long is removed; it is built again when its folder is searched.
const UNUSED_INDEX_AGE: Duration = Duration::from_secs(60 * 86_400);

/// The vectors of tools.
pub(crate) fn tool_vectors_file() -> Result<PathBuf> {
    let folder = cache()?;
    private::make_folder(&folder).map_err(|error| ServiceError::Failed(format!("{}: {error}", folder.display())))?;
    Ok(folder.join("tools.vectors"))
}

/// One index over these folders. Full text can be searched at once; vectors are filled in behind it.
pub fn open_folders(folders: &[PathBuf]) -> Result<Folders> {
    let home = match folders {
        [folder] => index_folder(folder)?,
        several => {
            let canonical: Result<Vec<PathBuf>> = several.iter().map(|folder| canonical(folder)).collect();
            index_folder_named(&canonical?.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join("+"))?
        }
    };
    let folders = Folders::open(folders, &home, &Model::builtin(), Limits::default()).map_err(|error| ServiceError::Usage(error.to_string()))?;
    if let Err(error) = index::remove_unused(&indexes()?, UNUSED_INDEX_AGE) {
        tracing::warn!("indexes that are no longer used could not be removed: {error}");
    }
    Ok(folders.with_reader(reader::for_index()?))
}

/// The index of one folder, named after its full path.
pub fn index_folder(folder: &Path) -> Result<PathBuf> {
    index_folder_named(&canonical(folder)?.to_string_lossy())
}

fn canonical(folder: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(folder)
        .map_err(|error| ServiceError::Usage(format!("the documents {} cannot be read: {error}; name another folder or file", folder.display())))
}

fn index_folder_named(folder: &str) -> Result<PathBuf> {
    let spelled: String = folder.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    // A hash distinguishes folders with the same short name; long names are cut at the left.
    let sum = folder.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let tail: String = spelled.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
    Ok(indexes()?.join(format!("{}-{sum:016x}", tail.trim_matches('-'))))
}

/// Where all indexes are.
pub fn indexes() -> Result<PathBuf> {
    Ok(cache()?.join("index"))
}

/// The folder of an evaluation.
pub fn eval_folder(name: &str) -> Result<PathBuf> {
    Ok(cache()?.join("eval").join(name))
}

fn cache() -> Result<PathBuf> {
    let cache = dirs::cache_dir().ok_or_else(|| ServiceError::Failed("this user has no cache folder for indexes; set XDG_CACHE_HOME".into()))?;
    Ok(cache.join("baton"))
}
