//! The settings of flows: what each flow declares in its `Settings` struct, as data that every interface uses.
//!
//! ```text
//! registry.settings(flow) -> Vec<Setting>              name, kind, default, bounds, choices, help; `[]` for a flow without settings
//! registry.settings_schema(flow) -> Option<Value>      the same as a JSON schema
//! registry.parse_setting(flow, "KEY=VALUE")            text of a command line as the declared type
//! registry.resolve_settings(flow, &settings) -> Value  checked, and in the form that the flow's input takes
//! registry.assemble_settings(flow, own) -> Value       a flow's settings with those of the flows it may call
//! registry.effective_settings(flow, &configured)       the list with configured values as defaults
//! overlay(&mut base, over)                             `over` wins, key by key
//! ```
//!
//! A setting is a field of the struct: its doc comment is the help, its `Default` the default, `#[schemars(range(…))]` the bounds, an enum the choices. A field with
//! `#[schemars(skip)]` is filled in by Baton itself; nobody can set it from outside. Nothing of this is written down a second time.
//!
//! A flow that calls other flows (`auto`, `supervise`) takes their settings too, under the flow's name: `search.max_turn_iterations`. Without the flow's name a
//! setting goes to every flow that has one of that name.

mod by_flow;

use std::fmt;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value, json};

/// One setting of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// With the names of the flows it goes through, if it is not the flow's own: `supervise.mailer.me`.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Its value if it is not set; `null` if it has none then.
    pub default: Value,
    /// Lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// Upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Accepted values of a choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// One line.
    pub help: String,
    /// It may be left without a value.
    #[serde(skip)]
    is_optional: bool,
}

/// Types of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A text.
    Text,
    /// One of `choices`.
    Choice,
    /// A list of texts.
    List,
}

/// Why settings were rejected.
#[expect(missing_docs, reason = "`Display` describes each variant")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    NoFlow {
        flow: String,
        known: Vec<String>,
    },
    NoSettings {
        flow: String,
    },
    Unknown {
        flow: String,
        name: String,
        known: Vec<String>,
    },
    /// `name` is the setting's full name where several flows have it.
    Wrong {
        name: String,
        value: String,
        expected: String,
    },
    /// Several flows have the setting, and not all accept the value.
    NotForAll {
        key: String,
        value: String,
        names: Vec<String>,
        wrong: String,
        expected: String,
    },
    NotAPair {
        text: String,
    },
    NotAnObject {
        flow: String,
    },
}

impl std::error::Error for SettingError {}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::NoFlow { flow, known } => write!(f, "there is no flow {flow:?}; there are: {}", known.join(", ")),
            SettingError::NoSettings { flow } => write!(f, "the flow {flow} has no settings"),
            SettingError::Unknown { flow, name, known } => {
                write!(f, "the flow {flow} has no setting {name:?}")?;
                match nearest(name, known) {
                    Some(nearest) => write!(f, "; did you mean {nearest}?")?,
                    None => f.write_str(".")?,
                }
                write!(f, " Its settings are: {}", known.join(", "))
            }
            SettingError::Wrong { name, value, expected } => write!(f, "the setting {name} cannot be {value}: it is {expected}"),
            SettingError::NotForAll { key, value, names, wrong, expected } => {
                write!(f, "the setting {key} cannot be {value} in every flow that has it: {wrong} is {expected}. Name the flow: {}", names.join(", "))
            }
            SettingError::NotAPair { text } => write!(f, "{text:?} is not KEY=VALUE, e.g. max_turn_iterations=3"),
            SettingError::NotAnObject { flow } => write!(f, "the settings of the flow {flow} are an object of names and values"),
        }
    }
}

/// Puts `over` over `base`; objects are merged key by key.
pub fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                overlay(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (base, over) => *base = over,
    }
}

/// Parses a flow's own settings from its input and checks their bounds, whichever way the run was started.
pub(crate) fn read<'de, D: Deserializer<'de>, S: DeserializeOwned + JsonSchema>(deserializer: D) -> Result<Option<S>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = settings_of::<S>().into_iter().find_map(|setting| {
        let value = value.get(&setting.name)?;
        setting.accept(value).err()
    });
    match wrong {
        Some(error) => Err(D::Error::custom(error)),
        None => serde_json::from_value(value).map(Some).map_err(D::Error::custom),
    }
}

