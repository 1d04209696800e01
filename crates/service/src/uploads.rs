//! The folders that users upload documents to.

/// A user's name if it is a plain one, as `baton tokens add` requires; otherwise its bytes in hex, after a colon that no plain name has.
pub fn folder_name(user: &str) -> String {
    match server::name::plain(user) {
        Ok(name) => name.to_owned(),
        Err(_) => format!("x:{}", user.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn different_users_have_different_folders() {
        assert_eq!((folder_name("ada").as_str(), folder_name("x2e").as_str(), folder_name(".").as_str()), ("ada", "x2e", "x:2e"));
        for user in ["..", "a/b", "/etc", "", "x:2e"] {
            let name = folder_name(user);
            assert!(name.starts_with("x:") && !name.contains('/'), "{user}: {name}");
        }
    }
}
