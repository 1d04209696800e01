//! Runs a flow against a function, for tests: every effect is answered at once, and built-in flows called as agents run too.

use graph::{Effect, Event, Failure, FailureKind, Message, Next, Outcome, Reply, Run, Start};
use serde_json::{Value, json};

pub(crate) struct PlayedRun {
    pub(crate) outcome: Outcome,
    /// Every attempt in order, including those of children.
    pub(crate) effects: Vec<Effect>,
    /// The nodes that were entered, without those of children.
    pub(crate) path: Vec<String>,
    pub(crate) notes: Vec<(String, Value)>,
    pub(crate) messages: Vec<(String, String)>,
    /// Simulated duration from the replies, one effect after the other.
    pub(crate) took_us: u64,
}

impl PlayedRun {
    pub(crate) fn output(&self) -> &Value {
        self.outcome.output().unwrap_or_else(|| panic!("{:?}", self.outcome))
    }

    /// Kind and name of every attempt.
    pub(crate) fn effect_names(&self) -> Vec<String> {
        self.effects.iter().map(|effect| format!("{} {}", effect.kind(), effect.name())).collect()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.effect_names().iter().filter(|one| *one == name).count()
    }

    pub(crate) fn notes(&self, name: &str) -> Vec<&Value> {
        self.notes.iter().filter(|(noted, _)| noted == name).map(|(_, value)| value).collect()
    }
}

/// A verifier's reply that supports every pair with this probability.
pub(crate) fn judged(effect: &Effect, supported: f32) -> Reply {
    let Effect::CallTool(call) = effect else { panic!("{effect:?} is no call of the verifier") };
    let request: evidence::JudgeRequest = serde_json::from_value(call.arguments.clone()).unwrap();
    let judgements = vec![evidence::Judgement { supported, contradicted: 0.0 }; request.pairs().unwrap().len()];
    let weights = evidence::DecisionWeights { model: 1.0, ..evidence::DecisionWeights::default() };
    Reply::ok(json!(evidence::JudgeReply { judgements, weights, answered: None }))
}

/// The reply to an effect with this many milliseconds. `None` for an agent runs the flow of that name.
pub(crate) type World<'w> = dyn FnMut(&Effect, u64) -> Option<Reply> + 'w;

pub(crate) fn play(flow: &str, input: Value, world: &mut World<'_>) -> PlayedRun {
    play_edited(flow, input, None, world)
}

/// The same, with the state patched on entering a node, as in a branch of a run.
pub(crate) fn play_edited(flow: &str, input: Value, mut edit: Option<(&str, Value)>, world: &mut World<'_>) -> PlayedRun {
    let graph = crate::all().unwrap().into_iter().find(|graph| graph.name() == flow).unwrap_or_else(|| panic!("no flow {flow}"));
    let mut run = Run::start(&graph, Start::new(flow, "thread", "run", input)).unwrap();
    let mut played = PlayedRun {
        outcome: Outcome::Done { output: Value::Null },
        effects: Vec::new(),
        path: Vec::new(),
        notes: Vec::new(),
        messages: Vec::new(),
        took_us: 0,
    };
    let mut answer = |effect: &Effect, deadline_ms: u64, played: &mut PlayedRun| {
        played.effects.push(effect.clone());
        let judged = (effect.name() == evidence::JUDGE).then(|| judged(effect, 0.9));
        let reply = judged.or_else(|| world(effect, deadline_ms)).unwrap_or_else(|| match effect {
            Effect::CallAgent(call) => {
                let child = play(&call.agent, call.input.clone(), world);
                played.effects.extend(child.effects);
                match child.outcome {
                    Outcome::Done { output } => Reply::ok(output),
                    other => Reply::failed(Failure::new(FailureKind::Tool, format!("{other:?}"))),
                }
            }
            other => panic!("nobody answers {other:?}"),
        });
        played.took_us += reply.took_us;
        reply
    };
    loop {
        let next = run.next();
        if let Some((node, patch)) = edit.take() {
            let entered = run.take_events();
            let is_there = entered.iter().any(|numbered| matches!(&numbered.event, Event::Entered { node: at, .. } if &**at == node));
            keep(entered, &mut played);
            if is_there {
                run.edit(&patch).unwrap();
                continue;
            }
            edit = Some((node, patch));
        }
        match next {
            Next::Perform(jobs) => {
                for job in jobs {
                    let reply = answer(&job.effect, job.deadline_ms, &mut played);
                    run.feed(job.task, job.attempt, reply).unwrap();
                }
            }
            Next::Wait(questions) => {
                for open in questions {
                    let effect = Effect::AskPerson(open.question.clone());
                    let reply = answer(&effect, 0, &mut played);
                    run.feed(open.task, open.attempt, reply).unwrap();
                }
            }
            Next::Await => unreachable!("every job is answered at once"),
            Next::Done(outcome) => {
                played.outcome = (*outcome).clone();
                break;
            }
        }
    }
    keep(run.take_events(), &mut played);
    played
}

fn keep(events: Vec<graph::NumberedEvent>, played: &mut PlayedRun) {
    for numbered in events {
        match numbered.event {
            Event::Entered { node, .. } => played.path.push(node.to_string()),
            Event::Noted { name, value, .. } => played.notes.push((name, value)),
            Event::Said { role, content } => played.messages.push((role, content)),
            _ => {}
        }
    }
}

pub(crate) fn failed(kind: FailureKind) -> Reply {
    Reply::failed(Failure::new(kind, "no luck"))
}

/// A tool's reply with passages.
pub(crate) fn found(tool: &str, texts: &[(&str, &str)]) -> Reply {
    let passages: Vec<Value> =
        texts.iter().map(|(title, text)| json!({ "title": title, "text": text, "address": format!("https://{title}.example") })).collect();
    let data = json!({ "passages": passages, "confidence": 0.8 });
    let text = texts.iter().map(|(_, text)| *text).collect::<Vec<_>>().join("\n");
    Reply::ok(json!(evidence::found(tool, evidence::Trust::Untrusted, &text, Some(&data))))
}

#[allow(clippy::needless_pass_by_value)] // keeps test cases readable
pub(crate) fn tools(list: Value) -> Reply {
    Reply::ok(json!({ "text": "tools", "data": { "tools": list }, "spans": [] }))
}

/// A search, a calculator, and a tool that changes something.
pub(crate) fn usual_tools() -> Reply {
    let text =
        |name: &str| json!({ "type": "object", "required": [name], "additionalProperties": false, "properties": { name: { "type": "string" } } });
    tools(json!([
        { "name": "docs.search", "description": "Finds passages.", "schema": text("query"), "read_only": true },
        { "name": "calc.eval", "description": "Calculates.", "schema": text("expression"), "read_only": true },
        { "name": "files.append", "description": "Appends to a file.", "schema": text("text"), "read_only": false },
    ]))
}

/// All prompt text of a model call, in one string.
pub(crate) fn words(effect: &Effect) -> String {
    match effect {
        Effect::CallModel(call) => call.messages.iter().map(|message: &Message| message.content.as_str()).collect::<Vec<_>>().join("\n"),
        other => serde_json::to_string(other).unwrap(),
    }
}
