//! A person approves, edits, declines or revises the plan.

use super::*;

fn approving(word: impl FnMut(usize, &str) -> Value) -> DrivenRun {
    let mut word = word;
    search(with(large(), &json!({ "approve": "plan" })), move |effect, before| match effect {
        Effect::AskPerson(question) => Some(Ok(word(before, &question.prompt))),
        _ => None,
    })
}

#[test]
fn a_plan_is_approved_by_hash_and_what_was_approved_is_what_runs() {
    let hash_in = |prompt: &str| prompt.split("Plan ").nth(1).and_then(|rest| rest.split('.').next()).unwrap().to_owned();
    for word in [json!(true), json!("yes"), json!({ "approve": true })] {
        let driven = approving(|_, _| word.clone());
        assert_eq!((driven.tools().len(), driven.models("").len()), (2, 2));
    }
    let driven = approving(|_, prompt| json!({ "approve": true, "plan_hash": hash_in(prompt) }));
    assert_eq!(driven.note("approval").unwrap()["approved"], driven.note("plan").unwrap()["hash"]);

    // Another hash is another plan; invalid edits are sent back; valid ones run instead.
    let edited = json!([{ "tool_name": "docs.search", "tool_arguments": { "query": "mine" } }]);
    let driven = approving(|before, prompt| match before {
        0 => json!({ "approve": true, "plan_hash": "0123" }),
        1 => {
            assert!(prompt.contains("the answer is about plan 0123"), "{prompt}");
            json!({ "approve": true, "tasks": [{ "tool_name": "no.tool", "tool_arguments": {} }] })
        }
        _ => {
            assert!(prompt.contains("there is no tool \"no.tool\""), "{prompt}");
            json!({ "approve": true, "tasks": edited })
        }
    });
    assert_eq!(driven.tools(), [("docs.search", &json!({ "query": "mine" }))]);
    let approval = driven.note("approval").unwrap();
    assert_eq!(approval["edited"], true);
    assert_ne!(approval["approved"], driven.note("plan").unwrap()["hash"]);
}

#[test]
fn a_plan_that_is_not_approved_is_not_run() {
    for word in [json!(false), json!("no"), json!("rather not"), json!({ "approve": false }), json!({}), json!({ "tasks": "all" })] {
        let driven = approving(|_, _| word.clone());
        assert_eq!(
            (driven.tools().len(), driven.answer(), driven.messages.len()),
            (0, "The plan was not approved, so nothing was looked up.", 2),
            "{word}"
        );
        assert_eq!(statuses(&driven), ["failed", "failed"]);
    }
    assert!(!search(large(), |_, _| None).effects().any(Effect::is_for_a_person));
}

#[test]
fn a_plan_is_revised_by_a_persons_comment_and_a_decline_keeps_its_reason() {
    let driven = approving(|asked, _| match asked {
        0 => json!({ "approve": false, "revise": "look into the stories only" }),
        _ => json!({ "approve": true }),
    });
    let plans = driven.models("plan");
    assert_eq!(plans.len(), 2);
    let prompt_text = |at: usize| plans[at].messages[0].content.as_str();
    assert!(
        !prompt_text(0).contains("stories only")
            && prompt_text(1).contains("- look into the stories only")
            && prompt_text(1).contains("1. docs.search"),
        "{}",
        prompt_text(1)
    );
    assert_eq!((driven.output()["iterations"].as_u64(), driven.tools().len()), (Some(1), 2), "a revision is the same turn");
    let driven = approving(|_, _| json!({ "approve": false, "reason": "too slow" }));
    assert_eq!(driven.answer(), "The plan was not approved, so nothing was looked up: too slow.");
    assert!(driven.messages.iter().any(|(_, message)| message.contains("too slow")), "the next planner reads it in the conversation");
    let driven = approving(|_, _| json!({ "approve": false, "revise": "again" }));
    assert!(driven.models("plan").len() == 11 && driven.tools().is_empty(), "nobody revises for ever");
}
