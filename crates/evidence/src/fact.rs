//! Facts that follow from the rows of a result by counting and adding up.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::table;

/// A number computed over rows when the reply is split into spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// How it was computed.
    pub kind: FactKind,
    /// The number.
    pub value: f64,
    /// Number of rows it was computed from.
    pub over: usize,
    /// The numeric column; `None` for a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Which rows; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
}

/// How a fact is computed from rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// The number of rows.
    Count,
    /// The sum of a column.
    Sum,
    /// The smallest value of a column.
    Min,
    /// The largest value of a column.
    Max,
    /// The arithmetic mean of a column.
    Mean,
}

/// Rows whose field has a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The name of the field.
    pub field: String,
    /// `None` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

pub(crate) const FACTS_MAX: usize = 200;
const COLUMNS_MAX: usize = 24;
/// A column with more distinct values is not a category.
const VALUES_MAX: usize = 12;
const VALUE_CHARS_MAX: usize = 40;
/// Size limit of the facts as text; the first lines matter most.
const TEXT_BYTES_MAX: usize = 900;
/// Precision of a mean.
const MEAN_SCALE: f64 = 10_000.0;

/// The counts, sums, extremes and means of these rows, in the order of their columns.
pub(crate) fn facts(rows: &[&Map<String, Value>]) -> Vec<Fact> {
    let over = rows.len();
    let count = |value: usize, filter: Option<Filter>| Fact { kind: FactKind::Count, value: value as f64, over, column: None, filter };
    let mut facts = vec![count(over, None)];
    let mut columns: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if !columns.contains(&name.as_str()) && columns.len() < COLUMNS_MAX {
            columns.push(name);
        }
    }
    let categories: Vec<(&str, Category)> = columns.iter().filter_map(|name| Some((*name, category(rows, name)?))).collect();
    for (field, values) in &categories {
        for (value, at) in values {
            facts.push(count(at.len(), Some(Filter { field: (*field).to_owned(), value: Some(value.clone()) })));
        }
    }
    for name in &columns {
        let filled = rows.iter().filter(|row| row.get(*name).is_some_and(|value| !is_blank(value))).count();
        if filled > 0 && filled < over {
            facts.push(count(filled, Some(Filter { field: (*name).to_owned(), value: None })));
        }
    }
    for name in columns.iter().filter(|name| !is_identifier(name)) {
        let Some(values) = numeric(rows, name) else { continue };
        let mut add = |kind: FactKind, value: f64, filter: Option<Filter>, over: usize| {
            facts.push(Fact { kind, value, over, column: Some((*name).to_owned()), filter });
        };
        let all: Vec<f64> = values.iter().flatten().copied().collect();
        let sum: f64 = all.iter().sum();
        add(FactKind::Sum, tidy(sum), None, all.len());
        add(FactKind::Min, all.iter().copied().fold(f64::INFINITY, f64::min), None, all.len());
        add(FactKind::Max, all.iter().copied().fold(f64::NEG_INFINITY, f64::max), None, all.len());
        add(FactKind::Mean, (sum / all.len() as f64 * MEAN_SCALE).round() / MEAN_SCALE, None, all.len());
        for (field, groups) in categories.iter().filter(|(field, _)| field != name) {
            for (value, at) in groups {
                let some: Vec<f64> = at.iter().filter_map(|row| values[*row]).collect();
                let filter = Filter { field: (*field).to_owned(), value: Some(value.clone()) };
                add(FactKind::Sum, tidy(some.iter().sum()), Some(filter), some.len());
            }
        }
    }
    facts.truncate(FACTS_MAX);
    facts
}

/// The facts as text, one line per column.
pub(crate) fn render(facts: &[Fact], name: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let rows = facts.iter().find(|fact| fact.kind == FactKind::Count && fact.filter.is_none());
    if let Some(rows) = rows {
        lines.push(format!("{name}: {} {}", rows.value, if rows.over == 1 { "row" } else { "rows" }));
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |head: String, words: String| match groups.iter_mut().find(|(known, _)| *known == head) {
        Some((_, list)) => list.push(words),
        None => groups.push((head, vec![words])),
    };
    for fact in facts {
        let value = shown(fact.value);
        match (&fact.column, &fact.filter, fact.kind) {
            (None, Some(Filter { field, value: Some(of) }), _) => add(format!("rows by {field}"), format!("{of} {value}")),
            (None, Some(Filter { field, value: None }), _) => add(format!("rows with {field}"), value),
            (Some(column), None, FactKind::Sum) => add(column.clone(), format!("sum {value}")),
            (Some(column), None, FactKind::Min) => add(column.clone(), format!("minimum {value}")),
            (Some(column), None, FactKind::Max) => add(column.clone(), format!("maximum {value}")),
            (Some(column), None, FactKind::Mean) => add(column.clone(), format!("mean {value}")),
            (Some(column), Some(Filter { field, value: of }), _) => {
                add(format!("sum of {column} by {field}"), format!("{} {value}", of.as_deref().unwrap_or_default()));
            }
            _ => {}
        }
    }
    lines.extend(groups.into_iter().map(|(head, words)| format!("{head}: {}", words.join(", "))));
    let mut bytes = 0;
    let fits = lines.iter().take_while(|line| {
        bytes += line.len() + 1;
        bytes <= TEXT_BYTES_MAX
    });
    fits.map(String::as_str).collect::<Vec<_>>().join("\n")
}

pub(crate) fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value}") }
}

