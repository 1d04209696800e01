//! What a run and the runs below it have to ask people, and the plan a question is about.
//!
//! A question about a plan is one whose schema has lists; their current contents are in the flow's plan note.

use graph::{Event, Question, RunId, Waiting};
use serde::Serialize;
use serde_json::{Map, Value};
use store::{RunFilter, RunRow, Status};

use crate::{Engine, History, Result};

/// A question, and the run that has it: the one that was looked at, or a child of it at any depth.
#[derive(Clone, Debug, Serialize)]
pub struct OpenQuestion {
    /// The run that waits.
    pub run: RunId,
    /// The question.
    #[serde(flatten)]
    pub waiting: Waiting,
}

/// Children looked at.
const RUNS_MAX: usize = 1_000;

impl Engine {
    /// Every question that keeps a run from going on.
    pub async fn open_questions(&self, root: &RunRow) -> Result<Vec<OpenQuestion>> {
        let filter = RunFilter {
            thread: Some(root.thread.clone()),
            statuses: vec![Status::Running, Status::Asking, Status::Waiting],
            limit: RUNS_MAX,
            ..RunFilter::default()
        };
        let rows = self.store().runs(filter).await?;
        let mut open = Vec::new();
        for asking in rows.iter().rev().filter(|row| row.status == Status::Asking && is_below(row, root, &rows)) {
            let waiting = self.waiting(&asking.run).await?;
            open.extend(waiting.into_iter().map(|waiting| OpenQuestion { run: asking.run.clone(), waiting }));
        }
        Ok(open)
    }

    /// The plan a question is about, as an answer may send it back; `None` if it is about something else.
    pub async fn plan_of(&self, open: &OpenQuestion) -> Result<Option<Map<String, Value>>> {
        let lists = plan_lists(&open.waiting.question);
        if lists.is_empty() {
            return Ok(None);
        }
        let past = History::of(&**self.store(), self.flows(), &open.run).await?;
        let noted = past.events.iter().rev().find_map(|numbered| match &numbered.event {
            Event::Noted { value, .. } if lists.iter().all(|(name, _)| value.get(*name).is_some_and(Value::is_array)) => Some(value),
            _ => None,
        });
        Ok(noted.map(|noted| plan_as_sent(noted, &lists)))
    }
}

/// The names of a plan's lists, each with the schema of what is in it.
pub fn plan_lists(question: &Question) -> Vec<(&str, &Value)> {
    let fields = question.schema.as_ref().and_then(|schema| schema.get("properties")?.as_object()).into_iter().flatten();
    fields.filter(|(_, field)| field["type"] == "array").map(|(name, field)| (name.as_str(), &field["items"])).collect()
}

/// What can be changed of a noted plan: its tasks with the fields a person may send, without those that cannot be called.
pub fn plan_as_sent(noted: &Value, lists: &[(&str, &Value)]) -> Map<String, Value> {
    let list = |(name, schema): &(&str, &Value)| {
        let known = schema["properties"].as_object();
        let items = noted[*name].as_array().into_iter().flatten().filter(|item| item["status"] != "failed");
        let kept = items.map(|item| match (item, known) {
            (Value::Object(fields), Some(known)) => {
                fields.iter().filter(|(name, _)| known.contains_key(*name)).map(|(k, v)| (k.clone(), v.clone())).collect()
            }
            _ => item.clone(),
        });
        ((*name).to_owned(), kept.collect())
    };
    lists.iter().map(list).collect()
}

fn is_below<'a>(mut row: &'a RunRow, root: &RunRow, rows: &'a [RunRow]) -> bool {
    loop {
        if row.run == root.run {
            return true;
        }
        match rows.iter().find(|above| Some(&above.run) == row.parent.as_ref()) {
            Some(above) => row = above,
            None => return false,
        }
    }
}
