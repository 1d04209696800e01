//! The transition table. The edges of the graph, the orchestrator and the test against the specification all read it.

use serde::{Deserialize, Serialize};

use super::state::Panel;

/// Rows that name a step come first; the first matching row wins.
pub(super) const TABLE: [Row; 15] = [
    row(Step::Input, TransitionCondition::Done, Step::Planner),
    row(Step::Planner, TransitionCondition::Done, Step::CriticPlanner),
    row(Step::CriticPlanner, TransitionCondition::ApprovedWithResearch, Step::Researcher),
    row(Step::CriticPlanner, TransitionCondition::ApprovedWithoutResearch, Step::Expert),
    row(Step::CriticPlanner, TransitionCondition::Rejected, Step::Planner).a_retry(),
    row(Step::Researcher, TransitionCondition::Done, Step::CriticResearcher),
    row(Step::CriticResearcher, TransitionCondition::ApprovedTheLast, Step::Expert),
    row(Step::CriticResearcher, TransitionCondition::ApprovedAndMore, Step::Researcher),
    row(Step::CriticResearcher, TransitionCondition::Rejected, Step::Researcher).a_retry(),
    row(Step::Expert, TransitionCondition::Done, Step::CriticExpert),
    row(Step::CriticExpert, TransitionCondition::Approved, Step::Finalizer),
    row(Step::CriticExpert, TransitionCondition::Rejected, Step::Expert).a_retry(),
    // For every step except the finalizer, which always ends.
    Row { from: None, when: TransitionCondition::Failed, to: None, is_retry: true },
    Row { from: None, when: TransitionCondition::Critical, to: Some(Step::Finalizer), is_retry: false },
    Row { from: None, when: TransitionCondition::RetriesSpent, to: Some(Step::Finalizer), is_retry: false },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// `None` is any step before the finalizer.
    pub(super) from: Option<Step>,
    pub(super) when: TransitionCondition,
    /// `None` is the same step again.
    pub(super) to: Option<Step>,
    pub(super) is_retry: bool,
}

const fn row(from: Step, when: TransitionCondition, to: Step) -> Row {
    Row { from: Some(from), when, to: Some(to), is_retry: false }
}

impl Row {
    const fn a_retry(mut self) -> Row {
        self.is_retry = true;
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Input,
    Planner,
    CriticPlanner,
    Researcher,
    CriticResearcher,
    Expert,
    CriticExpert,
    Finalizer,
}

impl Step {
    pub(super) const ALL: [Step; 8] = [
        Step::Input,
        Step::Planner,
        Step::CriticPlanner,
        Step::Researcher,
        Step::CriticResearcher,
        Step::Expert,
        Step::CriticExpert,
        Step::Finalizer,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Step::Input => "input",
            Step::Planner => "planner",
            Step::CriticPlanner => "critic_planner",
            Step::Researcher => "researcher",
            Step::CriticResearcher => "critic_researcher",
            Step::Expert => "expert",
            Step::CriticExpert => "critic_expert",
            Step::Finalizer => "finalizer",
        }
    }

    /// Every step that may follow, in the order of the table.
    pub(super) fn followers(self) -> Vec<Step> {
        let mut steps = Vec::new();
        for to in TABLE.iter().filter(|row| row.applies(self)).map(|row| row.to.unwrap_or(self)) {
            if !steps.contains(&to) {
                steps.push(to);
            }
        }
        steps
    }
}

/// The condition of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransitionCondition {
    Done,
    Approved,
    ApprovedWithResearch,
    ApprovedWithoutResearch,
    ApprovedAndMore,
    ApprovedTheLast,
    Rejected,
    /// An error after which the step may be repeated.
    Failed,
    /// An error that a retry does not fix.
    Critical,
    /// Checked before every other row.
    RetriesSpent,
}

/// What a step itself reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Done,
    Approved,
    Rejected,
    Failed,
    Critical,
}

impl Row {
    fn applies(&self, step: Step) -> bool {
        self.from.map_or(step != Step::Finalizer, |from| from == step)
    }
}

/// The condition that holds after `step` has reported. The state decides between kinds of approval.
pub(super) fn when(s: &Panel, step: Step, report: Report) -> TransitionCondition {
    match (report, step) {
        (Report::Done, _) => TransitionCondition::Done,
        (Report::Rejected, _) => TransitionCondition::Rejected,
        (Report::Failed, _) => TransitionCondition::Failed,
        (Report::Critical, _) => TransitionCondition::Critical,
        (Report::Approved, Step::CriticPlanner) if s.research.is_empty() => TransitionCondition::ApprovedWithoutResearch,
        (Report::Approved, Step::CriticPlanner) => TransitionCondition::ApprovedWithResearch,
        (Report::Approved, Step::CriticResearcher) if s.research.iter().all(|one| one.is_approved()) => TransitionCondition::ApprovedTheLast,
        (Report::Approved, Step::CriticResearcher) => TransitionCondition::ApprovedAndMore,
        (Report::Approved, _) => TransitionCondition::Approved,
    }
}

/// The matching row; `None` for a report that the step cannot make.
pub(super) fn find(step: Step, when: TransitionCondition) -> Option<Row> {
    TABLE.iter().copied().find(|row| row.applies(step) && row.when == when)
}
