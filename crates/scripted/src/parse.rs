//! Reads a script. An error names the place, what was expected there and what was found.

use std::time::Duration;

use graph::{Failure, FailureKind, Usage};
use serde_json::Value;

use super::rule::{Action, Condition, Rule, Test, Uses};
use effects::Repeatability;

pub(super) fn script(text: &str) -> Result<Vec<Rule>, ScriptError> {
    let mut rules = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut cursor = Cursor { line: index + 1, whole: line, rest: line };
        if cursor.peek().is_some() {
            rules.push(cursor.rule()?);
        }
    }
    Ok(rules)
}

/// A line of a script that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the script: expected {expected}, found {found}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    /// What could stand there.
    pub expected: String,
    /// What does.
    pub found: String,
}

const KINDS: [&str; 3] = ["tool", "model", "agent"];

const FAILURES: [(&str, FailureKind); 12] = [
    ("network", FailureKind::Network),
    ("timeout", FailureKind::Timeout),
    ("invalid", FailureKind::Invalid),
    ("refused", FailureKind::Refused),
    ("tool", FailureKind::Tool),
    ("limit", FailureKind::Limit),
    ("budget", FailureKind::Budget),
    ("need", FailureKind::Need),
    ("reference", FailureKind::Reference),
    ("in_doubt", FailureKind::InDoubt),
    ("cancelled", FailureKind::Cancelled),
    ("internal", FailureKind::Internal),
];

