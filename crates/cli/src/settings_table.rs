//! The settings of a flow as a table.

use flows::settings::{Kind, Setting};
use serde_json::Value;
use terminal::{BOLD, DIM, paint};

/// The settings as a table: name, type, default, bounds, help.
pub(crate) fn table(all: &[Setting]) -> String {
    let row = |setting: &Setting| [setting.name.clone(), word(setting.kind).to_owned(), value_text(&setting.default), bounds(setting)];
    let head = ["SETTING", "TYPE", "DEFAULT", "BOUNDS"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let helps = std::iter::once("HELP").chain(all.iter().map(|setting| setting.help.as_str()));
    let lines = rows.iter().zip(helps).enumerate().map(|(index, (row, help))| {
        let [name, kind, default, bounds] = [0, 1, 2, 3].map(|column| format!("{:<width$}", row[column], width = widths[column]));
        match index {
            0 => paint(DIM, format!("  {name}  {kind}  {default}  {bounds}  {help}")),
            _ => format!("  {}  {kind}  {default}  {bounds}  {help}", paint(BOLD, name)),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A value as written after `KEY=`.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "empty".to_owned(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Text => "text",
        Kind::Choice => "choice",
        Kind::List => "list",
    }
}

fn bounds(setting: &Setting) -> String {
    match (setting.kind, &setting.minimum, &setting.maximum) {
        (Kind::Choice, _, _) => setting.choices.join(", "),
        (Kind::Boolean, _, _) => "true, false".to_owned(),
        (_, Some(minimum), Some(maximum)) => format!("{minimum} to {maximum}"),
        (_, Some(minimum), None) => format!("from {minimum}"),
        (_, None, Some(maximum)) => format!("up to {maximum}"),
        (_, None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_setting() {
        let text = anstream::adapter::strip_str(&table(&service::settings::Configured::default().list("search"))).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("  max_turn_iterations  integer  1        1 to 10             How often"), "{text}");
        assert!(lines[2].starts_with("  enabled_tools        list     empty    -                   Tools or servers"), "{text}");
    }
}
