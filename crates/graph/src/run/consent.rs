//! An effect that is not performed before a person agrees: why, what they are shown, and what they may answer.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::ToolDefinition;
use crate::{Effect, Question, Reply};

/// Why a person must agree before an effect is performed. Written by the handler, in text that is safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objection {
    /// The reason, for the person.
    pub why: String,
    /// The tool call it is about. Without it, the only answers are `once` and `no`.
    pub call: Option<HeldCall>,
}

impl Objection {
    /// An objection that is about no tool call.
    pub fn new(why: impl Into<String>) -> Self {
        Objection { why: why.into(), call: None }
    }
}

/// A tool call that waits for a person, as the person is shown it. All text is bounded and holds no invisible characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCall {
    /// `server.tool`
    pub tool: String,
    /// The server of the tool.
    pub server: String,
    /// The arguments as JSON text; long values are shortened.
    pub arguments: String,
    /// Where the arguments came from, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// What the tool was when this was asked: a standing permission is for that.
    #[serde(default, skip_serializing_if = "ToolDefinition::is_empty")]
    pub definition: Box<ToolDefinition>,
}

/// The name that allows every tool of every server.
pub const ALLOW_ALL: &str = "*";

impl HeldCall {
    /// Whether one of these names (`server.tool`, a server, or [`ALLOW_ALL`]) allows the call.
    pub fn is_allowed_by(&self, names: &[String]) -> bool {
        names.iter().any(|name| name == ALLOW_ALL || *name == self.tool || *name == self.server)
    }
}

/// A person's answer to an [`Objection`]: `{"allow": "once"}`. `true` means `once` and `false` means `no`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// This call only.
    Once,
    /// This tool, in this thread.
    Conversation,
    /// This tool, in every thread of the user.
    Tool,
    /// Every tool of this server, in every thread of the user.
    Server,
    /// Not at all.
    No,
}

impl Consent {
    /// All answers, the narrowest permission first.
    pub const ALL: [Consent; 5] = [Consent::Once, Consent::Conversation, Consent::Tool, Consent::Server, Consent::No];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Consent::Once => "once",
            Consent::Conversation => "conversation",
            Consent::Tool => "tool",
            Consent::Server => "server",
            Consent::No => "no",
        }
    }

    /// Reads the word that [`Consent::as_str`] gives.
    pub fn parse(word: &str) -> Option<Consent> {
        Consent::ALL.into_iter().find(|consent| consent.as_str() == word)
    }

    /// Whether later calls are covered too.
    pub fn is_standing(self) -> bool {
        matches!(self, Consent::Conversation | Consent::Tool | Consent::Server)
    }

    /// The answers that a question about this call takes.
    pub fn choices(call: Option<&HeldCall>) -> Vec<Consent> {
        Consent::ALL.into_iter().filter(|consent| call.is_some() || !consent.is_standing()).collect()
    }

    /// Reads an answer.
    pub fn of(reply: &Reply, call: Option<&HeldCall>) -> Result<Consent, String> {
        let value = reply.result.as_ref().map_err(ToString::to_string)?;
        let allow = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("allow"));
        let consent = match allow {
            Some(Value::Bool(true)) => Some(Consent::Once),
            Some(Value::Bool(false)) => Some(Consent::No),
            Some(Value::String(word)) => Consent::parse(word),
            _ => None,
        };
        let choices = Consent::choices(call);
        let is_choice = |consent: &Consent| choices.contains(consent);
        let words = || choices.iter().map(|consent| consent.as_str()).collect::<Vec<_>>().join(", ");
        consent.filter(is_choice).ok_or_else(|| format!("the answers are: {}", words()))
    }
}

impl Serialize for Consent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "allow": self.as_str() }).serialize(serializer)
    }
}

/// The question a person is asked about an effect that is held back.
pub(super) fn question(effect: &Effect, objection: &Objection) -> Question {
    let choices: Vec<&str> = Consent::choices(objection.call.as_ref()).into_iter().map(Consent::as_str).collect();
    Question {
        prompt: prompt(effect, objection),
        schema: Some(json!({
            "type": "object",
            "required": ["allow"],
            "properties": { "allow": { "enum": choices } },
            "additionalProperties": false,
        })),
    }
}

fn prompt(effect: &Effect, objection: &Objection) -> String {
    let why = &objection.why;
    let Some(call) = &objection.call else {
        let body = serde_json::to_value(effect).unwrap_or(Value::Null);
        return format!("May Baton perform {} {}? {why} What would be done: {body}", effect.kind(), effect.name());
    };
    let HeldCall { tool, server, arguments, sources, definition: _ } = call;
    let sources = match sources.as_slice() {
        [] => String::new(),
        sources => format!("\nWhere they come from: {}", sources.join("; ")),
    };
    format!("May Baton call the tool {tool} of the server {server}?\nWhy this is asked: {why}\nArguments: {arguments}{sources}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> HeldCall {
        HeldCall {
            tool: "notes.add".into(),
            server: "notes".into(),
            arguments: "{\"text\":\"x\"}".into(),
            sources: vec!["your request".into()],
            ..HeldCall::default()
        }
    }

    #[test]
    fn answers_are_words_or_as_before_true_and_false() {
        let read = |value: Value, call: Option<&HeldCall>| Consent::of(&Reply::ok(value), call);
        for consent in Consent::ALL {
            assert_eq!(read(json!({ "allow": consent.as_str() }), Some(&call())), Ok(consent));
            assert_eq!(read(serde_json::to_value(consent).unwrap(), Some(&call())), Ok(consent));
        }
        assert_eq!((read(json!({ "allow": true }), None), read(json!({ "allow": false }), None)), (Ok(Consent::Once), Ok(Consent::No)));
        for wrong in [json!("once"), json!({ "allow": "always" }), json!({ "allow": 1 }), json!({ "allow": true, "x": 1 }), json!(true), json!({})] {
            let why = read(wrong.clone(), Some(&call())).unwrap_err();
            assert!(why.contains("once, conversation, tool, server, no"), "{wrong}: {why}");
        }
        assert_eq!(read(json!({ "allow": "tool" }), None), Err("the answers are: once, no".into()), "no tool is named");
    }

    #[test]
    fn the_question_shows_tool_server_arguments_and_their_sources() {
        let effect = crate::tool("notes.add", json!({ "text": "x" }));
        let asked = question(&effect, &Objection { why: "The server is not trusted.".into(), call: Some(call()) });
        assert_eq!(
            asked.prompt,
            "May Baton call the tool notes.add of the server notes?\nWhy this is asked: The server is not trusted.\nArguments: {\"text\":\"x\"}\n\
             Where they come from: your request"
        );
        assert_eq!(asked.schema.unwrap()["properties"]["allow"]["enum"], json!(["once", "conversation", "tool", "server", "no"]));
        let old = question(&effect, &Objection::new("It sends mail."));
        assert!(old.prompt.starts_with("May Baton perform tool notes.add? It sends mail."), "{}", old.prompt);
        assert_eq!(old.schema.unwrap()["properties"]["allow"]["enum"], json!(["once", "no"]));
    }

    #[test]
    fn a_name_allows_a_tool_its_server_or_everything() {
        let allowed = |name: &str| call().is_allowed_by(&[name.to_owned()]);
        assert!(allowed("notes.add") && allowed("notes") && allowed(ALLOW_ALL));
        assert!(!allowed("notes.a") && !allowed("note") && !allowed("add") && !call().is_allowed_by(&[]));
    }
}