impl Setting {
    /// Its position in a flow's settings.
    fn pointer(&self) -> String {
        let mut parts: Vec<&str> = self.name.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        parts.iter().map(|flow| format!("/each/{flow}")).chain([format!("/{last}")]).collect()
    }

    fn put(&self, settings: &mut Value, value: Value) {
        let mut parts: Vec<&str> = self.name.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let place = parts.iter().fold(settings, |place, flow| &mut place["each"][*flow]);
        place[last] = value;
    }

    /// A text parsed as this kind of value. Text that does not parse stays text, which [`Setting::accept`] rejects.
    fn read(&self, text: &str) -> Value {
        let as_text = || Value::String(text.to_owned());
        match self.kind {
            _ if self.is_optional && text.is_empty() => Value::Null,
            Kind::Integer => text.parse::<i64>().map_or_else(|_| as_text(), Value::from),
            Kind::Number => text.parse::<f64>().ok().and_then(Number::from_f64).map_or_else(as_text, Value::Number),
            Kind::Boolean => match text.to_lowercase().as_str() {
                "true" | "yes" | "on" => Value::Bool(true),
                "false" | "no" | "off" => Value::Bool(false),
                _ => as_text(),
            },
            Kind::Text | Kind::Choice => as_text(),
            Kind::List if text.starts_with('[') => serde_json::from_str(text).unwrap_or_else(|_| as_text()),
            Kind::List => text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect(),
        }
    }

    fn accept(&self, value: &Value) -> Result<(), SettingError> {
        let is_within = |number: f64| {
            let minimum = self.minimum.as_ref().and_then(Number::as_f64).unwrap_or(f64::NEG_INFINITY);
            let maximum = self.maximum.as_ref().and_then(Number::as_f64).unwrap_or(f64::INFINITY);
            (minimum..=maximum).contains(&number)
        };
        let is_good = match (self.kind, value) {
            (_, Value::Null) => self.is_optional,
            (Kind::Integer, Value::Number(number)) => (number.is_i64() || number.is_u64()) && number.as_f64().is_some_and(is_within),
            (Kind::Number, Value::Number(number)) => number.as_f64().is_some_and(is_within),
            (Kind::Boolean, Value::Bool(_)) | (Kind::Text, Value::String(_)) => true,
            (Kind::Choice, Value::String(text)) => self.choices.contains(text),
            (Kind::List, Value::Array(items)) => items.iter().all(Value::is_string),
            _ => false,
        };
        match is_good {
            true => Ok(()),
            false => Err(SettingError::Wrong { name: self.name.clone(), value: shown(value), expected: self.expected() }),
        }
    }

    /// The accepted values, in words: `a whole number from 1 to 10`.
    pub fn expected(&self) -> String {
        let kind = match self.kind {
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
            Kind::Boolean => "true or false",
            Kind::Text => "a text",
            Kind::Choice => return format!("one of {}", self.choices.join(", ")),
            Kind::List => "a list of texts",
        };
        match (&self.minimum, &self.maximum) {
            (Some(minimum), Some(maximum)) => format!("{kind} from {minimum} to {maximum}"),
            (Some(minimum), None) => format!("{kind} from {minimum}"),
            (None, Some(maximum)) => format!("{kind} up to {maximum}"),
            (None, None) => kind.to_owned(),
        }
    }

    fn schema(&self) -> Value {
        let kind = match self.kind {
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Text | Kind::Choice => "string",
            Kind::List => "array",
        };
        let mut schema = json!({ "title": self.name, "description": self.help, "default": self.default });
        schema["type"] = if self.is_optional { json!([kind, "null"]) } else { json!(kind) };
        if self.kind == Kind::List {
            schema["items"] = json!({ "type": "string" });
        }
        if !self.choices.is_empty() {
            let mut choices = json!(self.choices);
            if let (true, Value::Array(choices)) = (self.is_optional, &mut choices) {
                choices.push(Value::Null);
            }
            schema["enum"] = choices;
        }
        for (name, bound) in [("minimum", &self.minimum), ("maximum", &self.maximum)] {
            if let Some(bound) = bound {
                schema[name] = json!(bound);
            }
        }
        schema
    }
}

