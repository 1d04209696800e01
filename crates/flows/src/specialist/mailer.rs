//! The mailer: drafts a mail, and sends it once, with the document that the writer made.
//!
//! ```text
//!   start ► compose ──────────► draft ──────► send ► end
//!           model, if a large    mail.draft    mail.send, after a person's approval
//!           one is there
//! ```
//!
//! The engine asks the person, not this flow: after a tool reply (the draft) the run is tainted, and sending is held until somebody
//! approves it, unless the configuration allows `mail.send` permanently. The effect's key ensures that it is sent once: the same mail
//! requested again is the same mail.
//!
//! Recipients come from people only: an address in their messages, or their own from the configuration for "mail it to me". Text of agents
//! and pages is never searched for addresses.

use graph::{Ask, END, Failure, FailureKind, Go, Graph, GraphError, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{closing, handed, researcher, writer};
use crate::descriptor::{Agent, Descriptor, InputKind, Visibility};
use crate::input::ModelProfile;
use crate::prompt::{self, Prompt};
use crate::settings::SettingsType;
use crate::turn::{self, Turn, Visit};

/// The flow's name.
pub const NAME: &str = "mailer";
/// Its capability in plans.
pub const CAPABILITY: &str = "send_mail";

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Mailer",
    description: "sends a mail, with the document that was made attached",
    visibility: Visibility::Internal,
    input: InputKind::Messages,
    settings: Some(SettingsType::of::<Settings>()),
    agent: Some(Agent { capability: CAPABILITY, aliases: &["Gmail", "send_email"], port: 8003 }),
    ..Descriptor::new(NAME, |_| flow())
};

/// Builds the graph.
pub fn flow() -> Result<Graph, GraphError> {
    Graph::of::<Mailer>(NAME)
        .node("compose", (ask_compose, fold_compose), &["draft", END])
        .node("draft", (ask_draft, fold_draft), &["send", END])
        .node("send", (ask_send, fold_send), &[END])
        .input(Mailer::of)
        .output(|s| closing(&s.messages, &s.context, NAME, &s.last, &s.report, CAPABILITY))
        .recall(turn::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The user's own mail address, for "mail it to me".
    pub me: Option<String>,
}

const LETTER: Prompt = Prompt { long: include_str!("letter.md"), short: include_str!("letter.md") };
const LETTER_TOKENS_MAX: u32 = 800;
const SEND_MS_MAX: u64 = 180_000;
const HISTORY_TURNS_MAX: usize = 5;
const RECIPIENTS_MAX: usize = 20;
const MATERIAL_TOKENS_MAX: usize = 3_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MailDraft {
    to: Vec<String>,
    subject: String,
    body: String,
    attachments: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mailer {
    messages: Vec<Turn>,
    context: Map<String, Value>,
    model: ModelProfile,
    letter: MailDraft,
    last: Option<Turn>,
    report: String,
}

impl Mailer {
    fn of(visit: Visit<Settings>) -> Mailer {
        let me = visit.settings.unwrap_or_default().me;
        let letter = MailDraft { to: recipients(&visit.messages, me.as_deref()), ..plain_letter(&visit.messages) };
        Mailer { messages: visit.messages, context: visit.context, model: visit.model, letter, last: None, report: String::new() }
    }

    fn give_up(&mut self, why: &str) -> Go {
        self.last = Some(Turn::given_up(NAME, CAPABILITY, why));
        Go::end().say("user", turn::request_text(&self.messages)).say("assistant", why)
    }
}

/// Phrases that request a mail to the user; beside another person's address only these exact phrases count.
const TO_ME: [&str; 6] = [" to me ", " mail me ", " email me ", " send me ", " to myself ", " mail it me "];
const AND_ME: [&str; 3] = [" me and ", " and me ", " and to me "];

/// The addresses in the request; the user's own, if requested; those named earlier; or else the user's own.
pub(super) fn recipients(messages: &[Turn], me: Option<&str>) -> Vec<String> {
    let asked = turn::request_text(messages);
    let words: Vec<String> = asked.to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).filter(|word| !word.is_empty()).collect();
    let spaced = format!(" {} ", words.join(" "));
    let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| spaced.contains(phrase));
    let me = || me.map(str::to_owned);
    let mut to = addresses(&asked);
    if !to.is_empty() {
        to.extend(me().filter(|_| has_any(&AND_ME)));
    } else if has_any(&TO_ME) && me().is_some() {
        to.extend(me());
    } else {
        let before = messages.iter().rev().filter(|turn| turn.is_a_persons()).map(|turn| addresses(&turn.content));
        to = before.into_iter().find(|found| !found.is_empty()).unwrap_or_else(|| me().into_iter().collect());
    }
    to.truncate(RECIPIENTS_MAX);
    to
}

fn addresses(text: &str) -> Vec<String> {
    let is_mark = |c: char| c.is_whitespace() || "<>()[]{},;:\"'`".contains(c);
    let words = text.split(is_mark).map(|word| word.trim_end_matches(['.', '!', '?']));
    let is_address = |word: &&str| {
        let Some((name, host)) = word.split_once('@') else { return false };
        let is_plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "._+-".contains(c));
        is_plain(name) && is_plain(host) && host.contains('.') && !host.starts_with('.')
    };
    let mut found: Vec<String> = Vec::new();
    for address in words.filter(is_address) {
        if !found.iter().any(|known| known == address) {
            found.push(address.to_owned());
        }
    }
    found
}

