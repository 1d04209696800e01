//! Tool retrieval for tasks: `livemcp_tools.json` (servers with their tools) and `livemcp_tasks.json` (tasks with the tools an expert
//! used).
//!
//! A tool counts as correct by its name; several servers may have one of that name.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::{Measured, docs, measure};
use crate::vectors::State;
use crate::{Model, Tool, Tools};

/// The values of `flows::toolbox`: tools in a listing, tools that a tool-search step adds, and such steps in a plan.
const SHOWN: usize = 24;
const FOUND: usize = 8;
const SEARCHES: usize = 2;

/// `home` keeps the vectors of the tools.
pub fn tools(data: &Path, home: &Path, model: &Model, report: &mut dyn FnMut(String)) -> Result<Measured, String> {
    let read = |name: &str| -> Result<Value, String> {
        let path = data.join(name);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let list = listed(&read("livemcp_tools.json")?);
    let names: HashSet<&str> = list.iter().map(|tool| tool.name.as_str()).collect();
    let mut absent = 0;
    let mut questions = Vec::new();
    let mut steps = Vec::new();
    for task in read("livemcp_tasks.json")?.as_array().into_iter().flatten() {
        let wanted = wanted(task["Annotator Metadata"]["Tools"].as_str().unwrap_or_default());
        let count = wanted.len();
        let gold: HashSet<String> = wanted.into_iter().filter(|name| names.contains(name.as_str())).collect();
        absent += count - gold.len();
        questions.push((task["Question"].as_str().unwrap_or_default().to_owned(), gold));
        steps.push(numbered(task["Annotator Metadata"]["Steps"].as_str().unwrap_or_default()));
    }
    std::fs::create_dir_all(home).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let index = Tools::new(&list, model, Some(&home.join("tools"))).map_err(|error| error.to_string())?;
    let index_seconds = began.elapsed().as_secs_f64();
    report(format!("{} tools are searchable after {index_seconds:.2} s", list.len()));
    let progress = docs::wait(report, |limit| index.wait(limit))?;
    let measured = measure(&questions, |question| Ok(index.search(question, 20).into_iter().map(|hit| list[hit.index].name.clone()).collect()))?;
    let names_of =
        |query: &str, size: usize| index.search(query, size).into_iter().map(|hit| list[hit.index].name.clone()).collect::<HashSet<String>>();
    let (mut shown, mut searched, mut count) = (0.0, 0.0, 0.0);
    for ((question, gold), steps) in questions.iter().zip(&steps).filter(|((_, gold), _)| !gold.is_empty()) {
        let share = |found: &HashSet<String>| found.intersection(gold).count() as f64 / gold.len() as f64;
        let mut found = names_of(question, SHOWN);
        shown += share(&found);
        // A planner's queries are approximated by the expert's first steps.
        for step in steps.iter().take(SEARCHES) {
            found.extend(names_of(step, FOUND));
        }
        searched += share(&found);
        count += 1.0;
    }
    Ok(Measured {
        recall_shown: Some(shown / count),
        recall_searched: Some(searched / count),
        items: list.len(),
        index_seconds,
        vectors: progress.state == State::Ready,
        vectors_per_second: progress.per_second,
        absent,
        ..measured
    })
}

fn listed(servers: &Value) -> Vec<Tool> {
    let mut list = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for server in servers.as_array().into_iter().flatten() {
        for part in server["tools"].as_object().into_iter().flat_map(|parts| parts.values()) {
            for tool in part["tools"].as_array().into_iter().flatten() {
                let arguments =
                    tool["inputSchema"]["properties"].as_object().map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
                list.push(Tool {
                    server: text(&server["name"]),
                    about_server: text(&server["description"]),
                    name: text(&tool["name"]),
                    description: text(&tool["description"]),
                    arguments,
                });
            }
        }
    }
    list
}

fn wanted(lines: &str) -> HashSet<String> {
    numbered(lines).into_iter().collect()
}

/// One per line, numbered.
fn numbered(lines: &str) -> Vec<String> {
    let text = |line: &str| line.trim().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('.').trim().to_owned();
    lines.lines().map(text).filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_lines_are_names() {
        assert_eq!(wanted("1. read_file\n 12.search \n\n"), HashSet::from(["read_file".to_owned(), "search".into()]));
    }
}
