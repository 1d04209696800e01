//! The hub as the effect handler for `CallTool`: what flows may ask of it beyond calling, and what a person must agree to.
//!
//! Three things are added to [`Tools`]:
//!
//! - `registry.tools {query?, size?, names?}`: the tools there are, or the best few for a question, or those named. It is an effect like any other, so that a plan
//!   can be replayed with the list it was made from.
//! - [`evidence::JUDGE`]: whether texts support claims, by the model that was handed in. It is an effect so that a replay has the same judgements.
//! - An [objection](World::objection) to calls that a person must agree to; see `permission`.

use std::sync::Arc;

use async_trait::async_trait;
use evidence::{Found, JUDGE, JudgeReply};
use graph::{Effect, Failure, FailureKind, Job, Objection, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use super::judging::{Judge, JudgeQueue};
use super::{ToolInfo, Tools, permission};
use effects::{EffectHandler, LookUp, Progress, Repeatability};

/// The tool that lists tools.
pub const LIST: &str = "registry.tools";

/// Tools in one listing, even if more are requested.
const LISTED_MAX: usize = 64;

/// The effect handler for tools: performs calls, and lists tools for planners.
pub struct ToolHandler {
    tools: Tools,
    judging: Option<JudgeQueue>,
    /// Tools that the configuration allows for everybody: `server.tool`, or a whole `server`.
    allowed: Vec<String>,
}

impl ToolHandler {
    /// `allowed` are tools that need no permission: `server.tool`, or a whole `server`.
    pub fn new(tools: Tools, allowed: Vec<String>) -> Self {
        ToolHandler { tools, allowed, judging: None }
    }

    /// Adds the verifier that answers `evidence.judge`.
    pub fn with_judge(self, judge: Judge) -> Self {
        ToolHandler { judging: Some(JudgeQueue::new(judge)), ..self }
    }

    async fn judge(&self, arguments: &Value) -> Result<JudgeReply, Failure> {
        let none = || Failure::new(FailureKind::Refused, "no verifier is configured");
        self.judging.as_ref().ok_or_else(none)?.reply(arguments).await
    }

    /// The list, and whether all of it is Baton's own words or those of trusted servers: a description can be as hostile as any other text.
    async fn list(&self, arguments: &Value) -> Result<(Found, bool), Failure> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ListArguments {
            #[serde(default)]
            query: Option<String>,
            #[serde(default)]
            size: Option<usize>,
            /// Only these: `server.tool`, a server, or the part after the dot.
            #[serde(default)]
            names: Vec<String>,
        }
        let wrong = |error: serde_json::Error| Failure::new(FailureKind::Invalid, format!("{LIST} takes {{query?, size?, names?}}: {error}"));
        let ListArguments { query, size, names } = ListArguments::deserialize(arguments).map_err(wrong)?;
        let size = size.unwrap_or(LISTED_MAX).min(LISTED_MAX);
        let is_named = |tool: &ToolInfo| names.iter().any(|name| tool.name == *name || tool.name.split('.').any(|part| part == name));
        let is_meant = |tool: &Arc<ToolInfo>| tool.enabled && (names.is_empty() || is_named(tool));
        let all: Vec<Arc<ToolInfo>> = self.tools.list().await.into_iter().filter(is_meant).collect();
        let best: Vec<Arc<ToolInfo>> = match query.filter(|query| !query.trim().is_empty()) {
            None => Vec::new(),
            Some(query) => self.tools.search(&query, all.len()).await.into_iter().map(|(tool, _)| tool).filter(is_meant).collect(),
        };
        let selected = select_tools(best, all, size);
        let lines: Vec<String> =
            selected.iter().map(|tool| format!("{}: {}", tool.name, tool.description.lines().next().unwrap_or_default())).collect();
        let tools: Vec<Value> = selected.iter().map(|tool| tool_json(tool)).collect();
        let found = Found { text: lines.join("\n"), data: json!({ "tools": tools }), spans: Vec::new() };
        Ok((found, selected.iter().all(|tool| tool.is_trusted)))
    }
}

/// Tools that accept any question are listed up to this number in every case, because a question rarely names the tool that answers it.
const LOOK_UPS_MIN: usize = 2;

