//! Parses a model's synthesis in whatever form it came (S7).
//!
//! ```text
//!   {reasoning, response_content}  ·  {facts: [{sentence, source}], short_answer}   as requested
//!   ─► the same, cut off in the middle
//!   ─► HTML found in the text
//!   ─► the text itself
//!   ─► nothing: the flow lists what was gathered
//! ```

use graph::{Failure, FailureKind};
use serde_json::{Value, json};

use super::html;
use crate::claims::{self, DraftAnswer};
use crate::input::ModelProfile;
use crate::prompt;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Synthesis {
    pub(super) reasoning: String,
    pub(super) draft: DraftAnswer,
    /// Missing information, if the model was asked for it and reported any.
    pub(super) missing: String,
    /// How it was parsed, if not as requested.
    pub(super) salvaged: Option<&'static str>,
}

pub(super) fn schema(profile: &ModelProfile, passages: usize, may_go_on: bool) -> Value {
    let (mut properties, required) = if claims::is_asked(profile, passages) {
        (claims::properties(profile, passages), claims::REQUIRED.to_vec())
    } else if profile.is_small {
        (json!({ "response_content": { "type": "string", "maxLength": 1_200 } }), vec!["response_content"])
    } else {
        (json!({ "reasoning": { "type": "string" }, "response_content": { "type": "string" } }), vec!["reasoning", "response_content"])
    };
    if may_go_on {
        properties["missing"] = json!({ "type": "string", "maxLength": 200 });
    }
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// The synthesis, or why there is nothing to parse.
pub(super) fn read(reply: Result<&Value, Failure>) -> Result<Synthesis, Failure> {
    match reply {
        Ok(value) => of_value(value)
            .or_else(|| value.as_str().and_then(of_text))
            .ok_or_else(|| Failure::new(FailureKind::Invalid, format!("there is no answer in the reply: {}", prompt::shown(value)))),
        // A reply that does not fit its schema is a failure, but the failure contains its text.
        Err(failure) => failure.output.as_deref().and_then(of_text).ok_or(failure),
    }
}

fn of_value(value: &Value) -> Option<Synthesis> {
    let json = prompt::json_in(value)?;
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let written = |content: &str| DraftAnswer { markdown: markdown_of(content), short: None };
    let (draft, salvaged) = match text("response_content").map(written).or_else(|| claims::read(&json)) {
        Some(draft) => (draft, None),
        None => (["answer", "response", "content", "html", "text"].into_iter().find_map(text).map(written)?, Some("another field")),
    };
    let reasoning = text("reasoning").unwrap_or_default().to_owned();
    Some(Synthesis { reasoning, draft, missing: text("missing").unwrap_or_default().to_owned(), salvaged })
}

fn of_text(text: &str) -> Option<Synthesis> {
    let salvaged = |markdown: String, how: &'static str| {
        (!markdown.trim().is_empty()).then(|| Synthesis { draft: DraftAnswer { markdown, short: None }, salvaged: Some(how), ..Synthesis::default() })
    };
    of_value(&json!(text))
        .or_else(|| salvaged(markdown_of(&cut_off(text, "response_content")?), "a reply that was cut off"))
        .or_else(|| salvaged(html::to_markdown(html::found_in(text)?), "HTML in the text"))
        .or_else(|| salvaged(prompt::prose(text)?, "the text"))
}

fn markdown_of(content: &str) -> String {
    if html::found_in(content).is_some() { html::to_markdown(content) } else { content.trim().to_owned() }
}

/// The string value of a field in truncated JSON.
fn cut_off(text: &str, field: &str) -> Option<String> {
    let rest = text.split_once(&format!("\"{field}\""))?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut is_escaped = false;
    let end = rest.char_indices().find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    let mut raw = &rest[..end.map_or(rest.len(), |(at, _)| at)];
    // The cut may be inside an escape of up to six characters.
    for _ in 0..6 {
        let quoted = format!("\"{}\"", raw.replace('\n', "\\n").replace('\t', "\\t"));
        if let Ok(draft) = serde_json::from_str::<String>(&quoted) {
            return Some(draft);
        }
        raw = &raw[..raw.char_indices().next_back().map_or(0, |(at, _)| at)];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
    fn check(reply: Result<Value, Failure>, markdown: &str, salvaged: Option<&str>) {
        let read = read(reply.as_ref().map_err(Clone::clone)).unwrap();
        assert_eq!((read.draft.markdown.as_str(), read.salvaged), (markdown, salvaged), "{reply:?}");
    }

    #[test]
    fn s7_an_answer_is_found_in_whatever_form_it_came() {
        check(Ok(json!({ "reasoning": "r", "response_content": "<p>It is <b>so</b> [1].</p>" })), "It is **so** [1].", None);
        check(
            Ok(json!({ "facts": [{ "sentence": "It is so [3].", "source": 1 }, { "sentence": "Not so", "source": 2 }] })),
            "It is so [1]. Not so [2].",
            None,
        );
        check(Ok(json!("Here you are:\n```json\n{\"response_content\": \"It is so.\"}\n```")), "It is so.", None);
        check(Ok(json!({ "answer": "It is so." })), "It is so.", Some("another field"));
        check(
            Ok(json!("{\"reasoning\": \"x\", \"response_content\": \"<p>It is \\\"so\\\" and\\u00")),
            "It is \"so\" and",
            Some("a reply that was cut off"),
        );
        check(Ok(json!("Sure. <p>It is so.</p> Bye.")), "It is so.", Some("HTML in the text"));
        check(Ok(json!("It is so [1].")), "It is so [1].", Some("the text"));
        let refused = |draft: &str| Err(Failure::new(FailureKind::Invalid, "m: it does not fit").with_output(draft));
        check(refused("It is \"so\".\nYes."), "It is \"so\".\nYes.", Some("the text"));
        check(refused("{\"response_content\":\"It is so.\"}"), "It is so.", None);
        check(refused("{\"response_content\":\"It is so, and"), "It is so, and", Some("a reply that was cut off"));
        let long = "It is so. ".repeat(1_000);
        check(refused(&long), long.trim(), Some("the text"));
        for nothing in [json!(""), json!({ "x": 1 }), json!("{\"tasks\": ["), json!(null), json!({ "claims": [] })] {
            assert!(read(Ok(&nothing)).is_err(), "{nothing}");
        }
        // An error message is not a model's text.
        for why in ["gone", "m: there is no JSON in the reply: \"It is so.\""] {
            assert!(read(Err(Failure::new(FailureKind::Invalid, why))).is_err());
        }
    }
}
