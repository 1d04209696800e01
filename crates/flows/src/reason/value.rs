//! The value of a step's reply for a later step: what `{{1}}` stands for, inserted into arguments in the form that the tool takes.
//!
//! A reply has a text for people (`data.csv, lines 1-3: …`) and data. A later step needs neither the heading nor metadata: of a file it
//! needs the content, of code the output, of a calculation the result.

use graph::ToolCall;
use serde_json::{Map, Value, json};

use crate::toolbox::{Reference, Tool, references};

/// The plain value of a tool's reply (an `evidence::Found` as JSON).
pub(super) fn plain(reply: &Value) -> Value {
    let data = reply.get("data").unwrap_or(&Value::Null);
    let text_at = |name: &str| data.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    if let Some(printed) = text_at("stdout") {
        return json!(printed.strip_suffix('\n').unwrap_or(printed));
    }
    if let Some(result) = data.get("result").filter(|result| !result.is_null()) {
        return result.clone();
    }
    if let Some(content) = text_at("content") {
        return json!(content);
    }
    // One passage is the content itself; for several, the text that lists them.
    match data.get("passages").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) if only.get("text").is_some_and(Value::is_string) => only["text"].clone(),
        _ => reply.get("text").cloned().unwrap_or(Value::Null),
    }
}

pub(super) fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The value a reference stands for.
fn part_of(reply: &Value, reference: &Reference) -> Result<Value, String> {
    /// Names that models use for a step's whole result.
    const WHOLE: [&str; 7] = ["result", "output", "stdout", "value", "content", "text", "data"];
    if reference.part == "/text" {
        return Ok(plain(reply));
    }
    match reply.pointer(&reference.part).filter(|value| !value.is_null() && value.as_str() != Some("")) {
        Some(value) => Ok(value.clone()),
        None if reference.part.rsplit('/').next().is_some_and(|last| WHOLE.contains(&last)) => Ok(plain(reply)),
        None => {
            let mut fields: Vec<&str> = reply.get("data").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            fields.sort_unstable();
            let known = if fields.is_empty() { "only a text".to_owned() } else { fields.join(", ") };
            Err(format!("step {} has nothing at {:?}; it has {known}", reference.task, reference.part))
        }
    }
}

/// The call with every reference replaced; `reply_of` gives the reply of a step by its number.
pub(super) fn filled<'r>(call: &ToolCall, tool: Option<&Tool>, reply_of: impl Fn(usize) -> Option<&'r Value>) -> Result<ToolCall, String> {
    let mut arguments = call.arguments.clone();
    let mut inputs = Map::new();
    // From back to front, so that earlier ranges stay valid.
    for reference in references(&call.arguments).into_iter().rev() {
        let reply = reply_of(reference.task).ok_or_else(|| format!("step {} has no result", reference.task))?;
        let value = part_of(reply, &reference)?;
        if reference.within.is_some() && reference.is_of("code") && tool.is_some_and(takes_inputs) {
            // Untrusted text must not become code: the code receives it as a variable.
            let name = variable(&reference);
            name_in_code(&mut arguments, &reference, &name);
            inputs.insert(name, value);
            continue;
        }
        let schema = tool.and_then(|tool| tool.schema.get("properties")).and_then(|all| all.get(reference.at.trim_start_matches('/')));
        match (arguments.pointer_mut(&reference.at), reference.within.clone()) {
            (Some(place), None) => *place = of_type(value, schema),
            (Some(Value::String(text)), Some(range)) if text.get(range.clone()).is_some() => text.replace_range(range, &as_text(&value)),
            _ => return Err(format!("{:?} is not a place that can be filled", reference.at)),
        }
    }
    if !inputs.is_empty() {
        let Some(fields) = arguments.as_object_mut() else { return Err("the arguments are not an object".to_owned()) };
        let given = fields.entry("inputs").or_insert_with(|| json!({}));
        if let Some(given) = given.as_object_mut() {
            given.extend(inputs);
        } else {
            *given = Value::Object(inputs);
        }
    }
    Ok(ToolCall { tool: call.tool.clone(), arguments })
}

/// A text with every reference replaced, such as an answer drafted before its values were known.
pub(super) fn filled_text<'r>(text: &str, reply_of: impl Fn(usize) -> Option<&'r Value>) -> Option<String> {
    let call = ToolCall { tool: String::new(), arguments: json!({ "text": text }) };
    let whole = filled(&call, None, reply_of).ok()?;
    Some(as_text(&whole.arguments["text"]))
}

/// Takes code, and values that the code finds as variables.
fn takes_inputs(tool: &Tool) -> bool {
    let kind = |name: &str| tool.schema.get("properties").and_then(|all| all.get(name)).and_then(|schema| schema.get("type")).and_then(Value::as_str);
    kind("code") == Some("string") && kind("inputs") == Some("object")
}

fn variable(reference: &Reference) -> String {
    let path = reference.part.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    if reference.part == "/text" { format!("step_{}", reference.task) } else { format!("step_{}{path}", reference.task) }
}

