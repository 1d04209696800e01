use std::fmt::Write as _;

use super::state::{Decision, Expert, FinalizeReason, Research, Verdict};
use super::table::{Report, Row, Step, TABLE, TransitionCondition, find, when};
use super::worker::Memory;
use super::*;

/// The specification's table, one row per line: `current_step: condition -> next_step [retry]`.
const DOCUMENT: &str = "\
input: Done -> planner
planner: Done -> critic_planner
critic_planner: ApprovedWithResearch -> researcher
critic_planner: ApprovedWithoutResearch -> expert
critic_planner: Rejected -> planner +1
researcher: Done -> critic_researcher
critic_researcher: ApprovedTheLast -> expert
critic_researcher: ApprovedAndMore -> researcher
critic_researcher: Rejected -> researcher +1
expert: Done -> critic_expert
critic_expert: Approved -> finalizer
critic_expert: Rejected -> expert +1
any: Failed -> the same +1
any: Critical -> finalizer
any: RetriesSpent -> finalizer
";

#[test]
fn k1_the_table_is_the_documents_table() {
    let mut printed = String::new();
    for Row { from, when, to, is_retry } in TABLE {
        let retry = if is_retry { " +1" } else { "" };
        writeln!(printed, "{}: {when:?} -> {}{retry}", from.map_or("any", Step::name), to.map_or("the same", Step::name)).unwrap();
    }
    println!("{printed}");
    assert_eq!(printed, DOCUMENT);
}