/// The best first, then the tools that look something up, then the rest; at most `size`.
fn select_tools(best: Vec<Arc<ToolInfo>>, all: Vec<Arc<ToolInfo>>, size: usize) -> Vec<Arc<ToolInfo>> {
    let is_among = |tools: &[Arc<ToolInfo>], one: &ToolInfo| tools.iter().any(|tool| tool.name == one.name);
    let (look_ups, others): (Vec<_>, Vec<_>) = all.into_iter().filter(|tool| !is_among(&best, tool)).partition(|tool| is_look_up(tool));
    let ordered: Vec<Arc<ToolInfo>> = best.into_iter().chain(look_ups).chain(others).collect();
    let reserved: Vec<Arc<ToolInfo>> = ordered.iter().filter(|tool| is_look_up(tool)).take(LOOK_UPS_MIN.min(size)).cloned().collect();
    let mut left = size - reserved.len();
    let mut selected = Vec::new();
    for tool in ordered {
        let is_reserved = is_among(&reserved, &tool);
        if is_reserved || left > 0 {
            left -= usize::from(!is_reserved);
            selected.push(tool);
        }
    }
    selected
}

/// Whether it accepts a question in plain language and changes nothing.
fn is_look_up(tool: &ToolInfo) -> bool {
    let required = tool.schema.get("required").and_then(Value::as_array);
    let takes = |name: &str| tool.schema.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str) == Some("string");
    let is_alone = |name: &str| required.is_none_or(|required| required.iter().all(|one| one.as_str() == Some(name)));
    tool.hints.read_only == Some(true) && ["query", "q", "question"].into_iter().any(|name| takes(name) && is_alone(name))
}

fn tool_json(tool: &ToolInfo) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "schema": tool.schema,
        "read_only": tool.is_read_only(),
        "destructive": tool.is_destructive(),
        "healthy": tool.healthy,
        "server": tool.server,
    })
}

#[async_trait]
impl EffectHandler for ToolHandler {
    fn repeatability(&self, job: &Job) -> Repeatability {
        if matches!(job.effect.name(), LIST | JUDGE) { Repeatability::Repeatable } else { self.tools.repeatability(job) }
    }

    fn objection(&self, job: &Job) -> Option<Objection> {
        let Effect::CallTool(call) = &*job.effect else { return None };
        if matches!(call.tool.as_str(), LIST | JUDGE) {
            return None;
        }
        let server = call.tool.split_once('.').map_or(call.tool.as_str(), |(server, _)| server);
        if self.allowed.iter().any(|allowed| *allowed == call.tool || allowed == server) {
            return None;
        }
        permission::objection(&self.tools, job, call)
    }

    fn may_change(&self, job: &Job) -> bool {
        let Effect::CallTool(call) = &*job.effect else { return false };
        !matches!(call.tool.as_str(), LIST | JUDGE) && permission::may_change(&self.tools, call)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        match &*job.effect {
            Effect::CallTool(call) if call.tool == LIST => match self.list(&call.arguments).await {
                Ok((found, is_trusted)) => match serde_json::to_value(found) {
                    Ok(found) if is_trusted => Reply::ok(found).without_foreign_text(),
                    Ok(found) => Reply::ok(found),
                    Err(error) => Reply::failed(Failure::new(FailureKind::Internal, error.to_string())),
                },
                Err(failure) => Reply::failed(failure),
            },
            Effect::CallTool(call) if call.tool == JUDGE => match self.judge(&call.arguments).await.map(serde_json::to_value) {
                Ok(Ok(reply)) => Reply::ok(reply).without_foreign_text(),
                Ok(Err(error)) => Reply::failed(Failure::new(FailureKind::Internal, error.to_string())),
                Err(failure) => Reply::failed(failure),
            },
            _ => self.tools.perform(job, progress).await,
        }
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.tools.look_up(job).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hints;
    use evidence::{DecisionWeights, Entailment, JudgeRequest, Judgement, Pair, ShortAnswer};

    fn tool(name: &str, argument: &str) -> Arc<ToolInfo> {
        Arc::new(ToolInfo {
            name: name.into(),
            server: name.into(),
            title: None,
            description: String::new(),
            schema: json!({ "properties": { argument: { "type": "string" } }, "required": [argument] }),
            output_schema: None,
            hints: Hints { read_only: Some(true), ..Hints::default() },
            is_trusted: true,
            enabled: true,
            healthy: true,
        })
    }

    #[test]
    fn tools_that_look_up_a_question_are_listed_however_badly_its_words_fit() {
        let all = || vec![tool("calc", "expression"), tool("code", "code"), tool("docs", "query"), tool("web", "q")];
        let names =
            |best: Vec<Arc<ToolInfo>>, size| select_tools(best, all(), size).iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(vec![tool("code", "code")], 9), "code docs web calc");
        assert_eq!(names(vec![tool("code", "code"), tool("calc", "expression")], 3), "code docs web");
        assert_eq!(names(vec![], 3), "docs web calc");
        assert_eq!((names(vec![tool("calc", "expression")], 1), names(vec![], 0)), ("docs".into(), String::new()));
    }

