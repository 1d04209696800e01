//! A key that can be used and not shown: no `Display`, no `Serialize`, and a `Debug` that says nothing.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// `None` for what is only white space: an empty variable is a key that was not given.
    pub fn new(text: &str) -> Option<Secret> {
        let text = text.trim();
        (!text.is_empty()).then(|| Secret(text.to_owned()))
    }

    /// For the one line that puts it into a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Other people's error texts now and then repeat the key they were given.
    pub fn struck_from(&self, text: &str) -> String {
        // A very short key is a placeholder such as `x`, and striking it would garble every sentence.
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
