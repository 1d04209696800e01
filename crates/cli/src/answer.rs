//! Prints an answer: Markdown laid out for a terminal, with unsupported sentences coloured, counted and explained.
//!
//! Flows check their answers themselves and mark what is not supported. If stdout is not a terminal, the Markdown is written unchanged.

use std::io::{IsTerminal as _, Write as _};

use evidence::{CONTRADICTED_MARK, DecidedBy, Sentence, Source, Status, UNSUPPORTED_MARK, WEAK_MARK};
use serde_json::Value;
use terminal::{BOLD, DIM, GREEN, RED, YELLOW, one_line, paint};

use crate::exit::Result;
use crate::markdown::{self, Mark};
use crate::view::notes;

#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Markdown, with the list of sources.
    pub(crate) text: String,
    sources: Vec<Source>,
    sentences: Vec<Sentence>,
    /// Files that the run wrote into its workspace.
    pub(crate) files: Vec<WrittenFile>,
}

#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct WrittenFile {
    pub(crate) path: String,
    bytes: u64,
}

impl WrittenFile {
    pub(crate) fn line(&self) -> String {
        format!("{} ({})", one_line(&self.path, SENTENCE_CHARS_MAX), terminal::bytes(self.bytes))
    }
}

const SENTENCE_CHARS_MAX: usize = 160;

impl Answer {
    /// The answer of a run: its output, or its last message to the thread.
    pub(crate) fn of(output: &Value, message: Option<&str>) -> Answer {
        let text = match (output.get("answer").unwrap_or(output), message) {
            (Value::String(answer), _) => answer.clone(),
            (_, Some(message)) => message.to_owned(),
            (other, None) => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
        };
        // Flows without checks have no such lists, or different ones of the same name.
        let list = |name: &str| output.get(name).cloned().unwrap_or_default();
        Answer {
            text,
            sources: serde_json::from_value(list("sources")).unwrap_or_default(),
            sentences: serde_json::from_value(list("sentences")).unwrap_or_default(),
            files: serde_json::from_value(list("files")).unwrap_or_default(),
        }
    }

    /// Title and address of each source.
    pub(crate) fn named_sources(&self) -> Vec<(String, String)> {
        self.sources.iter().map(|source| (source.title.clone(), source.address.clone().unwrap_or_default())).collect()
    }

    pub(crate) fn print(&self) -> Result<()> {
        Ok(writeln!(anstream::stdout(), "{}", self.rendered(std::io::stdout().is_terminal()))?)
    }

    /// Laid out for a terminal, or the plain Markdown.
    pub(crate) fn rendered(&self, is_for_terminal: bool) -> String {
        if is_for_terminal { self.coloured(markdown::terminal_width()) } else { evidence::visible(&self.text) }
    }

    /// One line about its support; `None` for flows that do not check.
    pub(crate) fn summary(&self) -> Option<String> {
        let count = |status: Status| self.sentences.iter().filter(|sentence| sentence.status == status).count() as u64;
        let (supported, weak) = (count(Status::Supported), count(Status::Weak));
        let unsupported = count(Status::Unsupported) + count(Status::Contradicted);
        if supported + weak + unsupported == 0 {
            return None;
        }
        if self.sources.is_empty() && !self.is_marked() {
            return Some("nothing was looked up, so nothing was checked".to_owned());
        }
        let words = notes::checked(supported, weak, unsupported, self.sources.len() as u64);
        let style = if unsupported > 0 {
            RED
        } else if weak > 0 {
            YELLOW
        } else {
            GREEN
        };
        Some(paint(style, words))
    }

    /// Each source, and each sentence with its status and problems.
    pub(crate) fn details(&self) -> String {
        // If nothing was looked up, a mark would be misleading.
        if !self.is_marked() && self.sources.is_empty() {
            return self.summary().unwrap_or_else(|| "the last answer has no sources and no checked sentences".to_owned());
        }
        let mut lines: Vec<String> = self.sources_listed();
        for sentence in self.sentences.iter().filter(|sentence| !matches!(sentence.status, Status::NoClaim | Status::NotChecked)) {
            let mark = match sentence.status {
                Status::Supported => paint(GREEN, "✓"),
                Status::Weak => paint(YELLOW, "~"),
                Status::Unsupported | Status::Contradicted | Status::NoClaim | Status::NotChecked => paint(RED, "✗"),
            };
            let by = match sentence.by {
                DecidedBy::Rules => "",
                DecidedBy::Verifier => "  (verifier)",
                DecidedBy::Model => "  (model)",
            };
            lines.push(format!("  {mark} {}{}", one_line(&sentence.text, SENTENCE_CHARS_MAX), paint(DIM, by)));
            lines.extend(sentence.problems.iter().map(|problem| paint(DIM, format!("      {}", one_line(&problem.words, SENTENCE_CHARS_MAX)))));
        }
        lines.extend(self.summary());
        lines.join("\n")
    }

