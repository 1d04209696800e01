//! A task as data: request, environment, permissions and requirements; and the replies of a competent large model.
//!
//! The files in `data` are the whole set; [`all`] reads and checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::judge::Expect;

/// One file for each part of the set, and the environments that several tasks share.
const FILES: [(&str, &str); 10] = [
    ("calc.toml", include_str!("data/calc.toml")),
    ("code.toml", include_str!("data/code.toml")),
    ("files.toml", include_str!("data/files.toml")),
    ("docs.toml", include_str!("data/docs.toml")),
    ("sql.toml", include_str!("data/sql.toml")),
    ("tickets.toml", include_str!("data/tickets.toml")),
    ("stories.toml", include_str!("data/stories.toml")),
    ("mail.toml", include_str!("data/mail.toml")),
    ("chain.toml", include_str!("data/chain.toml")),
    ("forbidden.toml", include_str!("data/forbidden.toml")),
];
const WORLDS: &str = include_str!("data/worlds.toml");

const STEPS_MAX: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Calc,
    Code,
    Files,
    Docs,
    Sql,
    Tickets,
    Stories,
    Mail,
    Chain,
    /// Something requests a change that must not happen.
    Forbidden,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] =
        [Kind::Calc, Kind::Code, Kind::Files, Kind::Docs, Kind::Sql, Kind::Tickets, Kind::Stories, Kind::Mail, Kind::Chain, Kind::Forbidden];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Calc => "calc",
            Kind::Code => "code",
            Kind::Files => "files",
            Kind::Docs => "docs",
            Kind::Sql => "sql",
            Kind::Tickets => "tickets",
            Kind::Stories => "stories",
            Kind::Mail => "mail",
            Kind::Chain => "chain",
            Kind::Forbidden => "forbidden",
        }
    }
}

/// Keeps the tasks of these ids and kinds; all if none is named.
pub(super) fn keep_only(tasks: &mut Vec<Task>, named: &[String]) -> Result<(), String> {
    let is_named = |task: &Task, name: &str| task.id == name || task.kind.name() == name;
    if let Some(unknown) = named.iter().find(|name| !tasks.iter().any(|task| is_named(task, name))) {
        return Err(format!("there is no task or kind {unknown:?}; the kinds are {}", Kind::ALL.map(Kind::name).join(", ")));
    }
    tasks.retain(|task| named.is_empty() || named.iter().any(|name| is_named(task, name)));
    Ok(())
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Number of tool calls of a good plan.
    pub(super) steps: u8,
    /// In a user's words.
    pub(super) request: String,
    /// The named flow; `auto` if none is.
    #[serde(default)]
    pub(super) flow: Option<String>,
    #[serde(default)]
    pub(super) world: Setup,
    #[serde(default)]
    pub(super) permissions: Permissions,
    #[serde(default)]
    pub(super) expect: Expect,
    pub(super) script: Script,
}

/// The state before the run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Setup {
    /// The name of a shared environment that this one extends.
    pub(super) base: Option<String>,
    /// Files in the workspace.
    pub(super) files: BTreeMap<String, String>,
    /// Documents to search and cite.
    pub(super) docs: BTreeMap<String, String>,
    /// Statements that fill the database; if there are any, the server `sql` is available.
    pub(super) sql: String,
    /// The server `sql` is untrusted, so its annotations are ignored.
    pub(super) sql_untrusted: bool,
    /// If there are any, the server `tickets` is available.
    pub(super) tickets: Vec<Value>,
    /// The sample server `stories` is enabled.
    pub(super) stories: bool,
}

/// The user's permissions. Everything else is answered with no.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Permissions {
    /// Given in advance, as `[tools] allowed` in the configuration.
    pub(super) allow: Vec<String>,
    pub(super) answers: Vec<Permit>,
}

/// The answer to a permission question about one tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Permit {
    pub(super) tool: String,
    /// Text that the shown call must contain, so that the user allows this call and no other one of the tool.
    #[serde(default)]
    pub(super) with: Option<String>,
    #[serde(default = "once")]
    pub(super) answer: String,
}

fn once() -> String {
    "once".to_owned()
}

/// The replies of a competent large model. Tool names and arguments are written as in a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Script {
    /// The flow that it chooses.
    pub(super) route: Option<String>,
    /// The title of a report.
    pub(super) title: Option<String>,
    pub(super) plan: Vec<Step>,
    /// Further plans, each made once its text has been shown.
    pub(super) then: Vec<Then>,
    /// `{{shown:REGEX}}` stands for the match of the expression in the evidence: its first group, or all of it. `{{shown:REGEX=>TEXT}}`
    /// stands for a text that follows from the match, such as a count.
    pub(super) answer: String,
    /// Tools for which a permission question must have been asked, so that a forbidden task does not pass because nothing was tried.
    pub(super) must_ask: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) tool: String,
    #[serde(default = "no_arguments")]
    pub(super) arguments: Value,
    #[serde(default)]
    pub(super) description: String,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Then {
    /// An expression that must match the messages; `$1` in the plan is its first group.
    pub(super) when: String,
    pub(super) plan: Vec<Step>,
}

/// The whole set.
pub(super) fn all() -> Result<Vec<Task>, String> {
    read(FILES)
}

/// Tasks of a file in the same format.
pub(super) fn of_file(path: &Path) -> Result<Vec<Task>, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    read([(name.as_str(), text.as_str())])
}

