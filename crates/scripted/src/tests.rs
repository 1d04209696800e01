use std::sync::{Arc, Mutex};
use std::time::Duration;

use graph::{Failure, FailureKind, Message, Usage};
use serde_json::json;
use tokio::time::Instant;

use super::*;

/// Every form the module's own documentation shows.
const ALL: &str = r##"
# a comment, and a blank line

when tool search query~rust      reply {"hits": 3}           after 20ms
when tool search lang="de" n=2   reply {"hits": 2}
when tool search tags~"two words" reply {"hits": 1}          # a comment
when tool mail.send              reply "sent # not a comment" once
when tool notes.append           reply {"n": 1}              checkable after 10ms
when tool notes.append           fail tool "full"
when model plan text~lookups     reply {"steps": ["a","b"]}  tokens 120/30 usd 0.002
when model *                     reply "some words"
when tool slow                   hang
when tool bad                    fail refused "no such tool"
when tool limited                fail tool "busy" retry-after 30ms times 1
when agent research* topic.0.name="x" reply {"completed_capability": "research"}
when agent *                     echo
when tool echo                   echo
when tool broken                 panic "boom"
"##;

fn message(content: &str) -> Vec<Message> {
    vec![Message { role: "user".into(), content: content.into() }]
}

/// Performs each effect as its own task, first attempts, one after the other.
async fn perform(script: &str, effects: &[Effect]) -> Vec<Reply> {
    let handler = ScriptedHandler::parse(script).unwrap();
    let mut replies = Vec::new();
    for job in jobs(effects) {
        replies.push(handler.perform(&job, &Progress::nowhere()).await);
    }
    replies
}

