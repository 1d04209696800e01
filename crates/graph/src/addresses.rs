//! Addresses of the network that a run may open although it has read private text: those in the user's own words, and those of public results. Mail
//! addresses in the user's words are those that something may be sent to without asking.
//!
//! An address that a model composed after it read a private document can carry that document's text to the owner of the address. An address that the user
//! wrote, or that a public result gave before, was composed without it. Here they are only collected; the tool handler compares them with a call.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// More are not collected for one run.
const COUNT_MAX: usize = 1_000;
const BYTES_MAX: usize = 2_000;

/// Addresses that a run may open without asking, because the user or a search named them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// In the user's own words.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    named: BTreeSet<String>,
    /// Addresses in results that hold no private text.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    found: BTreeSet<String>,
}

impl Addresses {
    /// The addresses in the strings of an input that is all the user's own words.
    pub fn named_in(input: &Value) -> Self {
        let mut addresses = Addresses::default();
        addresses.name(input);
        addresses
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.found.is_empty()
    }

    /// In the user's own words.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(String::as_str)
    }

    /// Addresses in results that hold no private text.
    pub fn found(&self) -> impl Iterator<Item = &str> {
        self.found.iter().map(String::as_str)
    }

    pub(crate) fn find<'a>(&mut self, addresses: impl IntoIterator<Item = &'a str>) {
        for address in addresses.into_iter().filter(|address| is_web(address) && address.len() <= BYTES_MAX) {
            if self.found.len() < COUNT_MAX {
                self.found.insert(address.to_owned());
            }
        }
    }

    fn name(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`' | '(' | ')' | '[' | ']' | '{' | '}');
                for word in text.split(is_end).map(|word| word.trim_matches(|c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*'))) {
                    let address = if word.starts_with("www.") { format!("https://{word}") } else { word.to_owned() };
                    if (is_web(&address) || is_mailbox(&address)) && address.len() <= BYTES_MAX && self.named.len() < COUNT_MAX {
                        self.named.insert(address);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.name(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.name(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether a text is a mail address as a whole. Nothing more is decided from it than that a user wrote it.
pub fn is_mailbox(address: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || matches!(c, '@' | '/' | ':' | '<' | '>' | ',' | ';'));
    address.split_once('@').is_some_and(|(name, host)| is_part(name) && is_part(host) && !host.starts_with('.') && !host.ends_with('.'))
}

fn is_web(address: &str) -> bool {
    let starts = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("https://") || starts("http://")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_found_in_the_users_words() {
        let input =
            json!({ "question": "Read https://a.example/x?y=1, (http://b.example) and www.c.example.", "settings": [{ "x": "HTTPS://D.example" }] });
        let named: Vec<String> = Addresses::named_in(&input).named().map(str::to_owned).collect();
        assert_eq!(named, ["HTTPS://D.example", "http://b.example", "https://a.example/x?y=1", "https://www.c.example"]);
        let named: Vec<String> = Addresses::named_in(&json!("Mail it to <Ann@x.example>, bob@y.example.")).named().map(str::to_owned).collect();
        assert_eq!(named, ["Ann@x.example", "bob@y.example"]);
        assert!(Addresses::named_in(&json!("@bob, 3 @ 4, a@b@c, x@.example")).is_empty());
        assert!(Addresses::named_in(&json!("notes.md, ftp://x.example, e.g. 3.5")).is_empty());
        let many = Addresses::named_in(&json!((0..2_000).map(|n| format!("https://{n}.example ")).collect::<String>()));
        assert_eq!(many.named().count(), COUNT_MAX);
    }
}
