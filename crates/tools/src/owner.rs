//! The user of a call, and that user's folder where tools write for several.
//!
//! The user is in the call's `_meta`, which the hub sends to built-in servers only. The local user, and a call without a user, has the
//! folder itself; every other user has a subfolder, so that one user's files are not attached or overwritten for another.

use std::path::{Path, PathBuf};

use rmcp::model::RequestMetaObject;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// In a call's `_meta`: the user it is made for.
pub const META_USER: &str = "baton/user";

/// The local user, for runs that were started without a user name.
const LOCAL_USER: &str = "local";
/// The parent folder of all other users.
const USERS: &str = "users";
const NAME_CHARS_MAX: usize = 40;
const DIGEST_BYTES: usize = 16;

pub(crate) fn user_of(meta: &RequestMetaObject) -> Option<String> {
    meta.0.0.get(META_USER).and_then(Value::as_str).map(str::to_owned)
}

/// The part of a folder that belongs to a user.
pub fn own_folder(folder: &Path, user: Option<&str>) -> PathBuf {
    match user {
        None | Some(LOCAL_USER) => folder.to_owned(),
        Some(user) => folder.join(USERS).join(unique_name(user)),
    }
}

/// A single path component for any text: readable, and unique.
pub(crate) fn unique_name(text: &str) -> String {
    let readable: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(NAME_CHARS_MAX).collect();
    let digest: String = Sha256::digest(text.as_bytes()).iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    if readable.is_empty() { digest } else { format!("{readable}-{digest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_but_the_local_one_has_a_folder_below() {
        let folder = Path::new("documents");
        assert_eq!((own_folder(folder, None), own_folder(folder, Some("local"))), (folder.to_owned(), folder.to_owned()));
        for user in ["ada", "../..", "/etc", ".", "", "Ada"] {
            let own = own_folder(folder, Some(user));
            let name = own.strip_prefix("documents/users").unwrap().to_str().unwrap().to_owned();
            assert!(!name.is_empty() && !name.contains(['/', '.']), "{user}: {name}");
        }
        assert_ne!(own_folder(folder, Some("ada")), own_folder(folder, Some("a.da")));
    }
}