/// The tasks of these files, each with its shared environment filled in.
fn read<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Vec<Task>, String> {
    #[derive(Deserialize)]
    struct File {
        task: Vec<Task>,
    }
    let worlds: BTreeMap<String, Setup> = toml::from_str(WORLDS).map_err(|error| format!("worlds.toml: {error}"))?;
    let mut tasks = Vec::new();
    for (name, text) in files {
        let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        for mut task in file.task {
            if let Some(base) = task.world.base.take() {
                let shared = worlds.get(&base).ok_or_else(|| format!("{name}: {}: there is no world {base:?}", task.id))?;
                task.world = over(shared, task.world);
            }
            tasks.push(task);
        }
    }
    check(&tasks)?;
    Ok(tasks)
}

/// A shared environment with a task's additions.
fn over(shared: &Setup, own: Setup) -> Setup {
    let mut whole = shared.clone();
    whole.files.extend(own.files);
    whole.docs.extend(own.docs);
    whole.sql.push_str(&own.sql);
    whole.tickets.extend(own.tickets);
    whole.sql_untrusted |= own.sql_untrusted;
    whole.stories |= own.stories;
    whole
}

/// Ids are unique, expressions compile, and every task has requirements.
fn check(tasks: &[Task]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    for task in tasks {
        let wrong = |why: &str| Err(format!("task {}: {why}", task.id));
        if !ids.insert(&task.id) {
            return wrong("the id is used twice");
        }
        if !(1..=STEPS_MAX).contains(&task.steps) || task.request.trim().is_empty() || task.script.answer.trim().is_empty() {
            return wrong("it needs 1 to 4 steps, a request and a scripted answer");
        }
        if task.kind != Kind::Forbidden && task.expect.is_empty() {
            return wrong("nothing is expected of it, so it could not fail");
        }
        let expressions = task.script.then.iter().map(|then| then.when.as_str()).chain(shown_patterns(&task.script.answer));
        for expression in expressions {
            if let Err(error) = Regex::new(expression) {
                return wrong(&format!("{expression:?} is not an expression: {error}"));
            }
        }
    }
    Ok(())
}

/// A part of a scripted answer.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// The match of the expression, or the text that follows from it.
    Shown {
        pattern: &'a str,
        text: Option<&'a str>,
    },
}

pub(super) fn parts(answer: &str) -> Vec<Part<'_>> {
    const SHOWN: &str = "{{shown:";
    const END: &str = "}}";
    let mut parts = Vec::new();
    let mut rest = answer;
    while let Some(at) = rest.find(SHOWN) {
        let inner = &rest[at + SHOWN.len()..];
        let Some(end) = inner.find(END) else { break };
        parts.push(Part::Text(&rest[..at]));
        let (pattern, text) = inner[..end].split_once("=>").map_or((&inner[..end], None), |(pattern, text)| (pattern, Some(text)));
        parts.push(Part::Shown { pattern, text });
        rest = &inner[end + END.len()..];
    }
    parts.push(Part::Text(rest));
    parts
}

/// The expressions in a scripted answer.
pub(super) fn shown_patterns(answer: &str) -> Vec<&str> {
    parts(answer)
        .into_iter()
        .filter_map(|part| match part {
            Part::Shown { pattern, .. } => Some(pattern),
            Part::Text(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_well_formed_and_covers_what_it_should() {
        let tasks = all().unwrap();
        assert!(tasks.len() >= 64, "{}", tasks.len());
        for kind in Kind::ALL {
            assert!(tasks.iter().filter(|task| task.kind == kind).count() >= 4, "{}", kind.name());
        }
        assert!(tasks.iter().filter(|task| task.kind == Kind::Forbidden).count() >= 10);
        for steps in 1..=STEPS_MAX {
            assert!(tasks.iter().any(|task| task.steps == steps), "{steps} steps");
        }
        let is_chain = |task: &&Task| task.kind == Kind::Chain;
        assert!(tasks.iter().filter(is_chain).all(|task| task.steps >= 2));
        assert!(tasks.iter().any(|task| task.flow.is_some()) && tasks.iter().any(|task| task.flow.is_none()));
        assert!(tasks.iter().any(|task| !task.permissions.allow.is_empty()) && tasks.iter().any(|task| !task.permissions.answers.is_empty()));
        assert!(tasks.iter().any(|task| !task.request.is_ascii()), "some requests are in other languages");
    }

    #[test]
    fn errors_of_a_task_are_reported() {
        let task = all().unwrap().remove(0);
        let twice = [task.clone(), task.clone()];
        assert!(check(&twice).unwrap_err().contains("used twice"));
        let idle = Task { expect: Expect::default(), ..task.clone() };
        assert!(check(&[idle]).unwrap_err().contains("could not fail"));
        let script = Script { answer: "It is {{shown:(}}.".into(), ..task.script.clone() };
        assert!(check(&[Task { script, ..task }]).unwrap_err().contains("is not an expression"));
    }

    #[test]
    fn an_answer_has_texts_and_what_is_shown() {
        let wanted = [
            Part::Text("a "),
            Part::Shown { pattern: "x(1)", text: None },
            Part::Text(" b "),
            Part::Shown { pattern: "y", text: Some("2") },
            Part::Text(" {{z}}"),
        ];
        assert_eq!(parts("a {{shown:x(1)}} b {{shown:y=>2}} {{z}}"), wanted);
    }
}
