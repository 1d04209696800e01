use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{ScriptedHandler, jobs};

const SCRIPT: &str = r#"
when tool read  reply "page"        after 5ms tokens 1/2
when tool note  reply {"n": 1}      checkable
when tool stuck fail tool "full"    checkable
when tool mail  reply "sent"        once
"#;

fn only(fault: Fault) -> FaultPlan {
    match fault {
        Fault::None => FaultPlan::default(),
        Fault::FailBefore => FaultPlan { fail_pct: 100, ..FaultPlan::default() },
        Fault::LoseReply => FaultPlan { lose_reply_pct: 100, ..FaultPlan::default() },
        Fault::Duplicate => FaultPlan { duplicate_pct: 100, ..FaultPlan::default() },
    }
}

#[tokio::test(start_paused = true)]
async fn what_each_fault_does_to_each_nature() {
    let network = || Err((FailureKind::Network, true));
    let in_doubt = || Err((FailureKind::InDoubt, false));
    // Tool, fault, number of times it is performed, and the reply (a value, or a kind of failure and whether to retry).
    let cases = [
        ("read", Fault::None, 1, Ok(json!("page"))),
        ("read", Fault::FailBefore, 0, network()),
        ("read", Fault::LoseReply, 1, network()),
        ("read", Fault::Duplicate, 2, Ok(json!("page"))),
        ("note", Fault::FailBefore, 0, network()),
        ("note", Fault::LoseReply, 1, Ok(json!({"n": 1}))),
        ("note", Fault::Duplicate, 1, Ok(json!({"n": 1}))),
        ("stuck", Fault::LoseReply, 1, network()),
        ("mail", Fault::FailBefore, 0, network()),
        ("mail", Fault::LoseReply, 1, in_doubt()),
        ("mail", Fault::Duplicate, 1, Ok(json!("sent"))),
    ];
    for (tool, fault, times, expected) in cases {
        let script = Arc::new(ScriptedHandler::parse(SCRIPT).unwrap());
        let handler = Faulty::new(script.clone(), only(fault));
        let job = &jobs(&[graph::tool(tool, json!({}))])[0];
        let reply = handler.perform(job, &Progress::nowhere()).await;
        let got = reply.result.map_err(|failure| (failure.kind, failure.retry != graph::Retry::No));
        assert_eq!((got, script.calls().len()), (expected, times), "{tool} {fault:?}");
        assert_eq!((handler.repeatability(job), handler.look_up(job).await), (script.repeatability(job), script.look_up(job).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_still_cost_what_it_cost() {
    let handler = Faulty::new(ScriptedHandler::parse(SCRIPT).unwrap(), only(Fault::LoseReply));
    let reply = handler.perform(&jobs(&[graph::tool("read", json!({}))])[0], &Progress::nowhere()).await;
    assert_eq!((reply.usage.tokens(), reply.took_us), (3, 5_000));
}

#[tokio::test(start_paused = true)]
async fn delays_take_the_given_time() {
    let plan = FaultPlan { seed: 3, delay_ms_max: 50, ..FaultPlan::default() };
    let handler = Faulty::new(ScriptedHandler::parse("when tool * echo").unwrap(), plan);
    for job in jobs(&vec![graph::tool("t", json!({})); 20]) {
        let started = tokio::time::Instant::now();
        let reply = handler.perform(&job, &Progress::nowhere()).await;
        let ms = plan.delay_ms(job.key, job.attempt);
        assert!(ms <= 50);
        assert_eq!((started.elapsed().as_millis() as u64, reply.took_us), (ms, ms * 1_000));
    }
}

#[test]
fn faults_depend_on_seed_key_and_attempt_and_come_as_often_as_planned() {
    let plan = |seed| FaultPlan { seed, fail_pct: 20, lose_reply_pct: 10, duplicate_pct: 5, delay_ms_max: 100, faulty_attempts_max: 4 };
    let jobs = jobs(&vec![graph::tool("t", json!({})); 1_000]);
    let faults = |seed, attempt| -> Vec<(Fault, u64)> {
        jobs.iter().map(|job| (plan(seed).fault(job.key, attempt), plan(seed).delay_ms(job.key, attempt))).collect()
    };
    assert_eq!(faults(1, 1), faults(1, 1));
    assert_ne!(faults(1, 1), faults(2, 1));
    assert_ne!(faults(1, 1), faults(1, 2));

    let all: Vec<Fault> = (1..=4).flat_map(|attempt| faults(1, attempt)).map(|(fault, _)| fault).collect();
    for (fault, pct) in [(Fault::FailBefore, 20), (Fault::LoseReply, 10), (Fault::Duplicate, 5), (Fault::None, 65)] {
        let found = all.iter().filter(|&&f| f == fault).count() * 100 / all.len();
        assert!(found.abs_diff(pct) <= 2, "{fault:?}: {found} of 100, planned {pct}");
    }
    assert!(faults(1, 5).iter().all(|(fault, _)| *fault == Fault::None), "after faulty_attempts_max nothing fails");
    assert!(faults(1, 5).iter().any(|(_, ms)| *ms > 0), "but it may still be slow");
}

#[test]
fn an_old_seed_still_finds_its_fault() {
    let key: Key = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let plan = FaultPlan { seed: 42, delay_ms_max: 999_999, ..FaultPlan::default() };
    assert_eq!([1, 2, 3].map(|attempt| plan.delay_ms(key, attempt)), [388_538, 749_705, 852_299]);
}
