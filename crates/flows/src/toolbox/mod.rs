//! The tools of a run: listed by an effect, described to a model, and checked against the calls that the model plans.
//!
//! ```text
//! ask(question) -> Request                         tool `registry.tools`; its reply is journalled like any other
//! ask_named(question, &names) -> Request           only the named ones, if any are
//! ask_acting() -> Request                          the built-in tools for files, code and arithmetic, whatever their rank
//! ask_more(query) -> Request                       the tool-search step of a plan
//! Toolbox::read(&replies, index) -> Result<Toolbox, Failure>
//!   .enabled(&names)  .with(more)                  fewer of them, more of them
//!   .fitting(&profile, aim, has_documents)         the tools shown to a planner: in the registry's order, with slots for lookups (`fit.rs`)
//!   .is_full()  .with_finder()                     whether there may be other tools, and the step that searches for them
//!   .get(name)                                     by its name, or by the part after the dot if it is unique
//!   .resolve(&ToolCall) -> Result<ToolCall, String>   its full name and valid arguments; the error is worded for a model or a person
//!   .fallback(text) -> Option<ToolCall>            the first read-only tool that needs only a text
//!   .look_up(text) -> Option<ToolCall>             the same, but only where that text is a question
//!   .describe(&profile) -> String                      their description for a model, each labelled as read-only or not
//!   .call_schema(&profile, name_field, arguments_field, more) -> Value   the schema of one call in a plan
//! references(&arguments) -> Vec<Reference>         `{{1}}`, `{{2.data.url}}`: the result of another task of the same plan
//!   reference.hole(from) -> graph::Placeholder            `from`: that task's index in the ask
//! ```
//!
//! Every tool is offered to every planner. One that is not known to be read-only is labelled, and the host's permission check decides whether it may run;
//! it is never hidden here.
//!
//! The check covers only the structure of the top level: required arguments, unknown arguments, types. The hub validates every call against the whole
//! schema before a server sees it. Descriptions of tools are untrusted text: they are neutralized and clipped before a model reads them.

use graph::{Failure, FailureKind, Replies, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::input::ModelProfile;

mod fit;
mod inline;
mod reference;

pub(crate) use fit::DOCUMENTS;
pub use fit::PlanPurpose;
pub use reference::{Reference, references};

/// The tool that lists the others.
pub const REGISTRY: &str = "registry.tools";
/// Tools in one listing.
const TOOLS_MAX: usize = 24;
/// Tools that a tool-search step adds.
const FOUND_TOOLS_MAX: usize = 8;
/// The list is cached, so a longer wait means that the host does not respond.
const DEADLINE_MS: u64 = 10_000;

/// Lists the tools that fit a question.
pub fn ask(question: &str) -> Request {
    listing(json!({ "query": crate::prompt::clipped(question, 500), "size": TOOLS_MAX }))
}

/// All named tools, whatever their rank; the best ones if none is named.
pub fn ask_named(question: &str, names: &[String]) -> Request {
    if names.is_empty() { ask(question) } else { listing(json!({ "names": names })) }
}

/// The built-in tools for files, code and arithmetic, which the words of a request seldom rank first.
pub fn ask_acting() -> Request {
    listing(json!({ "names": fit::ACTING_SERVERS }))
}

/// The tool-search step of a plan.
pub fn ask_more(query: &str) -> Request {
    listing(json!({ "query": crate::prompt::clipped(query, 200), "size": FOUND_TOOLS_MAX })).label("finding more tools")
}

fn listing(arguments: Value) -> Request {
    Request::from(graph::tool(REGISTRY, arguments)).label("listing the tools").attempts(2).deadline_ms(DEADLINE_MS)
}

/// A tool as the registry lists it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `server.tool`.
    pub name: String,
    /// The server's description; untrusted.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    #[serde(default)]
    pub schema: Value,
    /// Known to change nothing: its server is built in or trusted, and declares it read-only. Any other tool may change something.
    #[serde(default)]
    pub read_only: bool,
    /// It may destroy something.
    #[serde(default)]
    pub destructive: bool,
}

/// The tools of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Toolbox {
    /// In the registry's order.
    pub tools: Vec<Tool>,
}