#[test]
fn k1_the_graph_has_the_edges_of_the_table_and_the_approval() {
    let drawing = flow().unwrap().json();
    for node in drawing["nodes"].as_array().unwrap() {
        let name = node["name"].as_str().unwrap();
        let to: Vec<&str> = node["to"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let Some(step) = Step::ALL.into_iter().find(|step| step.name() == name) else {
            assert_eq!((name, to), ("approve_plan", vec!["planner", "researcher", "expert", "finalizer"]));
            continue;
        };
        let mut expected: Vec<&str> = step.followers().into_iter().map(Step::name).collect();
        expected.extend(match step {
            Step::CriticPlanner => Some("approve_plan"),
            Step::Finalizer => Some("end"),
            _ => None,
        });
        // To itself, until its draft is checked.
        if matches!(step, Step::CriticResearcher | Step::CriticExpert | Step::Finalizer) && !expected.contains(&name) {
            expected.push(name);
        }
        assert_eq!(to, expected, "{name}");
    }
    assert_eq!(drawing["nodes"].as_array().unwrap().len(), 9);
}

fn verdict(decision: Decision) -> Option<Verdict> {
    Some(Verdict { decision, feedback: "because".into(), retry_helps: None })
}

fn researched(decision: Option<Decision>) -> Research {
    Research { step: "s".into(), result: Some("r".into()), verdict: decision.and_then(verdict), memory: None }
}

fn panel(step: Step, research: Vec<Research>) -> Panel {
    let mut s = begin(serde_json::from_value(json!({ "question": "What is CRISPR?" })).unwrap());
    s.current_step = step;
    s.current_research_index = research.len().checked_sub(1);
    s.research = research;
    s.expert_steps = vec!["Define CRISPR".into()];
    s
}

fn expert() -> Expert {
    Expert { answer: "a".into(), reasoning: "because".into(), memory: Memory::default() }
}

#[test]
fn k1_every_report_of_every_step_finds_its_row() {
    let open = || Research { step: "s".into(), ..Research::default() };
    let approved = || researched(Some(Decision::Approve));
    // Step, report, research, next step, and cost.
    let cases = [
        (Step::Input, Report::Done, vec![], Step::Planner, 0),
        (Step::Planner, Report::Done, vec![open()], Step::CriticPlanner, 0),
        (Step::CriticPlanner, Report::Approved, vec![open(), open()], Step::Researcher, 0),
        (Step::CriticPlanner, Report::Approved, vec![], Step::Expert, 0),
        (Step::CriticPlanner, Report::Rejected, vec![open()], Step::Planner, 1),
        (Step::Researcher, Report::Done, vec![researched(None)], Step::CriticResearcher, 0),
        (Step::CriticResearcher, Report::Approved, vec![approved(), approved()], Step::Expert, 0),
        (Step::CriticResearcher, Report::Approved, vec![approved(), open()], Step::Researcher, 0),
        (Step::CriticResearcher, Report::Rejected, vec![researched(Some(Decision::Reject))], Step::Researcher, 1),
        (Step::Expert, Report::Done, vec![approved()], Step::CriticExpert, 0),
        (Step::CriticExpert, Report::Approved, vec![approved()], Step::Finalizer, 0),
        (Step::CriticExpert, Report::Rejected, vec![approved()], Step::Expert, 1),
    ];
    for (step, report, research, to, cost) in cases {
        let mut s = panel(step, research);
        s.expert = Some(expert());
        let row = find(step, when(&s, step, report)).unwrap();
        assert_eq!((row.to, u32::from(row.is_retry)), (Some(to), cost), "{step:?} {report:?}");
        let go = orchestrate(&mut s, step, report, 1);
        assert_eq!((s.current_step, s.retry_count), (to, cost), "{step:?} {report:?} {go:?}");
        assert!(s.messages.iter().all(|word| word.receiver == to.name() && word.kind == Kind::Instruction));
    }
    for step in &Step::ALL[..7] {
        for (report, to, cost) in [(Report::Failed, *step, 1), (Report::Critical, Step::Finalizer, 0)] {
            let mut s = panel(*step, vec![researched(None)]);
            let _ = orchestrate(&mut s, *step, report, 1);
            assert_eq!((s.current_step, s.retry_count), (to, cost), "{step:?} {report:?}");
        }
        // The specification: retry_count >= retry_limit.
        let mut s = panel(*step, vec![researched(None)]);
        s.retry_count = 4;
        let _ = orchestrate(&mut s, *step, Report::Failed, 1);
        assert_eq!((s.current_step, s.ending), (Step::Finalizer, Some(FinalizeReason::RetriesSpent)), "{step:?}");
    }
    assert_eq!(find(Step::Finalizer, TransitionCondition::Failed), None);
}

#[test]
fn k8_failures_are_of_four_kinds_and_name_the_place() {
    use graph::{Failure, FailureKind};
    use state::ErrorKind;
    let cases = [
        (FailureKind::Network, ErrorKind::Network, true),
        (FailureKind::Timeout, ErrorKind::Network, true),
        (FailureKind::Invalid, ErrorKind::Validation, true),
        (FailureKind::Reference, ErrorKind::Validation, true),
        (FailureKind::Tool, ErrorKind::Tool, true),
        (FailureKind::Need, ErrorKind::Tool, true),
        (FailureKind::Refused, ErrorKind::Tool, false),
        (FailureKind::InDoubt, ErrorKind::Tool, false),
        (FailureKind::Budget, ErrorKind::State, false),
        (FailureKind::Limit, ErrorKind::State, false),
        (FailureKind::Cancelled, ErrorKind::State, false),
        (FailureKind::Internal, ErrorKind::State, false),
    ];
    for (failure, kind, is_recoverable) in cases {
        let error = Error::of(Step::Expert, &Failure::new(failure, "why"));
        assert_eq!((error.kind, error.is_recoverable), (kind, is_recoverable), "{failure}");
        assert_eq!((error.component.as_str(), error.message.as_str()), ("expert", "why"));
    }
}

#[test]
fn k8_a_state_that_cannot_be_is_seen() {
    let approved = || researched(Some(Decision::Approve));
    let good = |step: Step| {
        let mut s = panel(step, if step == Step::CriticResearcher { vec![researched(None)] } else { vec![approved()] });
        s.expert = Some(expert());
        s.ending = Some(FinalizeReason::Approved);
        s
    };
    for step in Step::ALL {
        assert_eq!(good(step).check(step), Ok(()), "{step:?}");
    }
    type Break = fn(&mut Panel);
    let cases: [(Step, Break, &str); 13] = [
        (Step::Expert, |s| s.current_step = Step::Planner, "current_step is planner, but expert"),
        (Step::Planner, |s| s.question = " ".into(), "question is missing"),
        (Step::Planner, |s| s.settings.retry_limit = 0, "limit of 0"),
        (Step::Planner, |s| s.retry_count = 99, "retry_count is 99"),
        (Step::Planner, |s| s.research = vec![researched(None); 9], "too many"),
        (Step::Expert, |s| s.current_research_index = Some(7), "current_research_index"),
        (Step::Expert, |s| s.research[0].result = None, "judged and has no result"),
        (Step::CriticPlanner, |s| s.expert_steps.clear(), "what critic_planner works on is missing"),
        (Step::Researcher, |s| s.current_research_index = None, "what researcher works on is missing"),
        (Step::CriticResearcher, |s| s.research[0] = researched(Some(Decision::Approve)), "what critic_researcher works on"),
        (Step::Expert, |s| s.research[0].verdict = None, "what expert works on is missing"),
        (Step::CriticExpert, |s| s.expert = None, "what critic_expert works on is missing"),
        (Step::Finalizer, |s| s.expert = None, "expert's answer is missing"),
    ];
    for (step, spoil, expected) in cases {
        let mut s = good(step);
        spoil(&mut s);
        let error = s.check(step).unwrap_err();
        assert!(error.message.contains(expected), "{error:?}");
        assert_eq!((error.component.as_str(), error.is_recoverable), (step.name(), false));
    }
}
