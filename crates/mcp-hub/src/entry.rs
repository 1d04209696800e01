//! One tool as a server lists it, ready to be called: its schemas are compiled once, and only when they are needed.

use std::sync::OnceLock;

use graph::ToolDefinition;
use rmcp::model::Tool;
use serde_json::{Map, Value};

use super::definition;
use super::repeatability;
use super::source::REGISTRY;
use effects::Repeatability;
use effects::clip;

pub(crate) struct Entry {
    /// `server.tool`
    pub(crate) name: String,
    pub(crate) tool: Tool,
    pub(crate) repeatability: Repeatability,
    input: OnceLock<Checked>,
    output: OnceLock<Checked>,
    digests: OnceLock<ToolDefinition>,
}

type Checked = Result<structured::Validator, String>;

const ERRORS_MAX: usize = 5;
const ERROR_BYTES_MAX: usize = 200;
const PARAMETERS_SHOWN_MAX: usize = 20;

impl Entry {
    pub(crate) fn new(server: &str, tool: Tool, is_trusted: bool) -> Self {
        let repeatability = repeatability::repeatability(&tool, is_trusted);
        // A registry's tools have whole names.
        let name = if server == REGISTRY { tool.name.to_string() } else { format!("{server}.{}", tool.name) };
        Entry { name, tool, repeatability, input: OnceLock::new(), output: OnceLock::new(), digests: OnceLock::new() }
    }

    /// Its definition, as digests; those of its server are empty.
    pub(crate) fn digests(&self) -> &ToolDefinition {
        self.digests.get_or_init(|| definition::of_tool(&self.tool))
    }

    /// Takes out nulls for parameters that may be left out and cannot be null: planners write null for what they leave out.
    pub(crate) fn prune(&self, arguments: &mut Map<String, Value>) {
        let schema = &self.tool.input_schema;
        let is_required = |name: &str| schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name));
        let takes_null = |name: &str| match schema.get("properties").and_then(|all| all.get(name)).and_then(|one| one.get("type")) {
            Some(Value::String(kind)) => kind == "null",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
            // A parameter without a type, or with one in another form, may take anything.
            _ => true,
        };
        arguments.retain(|name, value| !value.is_null() || is_required(name) || takes_null(name));
    }

    /// What is wrong with the arguments, in a form that a planner can act on.
    pub(crate) fn check_arguments(&self, arguments: &Value) -> Result<(), String> {
        let validator = self.input.get_or_init(|| compile(&self.tool.input_schema)).as_ref();
        let validator = validator.map_err(|why| format!("the schema that {} gives for its arguments is wrong itself: {why}", self.name))?;
        let errors = validator.errors(arguments, ERRORS_MAX);
        if errors.is_empty() {
            return Ok(());
        }
        Err(format!("the arguments of {} do not fit: {}. It takes {}", self.name, errors.join("; "), self.takes()))
    }

    /// What is wrong with a structured result, if the server promised a form.
    pub(crate) fn check_result(&self, data: &Value) -> Result<(), String> {
        let Some(schema) = &self.tool.output_schema else { return Ok(()) };
        let validator = self.output.get_or_init(|| compile(schema)).as_ref();
        let validator = validator.map_err(|why| format!("the schema that {} gives for its results is wrong itself: {why}", self.name))?;
        let errors = validator.errors(data, ERRORS_MAX);
        if errors.is_empty() { Ok(()) } else { Err(format!("the result of {} is not what its schema promises: {}", self.name, errors.join("; "))) }
    }

    /// The parameters in a line: `query (string, required), size (integer)`.
    fn takes(&self) -> String {
        let schema = &self.tool.input_schema;
        let required: Vec<&str> = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty()) else {
            return "no arguments".to_owned();
        };
        let parameter = |(name, schema): (&String, &Value)| {
            let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
            let must = if required.contains(&name.as_str()) { ", required" } else { "" };
            format!("{name} ({kind}{must})")
        };
        let shown: Vec<String> = properties.iter().take(PARAMETERS_SHOWN_MAX).map(parameter).collect();
        let more = properties.len().saturating_sub(PARAMETERS_SHOWN_MAX);
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    }
}

/// A `$ref` to elsewhere is an error, and so is a schema that takes too long to hold a value against.
fn compile(schema: &Map<String, Value>) -> Checked {
    structured::Validator::new(Value::Object(schema.clone())).map_err(|why| clip(&why, ERROR_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(schema: Value) -> Entry {
        let Value::Object(schema) = schema else { panic!("an object") };
        Entry::new("docs", Tool::new("search", "", schema), false)
    }

    #[test]
    fn an_error_names_what_a_planner_has_to_correct() {
        let entry = entry(
            json!({"type": "object", "properties": {"query": {"type": "string"}, "size": {"type": "integer", "maximum": 50}}, "required": ["query"]}),
        );
        assert_eq!(entry.check_arguments(&json!({"query": "a", "size": 3})), Ok(()));
        for (arguments, parts) in [
            (json!({}), ["\"query\" is a required property", "query (string, required), size (integer)"]),
            (json!({"query": 3}), ["at /query: 3 is not of type \"string\"", "docs.search"]),
            (json!({"query": "a", "size": 51}), ["at /size: 51 is greater than the maximum of 50", "It takes"]),
            (json!("a"), ["is not of type \"object\"", "docs.search"]),
        ] {
            let why = entry.check_arguments(&arguments).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
    }

    #[test]
    fn a_null_for_what_may_be_left_out_is_left_out() {
        let entry =
            entry(json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["integer", "null"]}}, "required": ["a"]}));
        let mut arguments = json!({"a": null, "b": null, "c": null, "d": null});
        entry.prune(arguments.as_object_mut().unwrap());
        assert_eq!(arguments, json!({"a": null, "c": null, "d": null}));
    }

    #[test]
    fn a_wrong_schema_is_the_servers_mistake() {
        for schema in [json!({"type": "nonsense"}), json!({"$ref": "http://127.0.0.1:1/schema.json"})] {
            let why = entry(schema).check_arguments(&json!({})).unwrap_err();
            assert!(why.contains("is wrong itself"), "{why}");
        }
    }
}