impl Toolbox {
    /// Parses the registry's reply.
    pub fn read(replies: &Replies<'_>, index: usize) -> Result<Toolbox, Failure> {
        let found: evidence::Found = replies.parse(index)?;
        let tools = found.data.get("tools").cloned().unwrap_or(Value::Null);
        let mut toolbox: Toolbox = serde_json::from_value(tools)
            .map_err(|error| Failure::new(FailureKind::Invalid, format!("{REGISTRY} gave no list of tools: {error}")))?;
        for tool in &mut toolbox.tools {
            tool.schema = inline::inlined(std::mem::take(&mut tool.schema));
        }
        Ok(toolbox)
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Full names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Only the tools named by full name, by server (`docs`) or by the part after the dot. An empty list means all.
    pub fn enabled(mut self, names: &[String]) -> Toolbox {
        let is_named = |tool: &Tool| names.iter().any(|name| tool.name == *name || tool.name.split('.').any(|part| part == name));
        self.tools.retain(|tool| names.is_empty() || is_named(tool));
        self
    }

    /// Without those named by their full names.
    pub fn without(mut self, names: &[String]) -> Toolbox {
        self.tools.retain(|tool| !names.contains(&tool.name));
        self
    }

    /// Appends the tools of `more` that are not in the list yet.
    pub fn with(mut self, more: Toolbox) -> Toolbox {
        for tool in more.tools {
            if !self.tools.iter().any(|known| known.name == tool.name) {
                self.tools.push(tool);
            }
        }
        self
    }

    /// Adds the tool-search step, with which a planner can look for further tools.
    pub fn with_finder(self) -> Toolbox {
        let finder = Tool {
            name: REGISTRY.to_owned(),
            description: "Find more tools. Use it alone, and only if none of the tools listed here can do it.".to_owned(),
            schema: json!({
                "type": "object",
                "required": ["query"],
                "additionalProperties": false,
                "properties": { "query": { "type": "string", "description": "what the missing tool must be able to do" } },
            }),
            read_only: true,
            destructive: false,
        };
        self.with(Toolbox { tools: vec![finder] })
    }

    /// Whether a listing is at its limit, so that there may be further tools.
    pub fn is_full(&self) -> bool {
        self.tools.len() >= TOOLS_MAX
    }

    /// Whether a call of this name is known to change nothing; `false` for an unknown tool.
    pub fn is_read_only(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.read_only && !tool.destructive)
    }