/// Removes binary rounding errors of a sum.
fn tidy(sum: f64) -> f64 {
    format!("{sum:.11e}").parse().unwrap_or(sum)
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Each value of a column, with its rows.
type Category = Vec<(String, Vec<usize>)>;

/// The repeated values of a column with their rows; `None` if it is not a category.
fn category(rows: &[&Map<String, Value>], name: &str) -> Option<Category> {
    let mut values: Category = Vec::new();
    let mut put = |words: &str, row: usize| {
        match values.iter_mut().find(|(known, _)| known == words) {
            Some((_, at)) => at.push(row),
            None => values.push((words.to_owned(), vec![row])),
        }
        words.chars().count() <= VALUE_CHARS_MAX && values.len() <= VALUES_MAX
    };
    let mut is_repeated = false;
    for (row, fields) in rows.iter().enumerate() {
        let is_short = match fields.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(is_so)) => {
                is_repeated = true;
                put(if *is_so { "true" } else { "false" }, row)
            }
            Some(Value::String(text)) if text.trim().is_empty() => true,
            Some(Value::String(text)) if table::number(text).is_none() => put(text.trim(), row),
            Some(Value::Array(items)) => {
                is_repeated = true;
                items.iter().all(|item| item.as_str().is_some_and(|text| put(text.trim(), row)))
            }
            Some(_) => false,
        };
        if !is_short {
            return None;
        }
    }
    is_repeated |= values.iter().any(|(_, at)| at.len() > 1);
    (is_repeated && !values.is_empty()).then_some(values)
}

/// A numeric column, with gaps; `None` if it has other values, or fewer than two numbers.
fn numeric(rows: &[&Map<String, Value>], name: &str) -> Option<Vec<Option<f64>>> {
    let mut values = Vec::with_capacity(rows.len());
    for fields in rows {
        values.push(match fields.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Number(number)) => Some(number.as_f64()?),
            Some(Value::String(text)) if text.trim().is_empty() => None,
            Some(Value::String(text)) => Some(table::number(text)?),
            Some(_) => return None,
        });
    }
    (values.iter().flatten().count() >= 2).then_some(values)
}

fn is_identifier(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower == "id"
        || lower.ends_with("_id")
        || name.ends_with("Id")
        || matches!(lower.as_str(), "number" | "no" | "nr" | "rank" | "index" | "row" | "line")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn s12_rows_are_counted_and_added_up_once() {
        let rows = json!([
            { "done": false, "id": 1, "points": 3, "status": "open", "tags": ["x"], "title": "a" },
            { "done": true, "id": 2, "points": 5, "status": "open", "tags": [], "title": "b" },
            { "done": false, "id": 3, "points": 0.1, "status": "in review", "tags": ["x", "y"], "title": "c" },
        ]);
        let rows: Vec<&Map<String, Value>> = rows.as_array().unwrap().iter().filter_map(Value::as_object).collect();
        let text = render(&facts(&rows), "stories");
        assert_eq!(
            text,
            "stories: 3 rows\nrows by done: false 2, true 1\nrows by status: open 2, in review 1\nrows by tags: x 2, y 1\nrows with tags: 2\n\
             points: sum 8.1, minimum 0.1, maximum 5, mean 2.7\nsum of points by done: false 3.1, true 5\n\
             sum of points by status: open 8, in review 0.1\nsum of points by tags: x 3.1, y 0.1"
        );
        let kept = serde_json::to_value(facts(&rows)).unwrap();
        assert_eq!(kept[3], json!({ "kind": "count", "value": 2.0, "over": 3, "filter": { "field": "status", "value": "open" } }));
        assert_eq!(serde_json::from_value::<Vec<Fact>>(kept).unwrap(), facts(&rows));
    }

    #[test]
    fn s12_facts_are_bounded() {
        let row = |n: usize| -> Map<String, Value> {
            (0..60).map(|c| (format!("c{c}"), if c % 2 == 0 { json!(n * c) } else { json!(format!("v{}", n % 9)) })).collect()
        };
        let rows: Vec<Map<String, Value>> = (0..300).map(row).collect();
        assert_eq!(facts(&rows.iter().collect::<Vec<_>>()).len(), FACTS_MAX);
    }
}