/// The text of a mail without a model: what is attached.
fn plain_letter(messages: &[Turn]) -> MailDraft {
    let document = handed(messages, writer::CAPABILITY).and_then(|data| data.get("document").cloned()).unwrap_or_default();
    let research = handed(messages, researcher::CAPABILITY).and_then(|data| data.get("research_summary").cloned()).unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let path = text(&document, "path");
    let title = [text(&document, "title"), text(&research, "topic")].into_iter().find(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| turn::request_text(messages).lines().next().unwrap_or_default().chars().take(80).collect());
    let mut body = if path.is_empty() { String::new() } else { format!("Attached: {title}.\n\n") };
    body.push_str(&text(&research, "summary"));
    if body.trim().is_empty() {
        let last_reply = messages.iter().rev().find(|turn| turn.role == "assistant" && turn::signal(&turn.content) == turn::Signal::None);
        body = last_reply.map_or_else(|| turn::request_text(messages), |turn| turn.content.clone());
    }
    MailDraft { to: Vec::new(), subject: one_line(&title), body, attachments: Some(path).filter(|path| !path.is_empty()).into_iter().collect() }
}

fn one_line(text: &str) -> String {
    let line = evidence::visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(150).collect()
}

fn ask_compose(s: &Mailer) -> Ask {
    if s.model.is_small || s.letter.to.is_empty() {
        return Ask::nothing();
    }
    let text = prompt::render(LETTER.of(&s.model), json!({ "to": s.letter.to, "attachments": s.letter.attachments.len() }));
    let messages = vec![
        prompt::system(text),
        prompt::message("evidence", format!("Source: the team\n{}", prompt::clipped(&evidence::defused(&s.letter.body), MATERIAL_TOKENS_MAX))),
        prompt::user(prompt::clipped(&turn::request_text(&s.messages), s.model.question_tokens())),
    ];
    let schema = json!({
        "type": "object",
        "required": ["subject", "body"],
        "additionalProperties": false,
        "properties": { "subject": { "type": "string", "minLength": 1, "maxLength": 150 }, "body": { "type": "string", "minLength": 1, "maxLength": 6_000 } },
    });
    Ask::one(prompt::call("letter", messages, Some(schema), LETTER_TOKENS_MAX).label("drafting the mail"))
}

fn fold_compose(s: &mut Mailer, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Composed {
        subject: String,
        body: String,
    }
    if s.letter.to.is_empty() {
        return s.give_up("Nobody says whom to mail: name an address in the request, or your own as `me` below [team] in the configuration.");
    }
    let go = Go::to("draft");
    if replies.is_empty() {
        return go;
    }
    match prompt::read::<Composed>(replies, 0) {
        Ok(composed) if !composed.subject.trim().is_empty() && !composed.body.trim().is_empty() => {
            s.letter.subject = one_line(&composed.subject);
            s.letter.body = composed.body;
            go
        }
        Ok(_) => go.note("plain_letter", "the model left the mail empty, so it only says what it brings"),
        Err(failure) => go.note("plain_letter", format!("the model drafted nothing ({failure}), so the mail only says what it brings")),
    }
}

fn ask_draft(s: &Mailer) -> Ask {
    Ask::one(Request::from(graph::tool("mail.draft", json!(s.letter))).label("writing the draft").attempts(3).deadline_ms(SEND_MS_MAX))
}

fn fold_draft(s: &mut Mailer, replies: &Replies<'_>) -> Go {
    match replies.parse::<evidence::Found>(0) {
        Ok(found) => {
            let path = found.data.get("path").cloned().unwrap_or_default();
            Go::to("send").note("draft", json!({ "to": s.letter.to, "subject": s.letter.subject, "attachments": s.letter.attachments, "path": path }))
        }
        Err(failure) => s.give_up(&format!("The mail could not be drafted: {}", failure.message)),
    }
}

fn ask_send(s: &Mailer) -> Ask {
    Ask::one(Request::from(graph::tool("mail.send", json!(s.letter))).label("sending the mail").attempts(3).deadline_ms(SEND_MS_MAX))
}

fn fold_send(s: &mut Mailer, replies: &Replies<'_>) -> Go {
    #[derive(Deserialize)]
    struct Sent {
        outcome: String,
        #[serde(default)]
        message_id: String,
        #[serde(default)]
        path: String,
    }
    let sent = replies.parse::<evidence::Found>(0).and_then(|found| {
        let wrong = |error: serde_json::Error| Failure::new(FailureKind::Invalid, format!("mail.send returned an invalid reply: {error}"));
        serde_json::from_value::<Sent>(found.data).map_err(wrong)
    });
    match sent {
        Ok(sent) if sent.outcome == "sent" => {
            let mail = json!({
                "to": s.letter.to,
                "subject": s.letter.subject,
                "attachments": s.letter.attachments,
                "message_id": sent.message_id,
            });
            s.last = Some(Turn::contract(NAME, CAPABILITY, &json!({ "mail": mail })));
            s.report = format!("{:?} was mailed to {}", s.letter.subject, s.letter.to.join(", "));
            Go::end().note("mail", mail).say("user", turn::request_text(&s.messages)).say("assistant", s.report.clone())
        }
        Ok(Sent { path, .. }) => s.give_up(&format!(
            "No mail server is configured ([tools.mail] in the configuration), so nothing was sent. What would have been sent is in `{path}`."
        )),
        Err(failure) => s.give_up(&format!("The mail was not sent: {}", failure.message)),
    }
}
