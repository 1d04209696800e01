//! What a model made of the evidence, in whatever form it came (S7).
//!
//! ```text
//!   {reasoning, response_content}  ·  {claims: [{sentence, source}]}   as asked for
//!   ─► the same, cut off in the middle
//!   ─► HTML found in the text
//!   ─► the text itself
//!   ─► nothing: the flow lists what was gathered
//! ```

use graph::{Failure, FailureKind};
use serde_json::{Value, json};

use super::html;
use crate::prompt;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Synthesis {
    pub(super) reasoning: String,
    /// Markdown with `[n]` for the n-th passage shown.
    pub(super) markdown: String,
    /// What is still to be found out, if the model was asked and said.
    pub(super) missing: String,
    /// How it was read, if not as asked for.
    pub(super) salvaged: Option<&'static str>,
}

/// One sentence of a small model takes so much; more is rambling.
const SENTENCE_CHARS_MAX: usize = 400;
const CLAIMS_MAX: usize = 6;

/// A small model names a source for each sentence, and the citation is written by code; it cites nothing when it writes freely.
pub(super) fn schema(is_small: bool, passages: usize, may_go_on: bool) -> Value {
    let (mut properties, required) = if is_small && passages > 0 {
        let claim = json!({
            "type": "object",
            "required": ["sentence", "source"],
            "additionalProperties": false,
            "properties": {
                "sentence": { "type": "string", "maxLength": SENTENCE_CHARS_MAX },
                "source": { "type": "integer", "minimum": 1, "maximum": passages },
            },
        });
        (json!({ "claims": { "type": "array", "items": claim, "minItems": 1, "maxItems": CLAIMS_MAX } }), vec!["claims"])
    } else if is_small {
        (json!({ "response_content": { "type": "string", "maxLength": 1_200 } }), vec!["response_content"])
    } else {
        (json!({ "reasoning": { "type": "string" }, "response_content": { "type": "string" } }), vec!["reasoning", "response_content"])
    };
    if may_go_on {
        properties["missing"] = json!({ "type": "string", "maxLength": 200 });
    }
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// What was said, or why there is nothing to read.
pub(super) fn read(reply: Result<&Value, Failure>) -> Result<Synthesis, Failure> {
    match reply {
        Ok(value) => of_value(value)
            .or_else(|| value.as_str().and_then(of_text))
            .ok_or_else(|| Failure::new(FailureKind::Invalid, format!("there is no answer in the reply: {}", prompt::shown(value)))),
        // A reply that does not fit its schema is refused, but its words come with the failure.
        Err(failure) => failure.said.as_deref().and_then(of_text).ok_or(failure),
    }
}

fn of_value(value: &Value) -> Option<Synthesis> {
    let json = prompt::json_in(value)?;
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let content = text("response_content").map(markdown_of).or_else(|| claims(json.get("claims")?));
    let (content, salvaged) = match content {
        Some(content) => (content, None),
        None => (["answer", "response", "content", "html", "text"].into_iter().find_map(text).map(markdown_of)?, Some("another field")),
    };
    let reasoning = text("reasoning").unwrap_or_default().to_owned();
    Some(Synthesis { reasoning, markdown: content, missing: text("missing").unwrap_or_default().to_owned(), salvaged })
}

fn claims(claims: &Value) -> Option<String> {
    let sentence = |claim: &Value| {
        let words = claim.get("sentence").or(claim.get("claim"))?.as_str()?.trim();
        // Whatever numbers it wrote by itself, the source is the one it named.
        let mut words = words.to_owned();
        for citation in evidence::citations(&words).into_iter().rev() {
            words.replace_range(citation.range, "");
        }
        let words = words.trim();
        let source = claim.get("source").and_then(Value::as_u64).map(|number| format!(" [{number}]")).unwrap_or_default();
        let (body, end) = match words.strip_suffix(['.', '!']) {
            Some(body) => (body.trim_end(), &words[words.len() - 1..]),
            None => (words, "."),
        };
        (!body.is_empty()).then(|| format!("{body}{source}{end}"))
    };
    let mut said: Vec<String> = Vec::new();
    for sentence in claims.as_array()?.iter().filter_map(sentence) {
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    (!said.is_empty()).then(|| said.join(" "))
}

fn of_text(text: &str) -> Option<Synthesis> {
    let salvaged = |markdown: String, how: &'static str| {
        (!markdown.trim().is_empty()).then(|| Synthesis { markdown, salvaged: Some(how), ..Synthesis::default() })
    };
    of_value(&json!(text))
        .or_else(|| salvaged(markdown_of(&cut_off(text, "response_content")?), "a reply that was cut off"))
        .or_else(|| salvaged(html::to_markdown(html::found_in(text)?), "HTML in the text"))
        .or_else(|| salvaged(prompt::prose(text)?, "the text"))
}

fn markdown_of(content: &str) -> String {
    if html::found_in(content).is_some() { html::to_markdown(content) } else { content.trim().to_owned() }
}

/// The string of a field whose JSON ends too early.
fn cut_off(text: &str, field: &str) -> Option<String> {
    let rest = text.split_once(&format!("\"{field}\""))?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut is_escaped = false;
    let end = rest.char_indices().find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    let mut raw = &rest[..end.map_or(rest.len(), |(at, _)| at)];
    // The cut may have gone through an escape of up to six characters.
    for _ in 0..6 {
        let quoted = format!("\"{}\"", raw.replace('\n', "\\n").replace('\t', "\\t"));
        if let Ok(said) = serde_json::from_str::<String>(&quoted) {
            return Some(said);
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
        assert_eq!((read.markdown.as_str(), read.salvaged), (markdown, salvaged), "{reply:?}");
    }

    #[test]
    fn s7_an_answer_is_found_in_whatever_form_it_came() {
        check(Ok(json!({ "reasoning": "r", "response_content": "<p>It is <b>so</b> [1].</p>" })), "It is **so** [1].", None);
        check(
            Ok(json!({ "claims": [{ "sentence": "It is so [3].", "source": 1 }, { "sentence": "Not so", "source": 2 }] })),
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
        let refused = |said: &str| Err(Failure::new(FailureKind::Invalid, "m: it does not fit").saying(said));
        check(refused("It is \"so\".\nYes."), "It is \"so\".\nYes.", Some("the text"));
        check(refused("{\"response_content\":\"It is so.\"}"), "It is so.", None);
        check(refused("{\"response_content\":\"It is so, and"), "It is so, and", Some("a reply that was cut off"));
        let long = "It is so. ".repeat(1_000);
        check(refused(&long), long.trim(), Some("the text"));
        for nothing in [json!(""), json!({ "x": 1 }), json!("{\"tasks\": ["), json!(null), json!({ "claims": [] })] {
            assert!(read(Ok(&nothing)).is_err(), "{nothing}");
        }
        // Words about a failure are no words of a model.
        for why in ["gone", "m: there is no JSON in the reply: \"It is so.\""] {
            assert!(read(Err(Failure::new(FailureKind::Invalid, why))).is_err());
        }
    }
}
