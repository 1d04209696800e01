//! How a flow puts evidence into a request: one message of role `evidence` for each passage.
//!
//! ```text
//! role: evidence
//! content: Source: https://example.org/wal        ← optional first line: a title, a path, an address
//!          A write-ahead log records changes …    ← the passage
//! ```
//!
//! Passages are numbered from 1 in the order they come, and answers refer to them as `[1]`. Providers have no such role, so a
//! remote model gets them as one user message; extraction reads only them.

use graph::Message;

/// The role of messages that hold a passage.
pub const ROLE: &str = "evidence";

/// One passage of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage<'m> {
    /// From 1.
    pub number: usize,
    /// The title, path or address in its first line.
    pub source: Option<&'m str>,
    /// The text after the source line.
    pub text: &'m str,
}

/// A message that carries one passage.
pub fn message(source: &str, text: &str) -> Message {
    // The source must stay on its line.
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    Message { role: ROLE.to_owned(), content: format!("Source: {source}\n{text}") }
}

/// The passages of a request, in order.
pub fn passages(messages: &[Message]) -> Vec<Passage<'_>> {
    let evidence = messages.iter().filter(|message| message.role == ROLE);
    evidence.enumerate().map(|(index, message)| passage(index + 1, &message.content)).collect()
}

fn passage(number: usize, content: &str) -> Passage<'_> {
    let (first, rest) = content.split_once('\n').unwrap_or((content, ""));
    match first.trim().split_once(':') {
        Some((word, source)) if word.eq_ignore_ascii_case("source") && !source.trim().is_empty() => {
            Passage { number, source: Some(source.trim()), text: rest.trim() }
        }
        _ => Passage { number, source: None, text: content.trim() },
    }
}

/// The messages for a model without the role `evidence`: the passages become one message of role `user`, in the place of the first passage.
pub fn without_evidence_role(messages: &[Message]) -> Vec<Message> {
    let mut passages = Some(passages(messages));
    let mut prepared = Vec::with_capacity(messages.len());
    for message in messages {
        match message.role.as_str() {
            ROLE => {
                let words = passages.take().map(|passages| Message { role: "user".to_owned(), content: as_text(&passages) });
                prepared.extend(words);
            }
            _ => prepared.push(message.clone()),
        }
    }
    prepared
}

/// The passages as one text, numbered.
fn as_text(passages: &[Passage<'_>]) -> String {
    let mut words = String::from("Evidence, to be cited by number:");
    for passage in passages {
        let source = passage.source.map(|source| format!(" {source}")).unwrap_or_default();
        words.push_str(&format!("\n\n[{}]{source}\n{}", passage.number, passage.text));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_numbered_and_have_their_source() {
        let plain = Message { role: ROLE.into(), content: "no source here: none".into() };
        let messages = [message("a\nb", "One. Two."), Message { role: "user".into(), content: "Why?".into() }, plain];
        let passages = passages(&messages);
        assert_eq!(passages[0], Passage { number: 1, source: Some("a b"), text: "One. Two." });
        assert_eq!(passages[1], Passage { number: 2, source: None, text: "no source here: none" });
        let words = "Evidence, to be cited by number:\n\n[1] a b\nOne. Two.\n\n[2]\nno source here: none";
        let prepared: Vec<_> = without_evidence_role(&messages).into_iter().map(|message| message.content).collect();
        assert_eq!(prepared, [words, "Why?"]);
    }
}
