//! One rule of a script: which effects it fits, and what it answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use graph::{Effect, Failure, Usage};
use serde_json::Value;

use effects::Repeatability;

#[derive(Debug)]
pub(super) struct Rule {
    /// The line with its number: what uses are counted by, so that another script does not inherit them by accident.
    pub(super) id: Arc<str>,
    pub(super) line: usize,
    /// The line up to the action, as it was written.
    pub(super) head: String,
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
    pub(super) after: Duration,
    pub(super) uses: Uses,
    pub(super) usage: Usage,
    pub(super) repeatability: Repeatability,
    /// A person must agree first.
    pub(super) asks: bool,
    /// What the tool is, for who is asked.
    pub(super) defined: String,
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) path: String,
    pub(super) test: Test,
}

#[derive(Debug)]
pub(super) enum Test {
    Equals(Value),
    Contains(String),
}

#[derive(Debug)]
pub(super) enum Action {
    Reply(Value),
    Echo,
    Fail(Failure),
    Hang,
    Panic(String),
    /// Ends the process at once, as a fault of the machine would.
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    Always,
    /// For this number of attempts in all.
    Times(u32),
    /// For this number of attempts at each effect.
    FirstAttempts(u32),
}

impl Rule {
    /// Whether this rule is about such an effect at all, be it used up or not.
    pub(super) fn fits(&self, effect: &Effect) -> bool {
        self.is_for(effect) && self.conditions.iter().all(|condition| condition.holds(effect))
    }

    fn is_for(&self, effect: &Effect) -> bool {
        self.kind == effect.kind() && glob(&self.name, effect.name())
    }
}

impl Condition {
    fn holds(&self, effect: &Effect) -> bool {
        match (field_of(effect, &self.path), &self.test) {
            (None, _) => false,
            (Some(found), Test::Equals(wanted)) => *found == *wanted,
            (Some(found), Test::Contains(part)) => match &*found {
                Value::String(text) => text.contains(part),
                other => other.to_string().contains(part),
            },
        }
    }
}

/// The part of an effect that rules look into and records keep.
pub(super) fn arguments(effect: &Effect) -> Value {
    match effect {
        Effect::CallTool(call) => call.arguments.clone(),
        Effect::CallAgent(call) => call.input.clone(),
        Effect::CallModel(call) => serde_json::to_value(call).unwrap_or(Value::Null),
        Effect::AskPerson(question) => Value::from(question.prompt.clone()),
    }
}

/// A model repeats the last message; other effects repeat their arguments.
pub(super) fn echo(effect: &Effect) -> Value {
    match effect {
        Effect::CallModel(call) => call.messages.last().map_or(Value::Null, |message| Value::from(message.content.clone())),
        Effect::CallTool(_) | Effect::CallAgent(_) | Effect::AskPerson(_) => arguments(effect),
    }
}

/// The nearest rules: by kind first, then by the edit distance of the name.
pub(super) fn nearest(rules: &[Rule], effect: &Effect) -> Vec<String> {
    let mut ranked: Vec<_> = rules
        .iter()
        .map(|rule| {
            let away = if glob(&rule.name, effect.name()) { 0 } else { strsim::levenshtein(&rule.name, effect.name()) };
            ((rule.kind != effect.kind(), away, rule.line), rule)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let describe = |rule: &Rule| {
        let why = if rule.fits(effect) {
            ", used up"
        } else if rule.is_for(effect) {
            ", other arguments"
        } else {
            ""
        };
        format!("`{}` (line {}{why})", rule.head, rule.line)
    };
    ranked.into_iter().take(NEAREST_MAX).map(|(_, rule)| describe(rule)).collect()
}

const NEAREST_MAX: usize = 3;

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

const SHOWN_CHARS_MAX: usize = 200;

fn field_of<'e>(effect: &'e Effect, path: &str) -> Option<Cow<'e, Value>> {
    match effect {
        Effect::CallTool(call) => value_at(&call.arguments, path).map(Cow::Borrowed),
        Effect::CallAgent(call) => value_at(&call.input, path).map(Cow::Borrowed),
        Effect::CallModel(call) if path == "text" => {
            let contents: Vec<&str> = call.messages.iter().map(|message| message.content.as_str()).collect();
            Some(Cow::Owned(Value::from(contents.join("\n"))))
        }
        Effect::CallModel(_) => value_at(&arguments(effect), path).cloned().map(Cow::Owned),
        Effect::AskPerson(_) => None,
    }
}

fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Object(map) => map.get(part),
        Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// `*` stands for any letters, none included.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(tail) = parts.pop() else { return true };
    for part in parts {
        // The earliest place leaves the most room for what follows.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let fitting =
            [("*", ""), ("*", "x"), ("a", "a"), ("a*", "a"), ("mcp.*", "mcp.x"), ("*.send", "mail.send"), ("a*b*c", "a-b-b-c"), ("**", "x")];
        for (pattern, name) in fitting {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "x"), ("a", "ab"), ("a*", "b"), ("*.send", "send"), ("a*a", "a"), ("a*b*c", "a-c-b")] {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
    }
}
