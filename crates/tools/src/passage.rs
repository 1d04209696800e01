//! Passages as tools return them: evidence against which an answer is checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One passage, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "a comment would become part of the schema of the tool")]
pub struct Passage {
    /// The words themselves.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where a person finds it: a web address or a file's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Where in there: a heading, lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// When it was written or last changed, as far as the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// From 0 to 1: how well it fits what was asked, not how true it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Passages as text: numbered, each with its title and location.
pub struct Passages<'p>(pub &'p [Passage]);

impl std::fmt::Display for Passages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, passage) in self.0.iter().enumerate() {
            let parts = [&passage.title, &passage.place, &passage.at, &passage.address];
            let head: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
            let gap = if at == 0 { "" } else { "\n\n" };
            write!(f, "{gap}[{}] {}\n{}", at + 1, head.join(" · "), passage.text.trim())?;
        }
        Ok(())
    }
}

/// Cuts at a character boundary, and marks the cut.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text[..end].trim_end())
}