/// A place in one line.
struct Cursor<'t> {
    line: usize,
    whole: &'t str,
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn rule(&mut self) -> Result<Rule, ScriptError> {
        self.literal("when")?;
        let kind = self.one_of("tool, model or agent", |word| KINDS.into_iter().find(|kind| *kind == word))?;
        let name = self.word("a name, in which * stands for anything")?.to_owned();
        let mut conditions = Vec::new();
        while let Some(at) = self.peek().filter(|word| !ACTIONS.contains(word)).and_then(|word| word.find(['=', '~'])) {
            conditions.push(self.condition(at)?);
        }
        let head = self.whole[..self.whole.len() - self.rest.len()].trim().to_owned();
        let action = self.action()?;
        let id = format!("{}: {}", self.line, self.whole.trim()).into();
        let mut rule = Rule {
            id,
            line: self.line,
            head,
            kind,
            name,
            conditions,
            action,
            after: Duration::ZERO,
            uses: Uses::Always,
            usage: Usage::default(),
            repeatability: Repeatability::Repeatable,
            asks: false,
            defined: String::new(),
        };
        self.modifiers(&mut rule)?;
        Ok(rule)
    }

    fn condition(&mut self, at: usize) -> Result<Condition, ScriptError> {
        let path = self.rest[..at].to_owned();
        if path.split('.').any(str::is_empty) {
            return Err(self.wrong("a path before = or ~, such as query or to.0.name"));
        }
        let is_equals = self.rest[at..].starts_with('=');
        self.rest = &self.rest[at + 1..];
        // What follows must touch the sign: `query= x` would read on into the action.
        if self.rest.is_empty() || self.rest.starts_with(char::is_whitespace) {
            return Err(self.wrong("a value directly after = or ~"));
        }
        let test = if is_equals {
            Test::Equals(self.json("a JSON value (text goes in double quotes)")?)
        } else if self.rest.starts_with('"') {
            Test::Contains(self.text("text to look for")?)
        } else {
            Test::Contains(self.word("text to look for")?.to_owned())
        };
        Ok(Condition { path, test })
    }

    fn action(&mut self) -> Result<Action, ScriptError> {
        match self.peek() {
            Some("reply") => {
                self.skip("reply");
                Ok(Action::Reply(self.json("a JSON value to reply with (text goes in double quotes)")?))
            }
            Some("echo") => {
                self.skip("echo");
                Ok(Action::Echo)
            }
            Some("hang") => {
                self.skip("hang");
                Ok(Action::Hang)
            }
            Some("panic") => {
                self.skip("panic");
                Ok(Action::Panic(self.text("words in double quotes to panic with")?))
            }
            Some("abort") => {
                self.skip("abort");
                Ok(Action::Abort)
            }
            Some("fail") => {
                self.skip("fail");
                let names = FAILURES.map(|(name, _)| name).join(", ");
                let kind = self.one_of(&format!("a kind of failure ({names})"), |word| {
                    FAILURES.into_iter().find(|(name, _)| *name == word).map(|(_, kind)| kind)
                })?;
                Ok(Action::Fail(Failure::new(kind, self.text("words in double quotes that say why")?)))
            }
            _ => Err(self.wrong("a condition (path=JSON or path~text) or an action (reply, echo, fail, hang, panic or abort)")),
        }
    }

    fn modifiers(&mut self, rule: &mut Rule) -> Result<(), ScriptError> {
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = self.peek() {
            if seen.contains(&word) {
                return Err(self.wrong(format!("{word} only once in a line")));
            }
            match (word, &mut rule.action) {
                ("after", _) => {
                    self.skip(word);
                    rule.after = self.duration()?;
                }
                ("times", _) => {
                    self.skip(word);
                    let count = self.one_of("a number from 1 on", |word| word.parse().ok().filter(|&count: &u32| count > 0))?;
                    rule.uses = Uses::Times(count);
                    if self.peek() == Some("each") {
                        self.skip("each");
                        rule.uses = Uses::FirstAttempts(count);
                    }
                }
                ("tokens", _) => {
                    self.skip(word);
                    (rule.usage.tokens_in, rule.usage.tokens_out) = self.one_of("tokens in and out, such as 120/30", |word| {
                        let (tokens_in, tokens_out) = word.split_once('/')?;
                        Some((tokens_in.parse().ok()?, tokens_out.parse().ok()?))
                    })?;
                }
                ("usd", _) => {
                    self.skip(word);
                    rule.usage.usd_micros = self.one_of("an amount in dollars, such as 0.002", micros)?;
                }
                ("once" | "checkable" | "asks", _) if rule.kind != "tool" => {
                    return Err(self.wrong(format!("nothing like that for a {}: only tools change the world", rule.kind)));
                }
                ("once", _) if !seen.contains(&"checkable") => {
                    self.skip(word);
                    rule.repeatability = Repeatability::Once;
                }
                ("checkable", _) if !seen.contains(&"once") => {
                    self.skip(word);
                    rule.repeatability = Repeatability::Checkable;
                }
                ("asks", _) => {
                    self.skip(word);
                    rule.asks = true;
                }
                ("defined", _) if seen.contains(&"asks") => {
                    self.skip(word);
                    rule.defined = self.text("words in double quotes that say what the tool is")?;
                }
                ("defined", _) => return Err(self.wrong("defined only after asks")),
                ("once" | "checkable", _) => return Err(self.wrong("either once or checkable, not both")),
                ("retry" | "retry-after", Action::Fail(_)) if seen.iter().any(|seen| seen.starts_with("retry")) => {
                    return Err(self.wrong("either retry or retry-after, not both"));
                }
                ("retry", Action::Fail(failure)) => {
                    self.skip(word);
                    *failure = failure.clone().retry();
                }
                ("retry-after", Action::Fail(failure)) => {
                    self.skip(word);
                    let ms = u64::try_from(self.duration()?.as_millis()).unwrap_or(u64::MAX);
                    *failure = failure.clone().retry_after_ms(ms);
                }
                ("retry" | "retry-after", _) => return Err(self.wrong("retry only after fail")),
                _ => {
                    return Err(self.wrong("after, times, tokens, usd, once, checkable, asks, defined, retry, retry-after, # or the end of the line"));
                }
            }
            seen.push(word);
        }
        Ok(())
    }

    fn duration(&mut self) -> Result<Duration, ScriptError> {
        self.one_of("a duration, such as 20ms, 500us or 2s", |word| {
            let digits = word.find(|c: char| !c.is_ascii_digit())?;
            let count: u64 = word[..digits].parse().ok()?;
            match &word[digits..] {
                "us" => Some(Duration::from_micros(count)),
                "ms" => Some(Duration::from_millis(count)),
                "s" => Some(Duration::from_secs(count)),
                _ => None,
            }
        })
    }

    fn text(&mut self, expected: &str) -> Result<String, ScriptError> {
        let here = (self.line, self.whole, self.rest);
        match self.json(expected)? {
            Value::String(text) => Ok(text),
            _ => {
                (self.line, self.whole, self.rest) = here;
                Err(self.wrong(expected))
            }
        }
    }

    fn json(&mut self, expected: &str) -> Result<Value, ScriptError> {
        self.peek().ok_or_else(|| self.wrong(expected))?;
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                self.rest = &self.rest[values.byte_offset()..];
                Ok(value)
            }
            Some(Err(error)) => {
                // The rest of the line, and not the next word: that is what the reader could not make sense of.
                let found = super::rule::shortened(self.rest.trim_end());
                Err(ScriptError { line: self.line, expected: expected.to_owned(), found: format!("{found:?} ({error})") })
            }
            None => Err(self.wrong(expected)),
        }
    }

    fn one_of<T>(&mut self, expected: &str, read: impl Fn(&'t str) -> Option<T>) -> Result<T, ScriptError> {
        let value = self.peek().and_then(read).ok_or_else(|| self.wrong(expected))?;
        self.word(expected)?;
        Ok(value)
    }

    fn literal(&mut self, word: &'static str) -> Result<(), ScriptError> {
        self.one_of(word, |found| (found == word).then_some(()))
    }

    fn word(&mut self, expected: &str) -> Result<&'t str, ScriptError> {
        let word = self.peek().ok_or_else(|| self.wrong(expected))?;
        self.skip(word);
        Ok(word)
    }

    /// The next word, with the cursor moved to where it begins. A comment ends the line.
    fn peek(&mut self) -> Option<&'t str> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('#') {
            return None;
        }
        self.rest.split_whitespace().next()
    }

    fn skip(&mut self, word: &str) {
        self.rest = self.rest.strip_prefix(word).unwrap_or(self.rest);
    }

    fn wrong(&mut self, expected: impl Into<String>) -> ScriptError {
        let found = self.peek().map_or_else(|| "the end of the line".to_owned(), |word| format!("{word:?}"));
        ScriptError { line: self.line, expected: expected.into(), found }
    }
}

const ACTIONS: [&str; 6] = ["reply", "echo", "fail", "hang", "panic", "abort"];

/// By digits and not by floating point: sums of money should be exact.
fn micros(dollars: &str) -> Option<u64> {
    let (whole, part) = dollars.split_once('.').unwrap_or((dollars, ""));
    if part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) || (dollars.contains('.') && part.is_empty()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}
