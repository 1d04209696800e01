//! Requests that need no planning, because they name the tool and its arguments.
//!
//! ```text
//! files.write {"path": "a.txt", "content": "x", "mode": "create"}      a tool's full name, then a JSON object that fits its schema
//! code.run_python `print(1)`                                          a tool's full name, then code, for a tool that takes one text
//! (3 + 4) * 12                                                        nothing but arithmetic, for a tool that takes an `expression`
//! ```
//!
//! A model plans everything else; no keywords are matched.

use graph::ToolCall;
use serde_json::{Value, json};

use crate::toolbox::{REGISTRY, Tool, Toolbox};

pub(super) fn call(request: &str, toolbox: &Toolbox) -> Option<ToolCall> {
    named(request, toolbox).or_else(|| sum(request, toolbox))
}

/// Whether a text is only arithmetic: digits, operators and brackets, with at least one operator between numbers.
pub(super) fn is_arithmetic(text: &str) -> bool {
    let text = bare(text);
    let is_part = |c: char| c.is_ascii_digit() || c.is_whitespace() || "+-*/^%().,×÷".contains(c);
    let has_operator = text.char_indices().any(|(at, c)| "+-*/^×÷".contains(c) && text[..at].contains(|c: char| c.is_ascii_digit()));
    // `2026-11-16` and `1/2/2026` are dates.
    let is_date = text.split(['-', '/']).count() == 3 && text.chars().all(|c| c.is_ascii_digit() || c == '-' || c == '/');
    !text.is_empty() && text.chars().all(is_part) && has_operator && !is_date && text.ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == '%')
}

fn bare(text: &str) -> &str {
    text.trim().trim_end_matches(['?', '=', ' '])
}

fn sum(request: &str, toolbox: &Toolbox) -> Option<ToolCall> {
    let takes_sums = |tool: &&Tool| tool.read_only && tool.text_argument() == Some("expression");
    let tool = toolbox.tools.iter().find(takes_sums).filter(|_| is_arithmetic(request))?;
    let expression = bare(request).replace('×', "*").replace('÷', "/");
    Some(ToolCall { tool: tool.name.clone(), arguments: json!({ "expression": expression }) })
}

/// Exactly one tool is named: with two, their combination needs a plan.
fn named(request: &str, toolbox: &Toolbox) -> Option<ToolCall> {
    let places = |tool: &Tool| {
        request.match_indices(tool.name.as_str()).find(|(at, name)| is_word(request, *at, name.len())).map(|(at, name)| at + name.len())
    };
    let mut named =
        toolbox.tools.iter().filter(|tool| tool.name.contains('.') && tool.name != REGISTRY).filter_map(|tool| Some((tool, places(tool)?)));
    let (tool, end) = named.next()?;
    if named.next().is_some() {
        return None;
    }
    let rest = request[end..].trim_start_matches([':', ' ', '\n']);
    let arguments = object(rest).or_else(|| Some(json!({ tool.text_argument()?: code(rest)? })))?;
    toolbox.resolve(&ToolCall { tool: tool.name.clone(), arguments }).ok()
}

fn is_word(text: &str, at: usize, length: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let is_part_before = |c: char| is_part(c) || c == '.';
    let after = text[at + length..].chars().next();
    !text[..at].ends_with(is_part_before) && !after.is_some_and(is_part)
}

/// The rest as a JSON object, with no further text after it.
fn object(rest: &str) -> Option<Value> {
    let rest = rest.strip_prefix("```json").or(rest.strip_prefix("```")).map_or(rest, |fenced| fenced.trim().trim_end_matches("```")).trim();
    serde_json::from_str::<Value>(rest).ok().filter(Value::is_object)
}

/// The rest as code between back quotes.
fn code(rest: &str) -> Option<String> {
    let rest = rest.trim();
    let inside = match rest.strip_prefix("```") {
        Some(fenced) => fenced.strip_suffix("```").map(|fenced| fenced.split_once('\n').map_or(fenced, |(_, lines)| lines))?,
        None => rest.strip_prefix('`').and_then(|inline| inline.strip_suffix('`')).filter(|inline| !inline.contains('`'))?,
    };
    (!inside.trim().is_empty() && !inside.contains("```")).then(|| inside.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolbox() -> Toolbox {
        let text = |name: &str, argument: &str, read_only| Tool {
            name: name.into(),
            schema: json!({ "type": "object", "required": [argument], "additionalProperties": false, "properties": { argument: { "type": "string" } } }),
            read_only,
            ..Tool::default()
        };
        let mut write = text("files.write", "path", false);
        write.schema = json!({ "type": "object", "required": ["path", "content"], "additionalProperties": false, "properties": { "path": { "type": "string" }, "content": { "type": "string" } } });
        Toolbox {
            tools: vec![text("calc.calculate", "expression", true), text("code.run_python", "code", true), write, text("docs.search", "query", true)],
        }
    }

    #[test]
    fn r15_only_a_named_tool_with_its_arguments_or_bare_arithmetic_skips_planning() {
        let cases = [
            ("(3 + 4) * 12", Some(("calc.calculate", json!({ "expression": "(3 + 4) * 12" })))),
            ("12 × 4 = ?", Some(("calc.calculate", json!({ "expression": "12 * 4" })))),
            ("files.write {\"path\": \"a\", \"content\": \"b\"}", Some(("files.write", json!({ "path": "a", "content": "b" })))),
            ("Call files.write: {\"path\": \"a\", \"content\": \"b\"}", Some(("files.write", json!({ "path": "a", "content": "b" })))),
            ("code.run_python `print(6*7)`", Some(("code.run_python", json!({ "code": "print(6*7)" })))),
            ("code.run_python\n```python\nprint(1)\nprint(2)\n```", Some(("code.run_python", json!({ "code": "print(1)\nprint(2)" })))),
            // These need a model.
            ("Execute this Python code: print(6*7)", None),
            ("Create a file hello.txt", None),
            ("Calculate 12% of 4350", None),
            ("What is docs.search?", None),
            ("files.write {\"path\": \"a\"}", None),
            ("files.write {\"path\": \"a\", \"content\": \"b\"} and then mail it", None),
            ("code.run_python `a` or `b`", None),
            ("my.files.write {\"path\": \"a\", \"content\": \"b\"}", None),
            ("2026-11-16", None),
            ("42", None),
            ("-5", None),
            ("5 -", None),
            ("call 0800-123", None),
        ];
        for (request, expected) in cases {
            let expected = expected.map(|(tool, arguments)| ToolCall { tool: tool.into(), arguments });
            assert_eq!(call(request, &toolbox()), expected, "{request}");
        }
    }
}