    /// Whether a text contains a word of a tool's name: `stories` of `stories.search_stories`.
    pub fn is_named_in(&self, text: &str) -> bool {
        const WORD_CHARS_MIN: usize = 4;
        let words = |text: &str| -> Vec<String> {
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() >= WORD_CHARS_MIN);
            words.map(|word| word.to_lowercase().trim_end_matches('s').to_owned()).collect()
        };
        let named = words(text);
        self.tools.iter().any(|tool| words(&tool.name).iter().any(|part| named.contains(part)))
    }

    /// A tool by its full name, or by the part after the dot if it is unique.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        let name = name.trim();
        self.tools.iter().find(|tool| tool.name == name).or_else(|| {
            let mut short = self.tools.iter().filter(|tool| tool.name.rsplit('.').next() == Some(name));
            short.next().filter(|_| short.next().is_none())
        })
    }

    /// The call with its full name and checked arguments.
    pub fn resolve(&self, call: &ToolCall) -> Result<ToolCall, String> {
        let Some(tool) = self.get(&call.tool) else {
            return Err(format!("there is no tool {:?}; there are {}", call.tool, self.names().join(", ")));
        };
        let mut arguments = match &call.arguments {
            Value::Object(fields) => fields.clone(),
            Value::Null => Map::new(),
            other => return Err(format!("the arguments of {} are not an object but {}", tool.name, kind(other))),
        };
        let references = references(&call.arguments);
        let is_filled_later = |name: &str| references.iter().any(|reference| reference.within.is_none() && reference.is_of(name));
        let properties = tool.schema.get("properties").and_then(Value::as_object);
        // A null in an optional field counts as a missing field.
        arguments.retain(|name, value| !value.is_null() || tool.requires(name) || properties.and_then(|all| all.get(name)).is_none_or(allows_null));
        if let Some(missing) = tool.required().find(|name| !arguments.contains_key(*name)) {
            return Err(format!("{} needs the argument {missing:?}", tool.name));
        }
        for (name, value) in &arguments {
            match properties.and_then(|all| all.get(name)) {
                None if tool.schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    let known: Vec<&str> = tool.properties().into_iter().map(|(name, _)| name.as_str()).collect();
                    return Err(format!("{} has no argument {name:?}; it has {}", tool.name, known.join(", ")));
                }
                Some(schema) if !is_filled_later(name) => fits(value, schema).map_err(|why| format!("{}: {name:?} {why}", tool.name))?,
                _ => {}
            }
        }
        Ok(ToolCall { tool: tool.name.clone(), arguments: Value::Object(arguments) })
    }

    /// The first read-only tool that can be called with a text alone, preferably one that takes a question and not a path or an expression.
    pub fn fallback(&self, text: &str) -> Option<ToolCall> {
        let able = || {
            self.tools
                .iter()
                .filter(|tool| tool.read_only && !tool.destructive && tool.name != REGISTRY)
                .filter_map(|tool| Some((tool, tool.text_argument()?)))
        };
        let (tool, name) = able().find(|(_, name)| QUESTIONS.contains(name)).or_else(|| able().next())?;
        Some(ToolCall { tool: tool.name.clone(), arguments: json!({ name: text }) })
    }

    /// The first read-only tool that takes a question in plain words.
    pub fn look_up(&self, text: &str) -> Option<ToolCall> {
        let tool = self.tools.iter().find(|tool| tool.name != REGISTRY && tool.is_look_up())?;
        Some(ToolCall { tool: tool.name.clone(), arguments: json!({ tool.text_argument()?: text }) })
    }

    /// A search of the documents for the question in its own words, if the calls search them otherwise. Not for other tools: the totals of a second
    /// query would stand beside those that were asked for.
    pub fn in_own_words(&self, question: &str, calls: &[ToolCall]) -> Option<ToolCall> {
        let planned = calls.iter().find(|call| call.tool == DOCUMENTS)?;
        let argument = self.get(DOCUMENTS)?.text_argument()?;
        let mut call = planned.clone();
        call.arguments[argument] = json!(crate::prompt::clipped(question, OWN_WORDS_TOKENS_MAX));
        (!calls.contains(&call)).then_some(call)
    }

    /// All tools, one line each, as a prompt lists them.
    pub fn describe(&self, profile: &ModelProfile) -> String {
        self.tools.iter().map(|tool| tool.describe(profile.is_small)).collect::<Vec<_>>().join("\n")
    }

    /// The schema of one planned call, with `more` properties. For a small model it contains each tool's own arguments, which prevents
    /// mistakes at no cost; for a larger one the arguments are only described, so that one bad call does not make a whole plan invalid.
    pub fn call_schema(&self, profile: &ModelProfile, name_field: &str, arguments_field: &str, more: &Map<String, Value>) -> Value {
        let object = |name: Value, arguments: Value| {
            let mut properties = more.clone();
            properties.insert(name_field.to_owned(), name);
            properties.insert(arguments_field.to_owned(), arguments);
            let mut required: Vec<&String> = properties.keys().collect();
            required.sort();
            json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
        };
        // A generator that fills a schema blindly takes the first alternative, which must be a lookup.
        let mut tools: Vec<&Tool> = self.tools.iter().collect();
        tools.sort_by_key(|tool| (tool.name == REGISTRY, !tool.is_look_up(), !tool.read_only));
        let each: Vec<Value> = tools.into_iter().map(|tool| object(json!({ "const": tool.name }), tool.schema_within())).collect();
        match each.len() {
            0 => object(json!({ "type": "string" }), json!({ "type": "object" })),
            _ if !profile.is_small => object(json!({ "type": "string" }), json!({ "type": "object" })),
            1 => each.into_iter().next().unwrap_or_default(),
            _ => json!({ "anyOf": each }),
        }
    }
}

/// The description of a step that looks up the question as it is.
pub(crate) const OWN_WORDS: &str = "Look for the question itself";
/// Tokens of a question that is looked up as it is.
pub(crate) const OWN_WORDS_TOKENS_MAX: usize = 300;

/// Names of arguments that take a question.
const QUESTIONS: [&str; 8] = ["query", "q", "question", "search", "text", "input", "topic", "prompt"];

/// Maximum length of a server's description in a prompt.
const DESCRIPTION_CHARS_MAX: usize = 400;
const SHORT_DESCRIPTION_CHARS_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 80;
const ARGUMENT_CHARS_MAX: usize = 80;
const SHORT_ARGUMENT_CHARS_MAX: usize = 60;

