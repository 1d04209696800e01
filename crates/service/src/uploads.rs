//! The folders that users upload documents to.

/// A user's name where it is a plain one, as `baton tokens add` requires; of any other its bytes in hex, after a colon that no plain name has.
pub fn folder_name(user: &str) -> String {
    match server::name::plain(user) {
        Ok(name) => name.to_owned(),
        Err(_) => format!("x:{}", user.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// Whose folder it is; `None` where it is nobody's.
pub(crate) fn user_of(folder: &str) -> Option<graph::UserId> {
    if let Ok(name) = server::name::plain(folder) {
        return Some(graph::UserId::from(name));
    }
    let digits = folder.strip_prefix("x:")?;
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok().map(graph::UserId::from)
}

#[cfg(test)]
mod tests {
    use super::{folder_name, user_of};

    #[test]
    fn different_users_have_different_folders() {
        assert_eq!((folder_name("ada").as_str(), folder_name("x2e").as_str(), folder_name(".").as_str()), ("ada", "x2e", "x:2e"));
        for user in ["..", "a/b", "/etc", "", "x:2e"] {
            let name = folder_name(user);
            assert!(name.starts_with("x:") && !name.contains('/'), "{user}: {name}");
            assert_eq!(user_of(&name).as_ref().map(graph::UserId::as_str), Some(user));
        }
    }
}
