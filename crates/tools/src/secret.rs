//! A key that cannot be printed: no `Display`, no `Serialize`, and an empty `Debug`.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// `None` for white space: an empty variable counts as unset.
    pub fn new(text: &str) -> Option<Secret> {
        let text = text.trim();
        (!text.is_empty()).then(|| Secret(text.to_owned()))
    }

    /// For the line that puts it into a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Removes the key from a text; error messages of providers may repeat it.
    pub fn struck_from(&self, text: &str) -> String {
        // A very short key is a placeholder such as `x`, and removing it would garble every sentence.
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