impl Tool {
    fn required(&self) -> impl Iterator<Item = &str> {
        self.schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    fn requires(&self, name: &str) -> bool {
        self.required().any(|required| required == name)
    }

    /// Required ones first, then by name: the order of a JSON object depends on serde_json's features, and a prompt must not.
    fn properties(&self) -> Vec<(&String, &Value)> {
        let mut all: Vec<(&String, &Value)> = self.schema.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
        all.sort_by_key(|(name, _)| (!self.requires(name), *name));
        all
    }

    /// The argument that takes the question, if all others are optional.
    pub fn text_argument(&self) -> Option<&str> {
        let is_text = |schema: &Value| kinds(schema).contains(&"string") && schema.get("enum").is_none();
        let texts: Vec<&str> = self.properties().into_iter().filter(|(_, schema)| is_text(schema)).map(|(name, _)| name.as_str()).collect();
        let required: Vec<&str> = self.required().collect();
        match required.as_slice() {
            [only] => texts.into_iter().find(|name| name == only),
            [] => QUESTIONS.into_iter().find_map(|usual| texts.iter().copied().find(|name| *name == usual)),
            _ => None,
        }
    }

    /// Read-only, and takes a question in plain words.
    pub fn is_look_up(&self) -> bool {
        const ASKED: [&str; 4] = ["query", "q", "question", "search"];
        self.read_only && !self.destructive && self.text_argument().is_some_and(|name| ASKED.contains(&name))
    }

    /// Its name and description, for a model that only has to know that it exists.
    pub fn one_line(&self) -> String {
        format!("- {}: {}", one_line(&self.name, NAME_CHARS_MAX), one_line(&self.description, SHORT_DESCRIPTION_CHARS_MAX))
    }

    fn describe(&self, is_short: bool) -> String {
        let arguments: Vec<String> = self
            .properties()
            .into_iter()
            .map(|(name, schema)| {
                let optional = if self.requires(name) { "" } else { "?" };
                let kind = match schema.get("enum").and_then(Value::as_array) {
                    Some(options) if options.len() <= 8 => options.iter().map(Value::to_string).collect::<Vec<_>>().join("|"),
                    _ => kinds(schema).join("|"),
                };
                let chars_max = if is_short { SHORT_ARGUMENT_CHARS_MAX } else { ARGUMENT_CHARS_MAX };
                let about = schema.get("description").and_then(Value::as_str).map(|words| format!(" ({})", one_line(words, chars_max)));
                // A small model reads slowly, so only required arguments are described.
                let about = about.filter(|_| !is_short || self.requires(name)).unwrap_or_default();
                format!("{}{optional}: {}{about}", one_line(name, 60), if kind.is_empty() { "any" } else { &kind })
            })
            .collect();
        let chars_max = if is_short { SHORT_DESCRIPTION_CHARS_MAX } else { DESCRIPTION_CHARS_MAX };
        let label = if self.read_only && !self.destructive { "read-only" } else { "may change something" };
        format!("- {}({}) [{label}]: {}", self.name, arguments.join(", "), one_line(&self.description, chars_max))
    }

    /// Its schema as part of another one; a schema with internal references cannot be embedded, and is only checked afterwards.
    fn schema_within(&self) -> Value {
        if !self.schema.is_object() || self.schema.to_string().contains("\"$ref\"") {
            return json!({ "type": "object" });
        }
        let mut schema = self.schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            ["$schema", "$id", "title", "description"].into_iter().for_each(|name| drop(fields.remove(name)));
            fields.entry("type").or_insert_with(|| json!("object"));
        }
        schema
    }
}

fn one_line(words: &str, chars_max: usize) -> String {
    let line = evidence::defused(words).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > chars_max { line.chars().take(chars_max).chain(['…']).collect() } else { line }
}

fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    let kinds = kinds(schema);
    let is_of = |wanted: &&str| match *wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    };
    if !kinds.is_empty() && !kinds.iter().any(is_of) {
        return Err(format!("must be of type {}, not {}", kinds.join(" or "), kind(value)));
    }
    match schema.get("enum").and_then(Value::as_array) {
        Some(options) if !options.contains(value) => {
            Err(format!("must be one of {}", options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")))
        }
        _ => Ok(()),
    }
}

/// The types a schema names, of itself and of its alternatives; empty if it names none.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => {
            let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema.get(name)?.as_array()).flatten();
            let each: Vec<Vec<&str>> = alternatives.map(kinds).collect();
            if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() }
        }
    }
}

fn allows_null(schema: &Value) -> bool {
    let kinds = kinds(schema);
    kinds.is_empty() || kinds.contains(&"null")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
