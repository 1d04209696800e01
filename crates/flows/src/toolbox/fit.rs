//! Which of the listed tools a planner is shown.
//!
//! `registry.tools` ranks by meaning for the question, and that order decides. A large model sees the whole list. A small one reads slowly and chooses badly
//! from many, so it sees the first of the list, with room kept for what a question's words seldom name: look-ups, the user's documents and, where tasks are
//! carried out, the built-in tools for files, code and sums. No word of the question is looked at here.
//!
//! A small model's list begins with the built-in tools, always in the same order, so that the prompts of different questions begin alike and what the network
//! computed for that part is used again. The tools that the question ranked high stand last, next to the question.

use super::{Tool, Toolbox};
use crate::input::ModelProfile;

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPurpose {
    /// Questions: lookups come first.
    Answers,
    /// Tasks: the built-in acting tools have slots of their own.
    Tasks,
}

/// Tools shown to a small model for questions.
const SMALL_ANSWER_TOOLS_MAX: usize = 6;
/// Tools shown to a small model for tasks.
const SMALL_TASK_TOOLS_MAX: usize = 10;
/// Slots for lookups in every list for a small model.
const LOOK_UPS_MIN: usize = 2;
/// Tools that come before any reserved places: the first of the list, the others of its server, because they are often used together (one describes tables,
/// another queries them), then the next of the list.
const RANKED_MIN: usize = 4;
/// The tool that searches the user's documents.
pub(crate) const DOCUMENTS: &str = "docs.search";
/// The built-in search of the web.
const WEB: &str = "search.search";
/// Built-in tools for the most common tasks.
const ACTING: [&str; 4] = ["calc.calculate", "code.run_python", "files.read", "files.write"];
/// Servers of the built-in acting tools.
pub(super) const ACTING_SERVERS: [&str; 3] = ["calc", "code", "files"];

impl Toolbox {
    /// The tools to show: for a large model in the list's order, for a small one with the built-in tools first. With `has_documents` the user's documents
    /// come before all others.
    pub fn fitting(mut self, profile: &ModelProfile, aim: PlanPurpose, has_documents: bool) -> Toolbox {
        if has_documents || aim == PlanPurpose::Answers {
            self.tools.sort_by_key(|tool| tool.name != DOCUMENTS);
        }
        if !profile.is_small {
            return self;
        }
        let most = match aim {
            PlanPurpose::Answers => SMALL_ANSWER_TOOLS_MAX,
            PlanPurpose::Tasks => SMALL_TASK_TOOLS_MAX,
        };
        let is_acting = |tool: &&Tool| aim == PlanPurpose::Tasks && ACTING.contains(&tool.name.as_str());
        let server = |tool: &Tool| tool.name.split('.').next().unwrap_or_default().to_owned();
        let first = self.tools.iter().find(|tool| tool.name != DOCUMENTS).map(server);
        let (together, others): (Vec<&Tool>, Vec<&Tool>) = self.tools.iter().partition(|tool| Some(server(tool)) == first);
        let ranked = together.into_iter().chain(others).take(RANKED_MIN);
        let acting = self.tools.iter().filter(is_acting);
        let look_ups = self.tools.iter().filter(|tool| tool.is_look_up()).take(LOOK_UPS_MIN);
        let mut chosen: Vec<&str> = Vec::new();
        for tool in ranked.chain(acting).chain(look_ups).chain(&self.tools) {
            if chosen.len() < most && !chosen.contains(&tool.name.as_str()) {
                chosen.push(&tool.name);
            }
        }
        let chosen: Vec<String> = chosen.into_iter().map(str::to_owned).collect();
        self.tools.retain(|tool| chosen.contains(&tool.name));
        let acting = ACTING.iter().filter(|_| aim == PlanPurpose::Tasks);
        let documents_first = [DOCUMENTS].into_iter().filter(|_| has_documents);
        let fixed: Vec<&str> = documents_first.chain(acting.copied()).chain([DOCUMENTS, WEB]).collect();
        // A stable sort: those without a fixed place keep the list's order.
        self.tools.sort_by_key(|tool| fixed.iter().position(|name| *name == tool.name).unwrap_or(fixed.len()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn toolbox(names: &[(&str, &str)]) -> Toolbox {
        let tool = |(name, argument): &(&str, &str)| Tool {
            name: (*name).into(),
            schema: json!({ "type": "object", "properties": { *argument: { "type": "string" } }, "required": [argument] }),
            read_only: *argument == "query",
            ..Tool::default()
        };
        Toolbox { tools: names.iter().map(tool).collect() }
    }

    fn many() -> Toolbox {
        let mut names = vec![("tickets.close", "id"), ("tickets.open", "title"), ("tickets.list", "state"), ("tickets.note", "text")];
        names.extend([("db.run", "sql"), ("db.tables", "name"), ("db.describe", "table"), ("search.search", "query"), ("docs.search", "query")]);
        names.extend([("stories.search", "query"), ("files.write", "path"), ("files.read", "path"), ("code.run_python", "code")]);
        names.extend([("calc.calculate", "expression"), ("mail.send", "to")]);
        toolbox(&names)
    }

    #[test]
    fn s11_the_registrys_order_decides_which_are_shown_and_what_may_change_something_is_not_left_out() {
        let small = ModelProfile::default();
        let shown = |aim, has_documents| many().fitting(&small, aim, has_documents).names().join(" ");
        assert_eq!(
            shown(PlanPurpose::Tasks, false),
            "calc.calculate code.run_python files.read files.write docs.search search.search tickets.close tickets.open tickets.list tickets.note"
        );
        assert!(shown(PlanPurpose::Tasks, true).starts_with("docs.search calc.calculate"), "{}", shown(PlanPurpose::Tasks, true));
        assert_eq!(shown(PlanPurpose::Answers, false), "docs.search search.search tickets.close tickets.open tickets.list tickets.note");
        let large = ModelProfile { is_small: false, ..small };
        assert_eq!(many().fitting(&large, PlanPurpose::Tasks, false).tools.len(), 15, "a large model sees the whole list");
        assert_eq!(many().fitting(&large, PlanPurpose::Answers, false).names()[0], "docs.search");
    }

    #[test]
    fn a_short_list_is_shown_whole() {
        let few = || toolbox(&[("code.run_python", "code"), ("tickets.close", "id")]);
        assert_eq!(few().fitting(&ModelProfile::default(), PlanPurpose::Answers, false).tools.len(), 2);
        assert_eq!(few().fitting(&ModelProfile::default(), PlanPurpose::Tasks, true).tools.len(), 2);
    }
}