#[tokio::test(start_paused = true)]
async fn the_first_rule_that_fits_answers() {
    let cases = [
        (graph::tool("search", json!({"query": "why rust"})), json!({"hits": 3})),
        (graph::tool("search", json!({"query": "c", "lang": "de", "n": 2})), json!({"hits": 2})),
        (graph::tool("search", json!({"tags": ["two words"]})), json!({"hits": 1})),
        (graph::tool("mail.send", json!({})), json!("sent # not a comment")),
        (graph::model("plan", message("three lookups")), json!({"steps": ["a", "b"]})),
        (graph::model("plan", message("else")), json!("some words")),
        (graph::agent("researcher", json!({"topic": [{"name": "x"}]})), json!({"completed_capability": "research"})),
        (graph::agent("researcher", json!({"topic": [{"name": "y"}]})), json!({"topic": [{"name": "y"}]})),
        (graph::tool("echo", json!([1, null])), json!([1, null])),
    ];
    let effects: Vec<Effect> = cases.iter().map(|(effect, _)| effect.clone()).collect();
    for (reply, (effect, wanted)) in perform(ALL, &effects).await.into_iter().zip(&cases) {
        assert_eq!(reply.result.as_ref(), Ok(wanted), "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_usage_and_time_are_as_written() {
    let effects = [
        graph::tool("bad", json!({})),
        graph::tool("limited", json!({})),
        graph::model("plan", message("lookups")),
        graph::tool("search", json!({"query": "rust"})),
    ];
    let started = Instant::now();
    let replies = perform(ALL, &effects).await;
    assert_eq!(replies[0].result, Err(Failure::new(FailureKind::Refused, "no such tool")));
    assert_eq!(replies[1].result, Err(Failure::new(FailureKind::Tool, "busy").retry_after_ms(30)));
    assert_eq!(replies[2].usage, Usage { tokens_in: 120, tokens_out: 30, usd_micros: 2_000, calls: 0 });
    assert_eq!(replies[3].took_us, 20_000);
    assert_eq!(started.elapsed(), Duration::from_millis(20));
}

#[tokio::test]
async fn what_no_rule_fits_is_refused_with_what_was_near() {
    let script = "when tool search query~rust reply 1\nwhen tool mail.send reply 1 times 1\nwhen model plan reply 1";
    let cases = [
        (
            graph::tool("serch", json!({"query": "rust"})),
            vec!["no rule left for tool serch with {\"query\":\"rust\"}", "`when tool search query~rust` (line 1)"],
        ),
        (graph::tool("search", json!({"query": "go"})), vec!["`when tool search query~rust` (line 1, other arguments)"]),
        (graph::tool("mail.send", json!({})), vec![]),
        (graph::tool("mail.send", json!({})), vec!["`when tool mail.send` (line 2, used up)"]),
        (graph::person("really?"), vec!["person person"]),
    ];
    let handler = ScriptedHandler::parse(script).unwrap();
    let mut job = jobs(&[graph::tool("x", json!({}))]).remove(0);
    for (attempt, (effect, wanted)) in cases.into_iter().enumerate() {
        (job.effect, job.attempt) = (Arc::new(effect), attempt as u32 + 1);
        let reply = handler.perform(&job, &Progress::nowhere()).await;
        let text = reply.result.map_or_else(|failure| failure.to_string(), |value| value.to_string());
        for words in wanted {
            assert!(text.contains(words), "{text}\n  should hold {words}");
        }
    }
}

#[tokio::test]
async fn counted_rules_give_a_repeated_attempt_the_same_answer() {
    const FLAKY: &str = "when tool flaky fail network \"reset\" retry times 2\nwhen tool flaky reply \"ok\"";
    const EACH: &str = "when tool flaky fail network \"reset\" retry times 2 each\nwhen tool flaky reply \"ok\"";
    // Task, attempt, and whether it is answered well.
    type Steps<'a> = &'a [(usize, u32, bool)];
    let cases: [(&str, Steps<'_>); 3] = [
        (FLAKY, &[(0, 1, false), (0, 1, false), (0, 2, false), (0, 3, true), (0, 1, false), (0, 2, false)]),
        (FLAKY, &[(1, 1, false), (0, 1, false), (0, 2, true), (1, 2, true), (1, 1, false)]),
        (EACH, &[(1, 1, false), (0, 3, true), (0, 1, false), (0, 2, false), (1, 2, false), (1, 3, true), (1, 1, false)]),
    ];
    for (script, steps) in cases {
        let outside = Arc::<ExternalState>::default();
        for &(task, attempt, is_ok) in steps {
            // A new world each time: what is counted is counted outside.
            let handler = ScriptedHandler::with_outside(script, outside.clone()).unwrap();
            let mut job = jobs(&[graph::tool("flaky", json!({})), graph::tool("flaky", json!({}))]).remove(task);
            job.attempt = attempt;
            let reply = handler.perform(&job, &Progress::nowhere()).await;
            assert_eq!(reply.result.is_ok(), is_ok, "task {task} attempt {attempt} of {steps:?} under\n{script}");
        }
        assert_eq!(outside.calls().len(), steps.len());
    }
}

#[test]
fn natures_are_the_tools_and_not_the_rules() {
    let handler = ScriptedHandler::parse(ALL).unwrap();
    let cases = [
        (graph::tool("mail.send", json!({})), Repeatability::Once),
        (graph::tool("notes.append", json!({})), Repeatability::Checkable),
        (graph::tool("search", json!({"query": "rust"})), Repeatability::Repeatable),
        (graph::tool("unheard of", json!({})), Repeatability::Repeatable),
        (graph::model("plan", vec![]), Repeatability::Repeatable),
        (graph::agent("a", json!({})), Repeatability::Repeatable),
    ];
    for (effect, repeatability) in cases {
        assert_eq!(handler.repeatability(&jobs(std::slice::from_ref(&effect))[0]), repeatability, "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_falls_before_or_after_the_change() {
    // Cut after so many milliseconds of ten; whether it had happened then.
    for (cut_ms, happened) in [(0, false), (4, false), (6, true), (9, true), (20, true)] {
        let outside = Arc::<ExternalState>::default();
        let job = jobs(&[graph::tool("notes.append", json!({"text": "x"}))]).remove(0);
        let handler = ScriptedHandler::with_outside(ALL, outside.clone()).unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(cut_ms), handler.perform(&job, &Progress::nowhere())).await;
        drop(handler);

        let after_crash = ScriptedHandler::with_outside(ALL, outside.clone()).unwrap();
        let wanted = if happened { LookUp::Done(Reply::ok(json!({"n": 1})).taking_us(10_000)) } else { LookUp::NotDone };
        assert_eq!(after_crash.look_up(&job).await, wanted, "cut after {cut_ms} ms");
        assert_eq!(outside.changes().get(&job.key).copied().unwrap_or(0), u32::from(happened));
        assert_eq!(outside.calls().len(), 1);
        assert_eq!(outside.calls()[0].arguments, json!({"text": "x"}));
    }
}

#[tokio::test]
async fn only_what_is_checkable_can_be_looked_up() {
    let handler = ScriptedHandler::parse(ALL).unwrap();
    for job in jobs(&[graph::tool("mail.send", json!({})), graph::tool("echo", json!({}))]) {
        handler.perform(&job, &Progress::nowhere()).await;
        assert_eq!(handler.look_up(&job).await, LookUp::Unknown);
    }
    assert_eq!(handler.outside().changes().len(), 1, "the mail is a change, the echo is none");
}

#[tokio::test(start_paused = true)]
async fn hanging_hangs_and_panicking_panics_and_the_world_goes_on() {
    let handler = Arc::new(ScriptedHandler::parse(ALL).unwrap());
    let jobs = jobs(&[graph::tool("slow", json!({})), graph::tool("broken", json!({})), graph::tool("echo", json!(1))]);
    assert!(tokio::time::timeout(Duration::from_secs(3_600), handler.perform(&jobs[0], &Progress::nowhere())).await.is_err());
    let (other, job) = (handler.clone(), jobs[1].clone());
    let crash = tokio::spawn(async move { other.perform(&job, &Progress::nowhere()).await }).await;
    assert!(crash.unwrap_err().is_panic());
    assert_eq!(handler.perform(&jobs[2], &Progress::nowhere()).await.result, Ok(json!(1)));
    assert_eq!(handler.calls().len(), 3);
}

#[tokio::test]
async fn a_model_streams_its_text() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let progress = Progress::to(move |word| sink.lock().unwrap().push(word.to_owned()));
    let handler = ScriptedHandler::parse(ALL).unwrap();
    handler.perform(&jobs(&[graph::model("answer", vec![])])[0], &progress).await;
    assert_eq!(*received.lock().unwrap(), ["some ", "words"]);
}

#[test]
fn a_mistake_names_the_line_what_was_expected_and_what_stood_there() {
    let cases = [
        ("whenever tool x echo", "expected when, found \"whenever\""),
        ("when", "expected tool, model or agent, found the end of the line"),
        ("when person x echo", "expected tool, model or agent, found \"person\""),
        ("when tool # x", "expected a name, in which * stands for anything, found the end of the line"),
        (
            "when tool x",
            "expected a condition (path=JSON or path~text) or an action (reply, echo, fail, hang, panic or abort), found the end of the line",
        ),
        ("when tool x answer 1", "found \"answer\""),
        ("when tool x q=rust echo", "expected a JSON value (text goes in double quotes), found \"rust echo\""),
        ("when tool x q= echo", "expected a value directly after = or ~"),
        ("when tool x ~y echo", "expected a path before = or ~"),
        ("when tool x a..b=1 echo", "expected a path before = or ~"),
        ("when tool x reply {\"a\": }", "found \"{\\\"a\\\": }\""),
        ("when tool x reply", "expected a JSON value to reply with (text goes in double quotes), found the end of the line"),
        ("when tool x fail sadly \"y\"", "expected a kind of failure (network, timeout,"),
        ("when tool x fail tool because", "expected words in double quotes that say why, found \"because\""),
        ("when tool x panic 3", "expected words in double quotes to panic with, found \"3\""),
        ("when tool x echo after soon", "expected a duration, such as 20ms, 500us or 2s, found \"soon\""),
        ("when tool x echo after 20", "found \"20\""),
        ("when tool x echo after 99999999999999999999s", "expected a duration"),
        ("when tool x echo after ms", "expected a duration"),
        ("when tool x echo times 0", "expected a number from 1 on, found \"0\""),
        ("when tool x echo tokens 5", "expected tokens in and out, such as 120/30, found \"5\""),
        ("when tool x echo usd 1.2.3", "expected an amount in dollars, such as 0.002, found \"1.2.3\""),
        ("when tool x echo usd -1", "found \"-1\""),
        ("when tool x echo usd 0.0000001", "found \"0.0000001\""),
        ("when model x echo once", "expected nothing like that for a model: only tools change the world, found \"once\""),
        ("when tool x echo once checkable", "expected either once or checkable, not both"),
        ("when tool x echo retry", "expected retry only after fail, found \"retry\""),
        ("when tool x fail tool \"y\" retry retry-after 1s", "expected either retry or retry-after"),
        ("when tool x echo after 1ms after 2ms", "expected after only once in a line, found \"after\""),
        (
            "when tool x echo now",
            "expected after, times, tokens, usd, once, checkable, asks, defined, retry, retry-after, # or the end of the line, found \"now\"",
        ),
    ];
    for (line, wanted) in cases {
        let error = ScriptedHandler::parse(&format!("# first\n\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 3, "{line}");
        let text = error.to_string();
        assert!(text.starts_with("line 3 of the script: ") && text.contains(wanted), "{line}\n  message  {text}\n  expected {wanted}");
    }
}

#[test]
fn no_line_makes_the_reader_panic() {
    // Every prefix of every good line, cut between any two letters, and with a letter of more than one byte put there.
    for line in ALL.lines() {
        for at in (0..=line.len()).filter(|&at| line.is_char_boundary(at)) {
            let _ = ScriptedHandler::parse(&line[..at]);
            let _ = ScriptedHandler::parse(&format!("{}ä\u{a0}{}", &line[..at], &line[at..]));
        }
    }
}