    /// Whether passages were shown to the model, so that its text could be checked.
    fn is_marked(&self) -> bool {
        [UNSUPPORTED_MARK, CONTRADICTED_MARK, WEAK_MARK].iter().any(|mark| self.text.contains(mark))
    }

    /// Laid out for a terminal, with unsupported sentences coloured.
    fn coloured(&self, width: usize) -> String {
        let body = evidence::answer_body(&self.text, !self.sources.is_empty());
        let mut text = markdown::render(body, width, &self.marks(body));
        let sources = self.sources_listed();
        if !sources.is_empty() {
            text.push_str(&format!("\n\n{}", sources.join("\n")));
        }
        text
    }

    /// The ranges of those sentences in the Markdown.
    fn marks(&self, body: &str) -> Vec<Mark> {
        let mark = |sentence: &Sentence| {
            let (start, end) = (sentence.range.start, sentence.range.end);
            let (style, mark) = match sentence.status {
                Status::Weak => (YELLOW, WEAK_MARK),
                Status::Unsupported => (RED, UNSUPPORTED_MARK),
                Status::Contradicted => (RED, CONTRADICTED_MARK),
                Status::Supported | Status::NoClaim | Status::NotChecked => return None,
            };
            let (words, rest) = (body.get(start..end)?, body.get(end..)?);
            match rest.starts_with(mark) {
                true => Some((start..end + mark.len(), style)),
                // In a table the mark is inside the cell.
                false => words.contains(mark).then_some((start..end, style)),
            }
        };
        self.sentences.iter().filter_map(mark).collect()
    }

    fn sources_listed(&self) -> Vec<String> {
        let line = |(at, source): (usize, &Source)| {
            let title = one_line(&source.title, SENTENCE_CHARS_MAX);
            let address = source.address.as_ref().filter(|address| **address != source.title);
            let address = address.map(|address| format!("  {}", one_line(address, 300))).unwrap_or_default();
            let places = match (source.places.is_empty(), &source.address) {
                (true, _) => String::new(),
                // A tool's reply: `stories.search (query: upstream), total`.
                (false, None) => format!(", {}", one_line(&source.places.join("; "), SENTENCE_CHARS_MAX)),
                (false, Some(_)) => format!("  ({})", one_line(&source.places.join("; "), SENTENCE_CHARS_MAX)),
            };
            format!("{} {title}{}", paint(BOLD, format!("[{}]", at + 1)), paint(DIM, format!("{address}{places}")))
        };
        self.sources.iter().enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer() -> Answer {
        let spans = [evidence::Span {
            text: "After a crash the log is replayed from the last checkpoint.".into(),
            source: "docs.search".into(),
            title: Some("Recovery".into()),
            address: Some("https://example.org/wal".into()),
            ..evidence::Span::default()
        }];
        let raw = "After a crash the log is replayed from the last checkpoint [1]. The disk was 8 TB large [1].";
        let cited = evidence::cite(raw, &evidence::Spans::new(&spans), evidence::Strict::Mark, &evidence::Options::default());
        let output = json!({ "answer": cited.to_markdown(), "sources": cited.sources, "sentences": cited.checked.sentences });
        Answer::of(&output, None)
    }

    #[test]
    fn what_nothing_supports_is_red_and_counted() {
        let answer = answer();
        let red = paint(RED, "The disk was 8 TB large [1].");
        let coloured = answer.coloured(200);
        assert!(coloured.starts_with(&format!("After a crash the log is replayed from the last checkpoint [1]. {red}")), "{coloured:?}");
        let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
        assert!(plain(&coloured).contains("[1]. (not supported by the sources)\n\n"), "{coloured:?}");
        assert!(plain(&answer.coloured(40)).lines().take(3).all(|line| line.chars().count() <= 40), "{coloured:?}");
        assert!(plain(&coloured).ends_with("[1] Recovery  https://example.org/wal"), "{coloured:?}");
        assert_eq!(plain(&answer.summary().unwrap()), "1 of 2 sentences supported, 1 source");
        let details = plain(&answer.details());
        for words in ["[1] Recovery", "  ✓ After a crash", "  ✗ The disk", "the number 8 TB is not in [1]"] {
            assert!(details.contains(words), "no {words:?} in {details}");
        }
    }

    #[test]
    fn an_unchecked_answer_is_marked_or_has_no_summary() {
        let claims = json!({ "answer": "The sky is blue.", "sources": [], "sentences": answer().sentences });
        assert_eq!(Answer::of(&claims, None).summary().unwrap(), "nothing was looked up, so nothing was checked");
        assert!(!Answer::of(&claims, None).coloured(80).contains('\u{1b}'));
        assert_eq!(Answer::of(&json!({ "answer": "Yes.", "sources": [{ "url": "x" }] }), None).summary(), None);
        assert_eq!(Answer::of(&json!({ "topics": 2 }), Some("Two.")).text, "Two.");
    }
}