/// Replaces a reference, and the quotation marks around it, with a variable's name.
fn name_in_code(arguments: &mut Value, reference: &Reference, name: &str) {
    let (Some(Value::String(code)), Some(range)) = (arguments.pointer_mut(&reference.at), reference.within.clone()) else { return };
    let quotes = ["\"\"\"", "'''", "\"", "'"];
    let around = quotes.into_iter().find(|quote| code[..range.start].ends_with(quote) && code[range.end..].starts_with(quote));
    let margin = around.map_or(0, str::len);
    code.replace_range(range.start - margin..range.end + margin, name);
}

/// The value converted to an argument's type, where that loses nothing.
fn of_type(value: Value, schema: Option<&Value>) -> Value {
    let kind = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str).unwrap_or_default();
    match (kind, &value) {
        ("string", Value::String(_)) => value,
        ("string", other) => json!(as_text(other)),
        ("integer" | "number", Value::String(text)) => match serde_json::from_str::<Value>(text.trim()) {
            Ok(number) if number.is_number() => number,
            _ => value,
        },
        ("array" | "object", Value::String(text)) => match serde_json::from_str::<Value>(text.trim()) {
            Ok(parsed) if parsed.is_array() || parsed.is_object() => parsed,
            _ => value,
        },
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Value {
        json!({ "text": "data.csv, lines 1-2:\na,1\nb,2", "data": { "path": "data.csv", "passages": [{ "text": "a,1\nb,2" }] }, "spans": [] })
    }

    #[test]
    fn r15_a_reply_has_a_plain_value() {
        let cases = [
            (read(), json!("a,1\nb,2")),
            (json!({ "text": "3.5\n", "data": { "outcome": "ok", "stdout": "3.5\n", "result": null } }), json!("3.5")),
            (json!({ "text": "=> 42", "data": { "outcome": "ok", "stdout": "", "result": 42 } }), json!(42)),
            (json!({ "text": "12% of 4350 = 522", "data": { "result": "522", "passages": [{ "text": "12% of 4350 = 522" }] } }), json!("522")),
            (json!({ "text": "two found", "data": { "passages": [{ "text": "a" }, { "text": "b" }] } }), json!("two found")),
            (json!({ "text": "only words" }), json!("only words")),
        ];
        for (reply, expected) in cases {
            assert_eq!(plain(&reply), expected);
        }
    }

    fn tool(properties: &Value) -> Tool {
        Tool { name: "t.t".into(), schema: json!({ "type": "object", "properties": properties }), ..Tool::default() }
    }

    #[allow(clippy::needless_pass_by_value, reason = "cases read better with values")]
    fn check(properties: Value, arguments: Value, expected: Result<Value, &str>) {
        let printed = json!({ "text": "3.5\n", "data": { "stdout": "3.5\n", "result": null } });
        let replies = [read(), printed];
        let call = ToolCall { tool: "t.t".into(), arguments };
        let got = filled(&call, Some(&tool(&properties)), |number| replies.get(number.wrapping_sub(1)));
        match (got, expected) {
            (Ok(call), Ok(arguments)) => assert_eq!(call.arguments, arguments),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (got, wanted) => panic!("got {got:?}, wanted {wanted:?}"),
        }
    }

    #[test]
    fn r15_references_become_values_of_the_arguments_type() {
        let text = json!({ "content": { "type": "string" }, "n": { "type": "number" } });
        check(text.clone(), json!({ "content": "{{2}}" }), Ok(json!({ "content": "3.5" })));
        check(text.clone(), json!({ "content": "The mean is {{2.data.stdout}}" }), Ok(json!({ "content": "The mean is 3.5\n" })));
        check(text.clone(), json!({ "content": "mean {{2.result}}" }), Ok(json!({ "content": "mean 3.5" })));
        check(text.clone(), json!({ "n": "{{2}}" }), Ok(json!({ "n": 3.5 })));
        check(text.clone(), json!({ "content": "{{1.path}}" }), Ok(json!({ "content": "data.csv" })));
        check(text.clone(), json!({ "content": "{{1.rows.0}}" }), Err("step 1 has nothing at \"/data/rows/0\"; it has passages, path"));
        check(text, json!({ "content": "{{7}}" }), Err("step 7 has no result"));
    }

    #[test]
    fn r15_a_foreign_text_is_a_variable_and_never_code() {
        let code = json!({ "code": { "type": "string" }, "inputs": { "type": "object" } });
        check(
            code.clone(),
            json!({ "code": "rows = \"\"\"{{1}}\"\"\".split()\nprint({{2}} + 1)" }),
            Ok(json!({ "code": "rows = step_1.split()\nprint(step_2 + 1)", "inputs": { "step_1": "a,1\nb,2", "step_2": "3.5" } })),
        );
        check(
            code,
            json!({ "code": "print(text)", "inputs": { "text": "{{1}}" } }),
            Ok(json!({ "code": "print(text)", "inputs": { "text": "a,1\nb,2" } })),
        );
    }

    #[test]
    fn a_text_is_filled_or_it_is_none() {
        let reply = json!({ "text": "522" });
        assert_eq!(filled_text("It is {{1}}.", |number| Some(&reply).filter(|_| number == 1)).as_deref(), Some("It is 522."));
        assert_eq!(filled_text("It is {{2}}.", |number| Some(&reply).filter(|_| number == 1)), None);
    }
}