    #[test]
    fn a_hint_counts_only_if_the_server_is_trusted() {
        let hints = |read_only, destructive| Hints { read_only, destructive, ..Hints::default() };
        let cases = [(hints(Some(true), None), (true, false)), (hints(None, Some(false)), (false, false)), (hints(None, None), (false, true))];
        for (hints, trusted) in cases {
            let listed = |is_trusted| {
                let selected = tool_json(&ToolInfo { hints, is_trusted, server: "notes".into(), ..ToolInfo::default() });
                assert_eq!(selected["server"], "notes");
                (selected["read_only"] == true, selected["destructive"] == true)
            };
            assert_eq!(listed(true), trusted, "{hints:?}");
            assert_eq!(listed(false), (false, true), "{hints:?}");
        }
    }

    #[tokio::test]
    async fn a_tool_of_no_known_server_asks_only_after_results_were_read() {
        let handler = |allowed: &[&str]| ToolHandler::new(Tools::builder().build(), allowed.iter().map(|&name| name.to_owned()).collect());
        let mut jobs = scripted::jobs(&[graph::tool("mail.send", json!({})), graph::tool(LIST, json!({}))]);
        assert_eq!(handler(&[]).objection(&jobs[0]), None, "the call fails, and nothing of it is foreign");
        jobs.iter_mut().for_each(|job| job.is_tainted = true);
        assert!(handler(&[]).objection(&jobs[0]).is_some());
        assert_eq!(handler(&[]).objection(&jobs[1]), None, "listing tools changes nothing");
        for allowed in ["mail", "mail.send"] {
            assert_eq!(handler(&[allowed]).objection(&jobs[0]), None, "{allowed}");
        }
    }

    struct Scripted;

    impl Entailment for Scripted {
        fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement> {
            let one = |pair: &Pair<'_>| Judgement { supported: if pair.evidence.contains(pair.claim) { 1.0 } else { 0.0 }, contradicted: 0.0 };
            pairs.iter().map(one).collect()
        }

        fn judge_answer(&self, answer: &ShortAnswer) -> Option<f32> {
            Some(if answer.answer == "cat" { 1.0 } else { 0.0 })
        }

        fn weights(&self) -> DecisionWeights {
            DecisionWeights { model: 1.0, ..DecisionWeights::default() }
        }
    }

    #[tokio::test]
    async fn pairs_are_judged_by_the_model_that_was_handed_in() {
        let pairs = [("the cat sleeps", "cat"), ("the cat sleeps", "dog")].map(|(evidence, claim)| Pair { evidence, claim });
        let calls = [json!(JudgeRequest::new(pairs.into_iter())), json!({ "texts": [], "claims": [], "pairs": [[0, 0]] }), json!({})];
        let jobs = scripted::jobs(&calls.map(|arguments| graph::tool(JUDGE, arguments)));
        let handler = || ToolHandler::new(Tools::builder().build(), Vec::new());
        let judging = handler().with_judge(|| Ok(&Scripted));
        assert_eq!((judging.repeatability(&jobs[0]), judging.objection(&jobs[0])), (Repeatability::Repeatable, None));
        let value = judging.perform(&jobs[0], &Progress::nowhere()).await.result.unwrap();
        let reply: JudgeReply = serde_json::from_value(value).unwrap();
        assert_eq!((reply.judgements.iter().map(|one| one.supported).collect::<Vec<_>>(), reply.answered), (vec![1.0, 0.0], None));
        for (answer, answered) in [("cat", 1.0), ("dog", 0.0)] {
            let request = JudgeRequest::new(pairs.into_iter()).with_answer(Some(ShortAnswer { answer: answer.to_owned(), ..ShortAnswer::default() }));
            let jobs = scripted::jobs(&[graph::tool(JUDGE, json!(request))]);
            let value = judging.perform(&jobs[0], &Progress::nowhere()).await.result.unwrap();
            assert_eq!(serde_json::from_value::<JudgeReply>(value).unwrap().answered, Some(answered));
        }
        for job in &jobs[1..] {
            assert_eq!(judging.perform(job, &Progress::nowhere()).await.result.unwrap_err().kind, FailureKind::Invalid);
        }
        for without in [handler(), handler().with_judge(|| Err("no weights".to_owned()))] {
            assert_eq!(without.perform(&jobs[0], &Progress::nowhere()).await.result.unwrap_err().kind, FailureKind::Refused);
        }
    }
}
