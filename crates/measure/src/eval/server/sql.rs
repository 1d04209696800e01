//! Tables in one SQLite file: a server with MCP annotations on its tools.

use std::path::Path;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use store::{Rows, Scratch};

use super::{Output, required};

pub(super) const TOOLS: &str = r#"[
  {
    "name": "describe_tables",
    "description": "List the tables of the database with their columns.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
    "annotations": {"readOnlyHint": true, "openWorldHint": false}
  },
  {
    "name": "query",
    "description": "Run one SQL SELECT statement (SQLite) and return its rows.",
    "inputSchema": {
      "type": "object",
      "properties": {"sql": {"type": "string", "description": "One SELECT statement, such as SELECT name FROM customers WHERE city = 'Bern'."}},
      "required": ["sql"],
      "additionalProperties": false
    },
    "annotations": {"readOnlyHint": true, "openWorldHint": false}
  },
  {
    "name": "execute",
    "description": "Run one SQL statement (SQLite) that changes data: INSERT, UPDATE, DELETE, CREATE, DROP. Returns how many rows changed.",
    "inputSchema": {
      "type": "object",
      "properties": {"sql": {"type": "string", "description": "One statement that changes data."}},
      "required": ["sql"],
      "additionalProperties": false
    },
    "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}
  }
]"#;

pub(super) fn call(path: &Path, tool: &str, input: &JsonObject) -> Result<Output, String> {
    let scratch = Scratch::open(path)?;
    match tool {
        "describe_tables" => {
            let tables = scratch.tables()?;
            let text = tables.iter().map(|(_, sql)| sql.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n");
            let tables: Vec<Value> = tables.into_iter().map(|(name, sql)| json!({ "name": name, "sql": sql })).collect();
            Ok(Output { text, data: Some(json!({ "tables": tables })) })
        }
        "query" => {
            let found = scratch.query(required(input, "sql")?)?;
            Ok(Output { text: text_of(&found), data: Some(json!({ "rows": records(&found), "row_count": found.rows.len(), "cut": found.is_cut })) })
        }
        "execute" => {
            let changed = scratch.execute(required(input, "sql")?)?;
            Ok(Output { text: format!("{changed} rows changed"), data: Some(json!({ "rows_changed": changed })) })
        }
        other => Err(format!("there is no tool `{other}`")),
    }
}

fn records(found: &Rows) -> Vec<Value> {
    let record = |row: &Vec<Value>| found.columns.iter().cloned().zip(row.iter().cloned()).collect();
    found.rows.iter().map(record).map(Value::Object).collect()
}

/// A table with `|` between cells.
fn text_of(found: &Rows) -> String {
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = |cells: Vec<String>| cells.join(" | ");
    let mut lines = vec![line(found.columns.clone())];
    lines.extend(found.rows.iter().map(|row| line(row.iter().map(cell).collect())));
    if found.is_cut {
        lines.push("(more rows are not shown)".to_owned());
    }
    lines.join("\n")
}