/// The struct in which a flow declares its settings.
#[derive(Clone, Copy)]
pub struct SettingsType {
    list: fn() -> Vec<Setting>,
    #[cfg(test)]
    fields: fn() -> [Value; 2],
}

impl SettingsType {
    /// The type `S`.
    pub const fn of<S: JsonSchema + Default + Serialize + DeserializeOwned>() -> SettingsType {
        SettingsType {
            list: settings_of::<S>,
            #[cfg(test)]
            fields: || [json!(S::default()), json!(serde_json::from_value::<S>(json!({})).expect("every setting has a default"))],
        }
    }

    /// The settings it declares, in the order of its fields.
    pub fn list(&self) -> Vec<Setting> {
        (self.list)()
    }

    /// All fields of the struct, from its default and as parsed from `{}`.
    #[cfg(test)]
    fn fields(&self) -> [Value; 2] {
        (self.fields)()
    }
}

fn accept(found: &[Setting], key: &str, value: &Value) -> Result<(), SettingError> {
    match (found, found.iter().find(|setting| setting.accept(value).is_err())) {
        (_, None) => Ok(()),
        ([only], Some(_)) => only.accept(value),
        (several, Some(wrong)) => Err(SettingError::NotForAll {
            key: key.to_owned(),
            value: shown(value),
            names: several.iter().map(|setting| setting.name.clone()).collect(),
            wrong: wrong.name.clone(),
            expected: wrong.expected(),
        }),
    }
}

/// `{"search": {"enabled_tools": []}}` as `search.enabled_tools`.
fn flatten<'v>(fields: &'v Map<String, Value>, before: &str, into: &mut Vec<(String, &'v Value)>) {
    for (name, value) in fields {
        let name = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(inner, &name, into),
            value => into.push((name, value)),
        }
    }
}

const SHOWN_CHARS_MAX: usize = 80;

/// A value in an error message; it may be arbitrary input.
fn shown(value: &Value) -> String {
    clipped(&value.to_string())
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The known name most similar to the given one, if similar enough.
fn nearest<'k>(written: &str, known: &'k [String]) -> Option<&'k str> {
    const LIKENESS_MIN: f64 = 0.7;
    let likeness = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        strsim::normalized_damerau_levenshtein(written, name).max(strsim::normalized_damerau_levenshtein(written, last))
    };
    let best = known.iter().map(|name| (likeness(name), name)).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= LIKENESS_MIN).then_some(best.1.as_str())
}

/// The settings that a struct declares, in the order of its fields.
fn settings_of<S: JsonSchema>() -> Vec<Setting> {
    let generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let schema = generator.into_root_schema_for::<S>().to_value();
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, schema)| setting(name, schema)).collect()
}

fn setting(name: &str, schema: &Value) -> Setting {
    let parts = alternatives(schema);
    let types: Vec<&str> = parts.iter().flat_map(|part| texts(part.get("type"))).collect();
    let choices = parts.iter().flat_map(|part| texts(part.get("enum")).chain(texts(part.get("const")))).map(str::to_owned).collect::<Vec<_>>();
    let bound = |name: &str| parts.iter().find_map(|part| part.get(name)).and_then(|bound| bound.as_number().cloned());
    let of_type = [("integer", Kind::Integer), ("number", Kind::Number), ("boolean", Kind::Boolean), ("array", Kind::List)];
    let kind = match of_type.iter().find(|(name, _)| types.contains(name)) {
        _ if !choices.is_empty() => Kind::Choice,
        Some((_, kind)) => *kind,
        None => Kind::Text,
    };
    let help = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    Setting {
        name: name.to_owned(),
        kind,
        default: schema.get("default").cloned().unwrap_or_default(),
        minimum: bound("minimum"),
        maximum: bound("maximum"),
        choices,
        help: help.split_whitespace().collect::<Vec<_>>().join(" "),
        is_optional: types.contains(&"null"),
    }
}

/// A schema and those it is made of: an optional field is the schema of its type, or null, and an enum may be one of several constants.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let inner = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)).filter_map(Value::as_array).flatten();
    std::iter::once(schema).chain(inner.flat_map(alternatives)).collect()
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, many) = match value {
        Some(Value::String(text)) => (Some(text.as_str()), None),
        Some(Value::Array(items)) => (None, Some(items)),
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten().filter_map(Value::as_str))
}

#[cfg(test)]
mod tests;
