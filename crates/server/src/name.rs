//! Names of files and users from outside: plain ones, or none.

use graph::UserId;

/// Bytes of a name; file systems take 255.
const BYTES_MAX: usize = 200;

/// The name, if it is one of a plain file: no path, nothing hidden, nothing that a terminal or another system would read differently.
pub fn plain(name: &str) -> Result<&str, String> {
    let is_bad = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|') || is_invisible(c);
    if name.is_empty() || name.len() > BYTES_MAX {
        return Err(format!("a file's name has 1 to {BYTES_MAX} bytes"));
    }
    if name.starts_with('.') || name.starts_with(' ') || name.ends_with('.') || name.ends_with(' ') {
        return Err("a file's name neither begins nor ends with a dot or a space".into());
    }
    match name.chars().find(|c| is_bad(*c)) {
        Some(c) => Err(format!("a file's name is no path and has no {:?} in it", c)),
        None => Ok(name),
    }
}

pub(crate) const USER_CHARS_MAX: usize = 64;

/// The name of a user, if it can also be a folder's.
pub fn user(name: &str) -> Result<UserId, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    match !name.is_empty() && name.len() <= USER_CHARS_MAX && name.chars().all(is_plain) && !name.starts_with('.') {
        true => Ok(UserId::from(name)),
        false => Err(format!("a user is 1 to {USER_CHARS_MAX} letters, digits and - _ . @ +, such as ada or ada@example.org")),
    }
}

/// Turns text around or hides it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_names() {
        for name in ["notes.md", "Übersicht 2024.pdf", "a", "日本.txt", "a..b.md"] {
            assert_eq!(plain(name), Ok(name));
        }
        let long = "x".repeat(BYTES_MAX + 1);
        for name in [
            "",
            ".",
            "..",
            "../etc/passwd",
            "/etc/passwd",
            "a/b.md",
            "a\\b.md",
            ".hidden",
            "a\0b",
            "a\nb",
            "C:x",
            "x.",
            " x",
            "a\u{202e}fdp.exe",
            &long,
        ] {
            assert!(plain(name).is_err(), "{name:?}");
        }
    }
}
