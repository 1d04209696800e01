//! A passage: the part of a file that is found and cited.

use serde::{Deserialize, Serialize};

/// A part of a file with its headings and links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The text of the part.
    pub text: String,
    /// The innermost heading, the symbol that is defined, or the document's own title.
    #[serde(default)]
    pub title: String,
    /// From the outermost heading to the innermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Where it is in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Location>,
    /// Its link targets, as written: `../guide.md#start`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Its index within its section; the first is the target of links to the section.
    #[serde(default)]
    pub part: u32,
}

/// Location in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// The first and the last line, from 1.
    Lines(u32, u32),
    /// The page of a PDF, from 1.
    Page(u32),
    /// For documents without lines.
    Paragraphs(u32, u32),
}

impl Passage {
    /// For display: `Recovery > Leases, lines 12-20`.
    pub fn place(&self) -> Option<String> {
        let path = self.headings.join(" > ");
        let at = self.place.map(|place| place.to_string());
        match (path.is_empty(), at) {
            (true, at) => at,
            (false, None) => Some(path),
            (false, Some(at)) => Some(format!("{path}, {at}")),
        }
    }

    /// The text of its vector. It excludes the file's name, so a file can move.
    pub(crate) fn meaning(&self) -> String {
        if self.title.is_empty() { self.text.clone() } else { format!("{}. {}", self.title, self.text) }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (one, many, from, to) = match *self {
            Location::Lines(from, to) => ("line", "lines", from, to),
            Location::Page(page) => ("page", "pages", page, page),
            Location::Paragraphs(from, to) => ("paragraph", "paragraphs", from, to),
        };
        if from == to { write!(f, "{one} {from}") } else { write!(f, "{many} {from}-{to}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words() {
        let cases: [(&[&str], Option<Location>, Option<&str>); 5] = [
            (&["A", "B"], Some(Location::Lines(12, 20)), Some("A > B, lines 12-20")),
            (&[], Some(Location::Lines(3, 3)), Some("line 3")),
            (&[], Some(Location::Page(4)), Some("page 4")),
            (&["A"], None, Some("A")),
            (&[], None, None),
        ];
        for (headings, place, expected) in cases {
            let passage = Passage { headings: headings.iter().map(ToString::to_string).collect(), place, ..Default::default() };
            assert_eq!(passage.place().as_deref(), expected);
        }
    }
}
