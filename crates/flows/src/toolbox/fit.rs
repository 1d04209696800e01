//! Which of the tools a small model is shown.
//!
//! A model of a few billion parameters takes the calculator for a question about crashes and runs Python to look something up. So rules choose for it: where
//! things are looked up, the user's own documents first; and others only when the question speaks of them. A larger model sees everything.

use super::{Tool, Toolbox};
use crate::input::Mind;

/// It reads slowly, and chooses badly from many.
const SMALL_TOOLS_MAX: usize = 6;
/// What the argument of a look-up is called.
const ASKED: [&str; 4] = ["query", "q", "question", "search"];
/// Where the user's own documents are found.
const DOCUMENTS: &str = "docs.search";
/// Words in tools' names that say nothing of what they are about.
const EMPTY: [&str; 16] =
    ["search", "find", "read", "list", "make", "create", "call", "tool", "tools", "fetch", "docs", "document", "query", "look", "send", "mail"];
const CALCULATING: [&str; 9] = ["calculate", "compute", "sum", "percent", "average", "convert", "total", "product", "times"];

impl Toolbox {
    pub fn fitting(mut self, question: &str, mind: &Mind) -> Toolbox {
        // What a question's words rank first is chance; the documents were named on purpose.
        self.tools.sort_by_key(|tool| tool.name != DOCUMENTS);
        if !mind.is_small {
            return self;
        }
        let words: Vec<String> = question.to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
        let fitting: Vec<Tool> = self.tools.iter().filter(|tool| fits(tool, question, &words)).cloned().collect();
        if !fitting.is_empty() {
            self.tools = fitting;
        }
        self.tools.truncate(SMALL_TOOLS_MAX);
        self
    }
}

fn fits(tool: &Tool, question: &str, words: &[String]) -> bool {
    let is_said = |word: &str| words.iter().any(|said| said == word);
    let is_look_up = tool.read_only && tool.text_argument().is_some_and(|name| ASKED.contains(&name));
    let is_address = tool.text_argument() == Some("url") && (question.contains("http://") || question.contains("https://"));
    let calculates =
        tool.text_argument() == Some("expression") && (question.chars().any(|c| c.is_ascii_digit()) || CALCULATING.into_iter().any(is_said));
    let name = tool.name.to_lowercase();
    let mut named = name.split(|c: char| !c.is_alphanumeric()).filter(|part| part.len() > 3 && !EMPTY.contains(part));
    is_look_up || is_address || calculates || named.any(is_said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn toolbox() -> Toolbox {
        let tool = |name: &str, argument: &str, read_only: bool| Tool {
            name: name.into(),
            schema: json!({ "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] }),
            read_only,
            ..Tool::default()
        };
        Toolbox {
            tools: vec![
                tool("code.run_python", "code", true),
                tool("calc.calculate", "expression", true),
                tool("search.search", "query", true),
                tool("docs.search", "query", true),
                tool("fetch.fetch", "url", true),
                tool("weather.forecast", "city", true),
                tool("mail.send", "to", false),
            ],
        }
    }

    #[test]
    fn a_small_model_sees_what_the_question_speaks_of() {
        let small = |question: &str| toolbox().fitting(question, &Mind::default()).names().join(" ");
        assert_eq!(small("How does a run survive a crash?"), "docs.search search.search");
        assert_eq!(small("How much is 12 % of 4350?"), "docs.search calc.calculate search.search");
        assert_eq!(small("What is the weather in Lyon?"), "docs.search search.search weather.forecast");
        assert_eq!(small("Sort this in Python"), "docs.search code.run_python search.search");
        assert_eq!(small("Sum up https://a.example"), "docs.search calc.calculate search.search fetch.fetch");
        let large = Mind { is_small: false, ..Mind::default() };
        assert_eq!(toolbox().fitting("How does a run survive a crash?", &large).tools.len(), 7);
        assert_eq!(toolbox().fitting("x", &large).names()[0], "docs.search");
    }

    #[test]
    fn where_nothing_fits_there_is_still_something() {
        let only = Toolbox { tools: toolbox().tools.into_iter().filter(|tool| tool.name == "code.run_python").collect() };
        assert_eq!(only.fitting("Who was it?", &Mind::default()).names(), ["code.run_python"]);
    }
}
