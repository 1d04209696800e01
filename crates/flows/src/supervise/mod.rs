//! A supervisor: plans which capabilities a request needs, sends the state to one agent after the other, and checks only whether each reports completion.
//!
//! ```text
//!                                         nothing to do ► end
//!                                             │
//!   start ► discover ──────► plan ────────────┴─► approve ─► supervisor ── next = FINISH ──► end
//!           registry.agents  model, one call      a person,    ▲   │ next = an agent
//!                                                 if asked     │   ▼
//!                                                              │  agent ── it has a question ──► person
//!                                                              └───┘ ▲───────────────────────────┘
//! ```
//!
//! Completion is `completed_capability` in the last message of the called agent, and nothing else; the data beside it is passed on unread. A reply without
//! it, or with another capability, costs a retry of that capability; when they are used up, the work stops with a report. The engine retries an agent
//! that cannot be reached or times out, under the same key, before the flow gets the failure. Finished work stays in the state and is returned to the
//! caller.
//!
//! An agent may need a person. Then it replies with the question under `waiting` in its context; the person here is asked, and the agent is called again
//! with the answer under `answers`.

mod plan;
mod team;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use graph::{Ask, Backoff, END, Effect, Failure, Go, Graph, GraphError, Question, Replies, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::approval::{self, Decision, REVISIONS_MAX};
use crate::descriptor::{Calls, Descriptor, InputKind, Needs, Routing};
use crate::input::{Approve, ModelProfile};
use crate::no_model;
use crate::prompt::{self, Prompt};
use crate::registry::Registry;
use crate::settings::SettingsType;
use crate::turn::{self, Signal, Turn, Visit};

pub use team::{Member, REGISTRY};

/// Descriptor of this flow.
pub const FLOW: Descriptor = Descriptor {
    title: "Carry out a job",
    description: "Researches, writes a document or a mail, and asks before it sends anything",
    routing: Some(Routing {
        purpose: "a job for a team: research and then write a document or send a mail",
        examples: &["Study the market for tea and mail a report to Ron"],
        needs: Needs::Nothing,
        substitutes: &["reason", "search", "direct", "chat"],
        may_be_replaced: false,
    }),
    input: InputKind::Messages,
    calls: Calls::Agents,
    approvals: &["approve"],
    settings: Some(SettingsType::of::<Settings>()),
    ..Descriptor::new("supervise", flow)
};

/// Builds the graph.
pub fn flow(registry: &Registry) -> Result<Graph, GraphError> {
    let (in_team, in_plan, in_supervisor) = (registry.clone(), registry.clone(), registry.clone());
    let fold_team = move |s: &mut Supervise, replies: &Replies<'_>| fold_team(s, replies, &in_team);
    let in_approval = registry.clone();
    let fold_plan = move |s: &mut Supervise, replies: &Replies<'_>| fold_plan(s, replies, &in_plan);
    let fold_approval = move |s: &mut Supervise, replies: &Replies<'_>| fold_approval(s, replies, &in_approval);
    let supervise = move |s: &mut Supervise, replies: &Replies<'_>| supervise(s, replies, &in_supervisor);
    Graph::of::<Supervise>("supervise")
        .node("discover", (|_: &Supervise| Ask::one(team::ask()), fold_team), &["plan"])
        .node("plan", (ask_plan, fold_plan), &["approve", "supervisor", END])
        .node("approve", (ask_approval, fold_approval), &["plan", "supervisor", END])
        .node("supervisor", (|_: &Supervise| Ask::nothing(), supervise), &["agent", END])
        .node("agent", (ask_agent, fold_agent), &["supervisor", "person"])
        .node("person", (ask_person, fold_person), &["agent"])
        .calls("agent", registry.specialists().into_iter().map(|specialist| specialist.flow))
        .input(Supervise::of)
        .output(output)
        .recall(turn::recall(HISTORY_TURNS_MAX))
        .build()
}

/// User settings of this flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How often an agent that replies without completing its task is called again.
    #[schemars(range(max = RETRIES_MAX))]
    pub retries_max: u32,
    /// Milliseconds that one call of an agent may take.
    #[schemars(range(min = 1, max = AGENT_MS_MAX))]
    pub agent_ms_max: u64,
    /// How often an agent that cannot be reached is called.
    #[schemars(range(min = 1, max = ATTEMPTS_MAX))]
    pub attempts_max: u32,
    /// Settings for the local flows among the agents, by their names.
    #[schemars(skip)]
    pub each: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { retries_max: 2, agent_ms_max: 15 * 60 * 1_000, attempts_max: 6, each: BTreeMap::new() }
    }
}

const PLAN: Prompt = Prompt { long: include_str!("plan.md"), short: include_str!("plan.small.md") };
const PLAN_TOKENS_MAX: u32 = 300;
const HISTORY_TURNS_MAX: usize = 5;
/// A day.
const AGENT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
const RETRIES_MAX: u32 = 10;
const ATTEMPTS_MAX: u32 = 12;
/// Questions to people that one agent may ask per task.
const QUESTIONS_MAX: u32 = 5;
/// Limit of all messages together; an agent's reply beyond it is refused, so that the next agent can still be given them.
const MESSAGES_BYTES_MAX: usize = 2 << 20;
const CONTEXT_BYTES_MAX: usize = 512 << 10;
/// A supervised agent that was killed restarts within seconds.
const BACKOFF: Backoff = Backoff { first_ms: 400, factor: 2, most_ms: 8_000 };

pub(crate) const FINISH: &str = "FINISH";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Supervise {
    messages: Vec<Turn>,
    context: Map<String, Value>,
    model: ModelProfile,
    approve: Approve,
    settings: Settings,
    team: Vec<Member>,
    /// Capabilities, in order.
    plan: Vec<String>,
    /// The current agent, or `FINISH`.
    next: String,
    current_step_index: usize,
    completed_capabilities: Vec<String>,
    /// Per capability; removed when it is completed.
    retry_counts: BTreeMap<String, u32>,
    /// The result of the last call, until the supervisor has processed it.
    #[serde(rename = "heard")]
    response: AgentResponse,
    questions: u32,
    /// People's answers to the agent's questions, until they are sent.
    answers: Option<Value>,
    /// Why the work ended before the plan did.
    stopped: Option<StoppedAgent>,
    /// The plan that a person wants changed, and their comments on it and on those before it.
    #[serde(default)]
    revised: String,
    #[serde(default)]
    revisions: Vec<String>,
    /// Why the model did not plan, if it is down.
    #[serde(default)]
    model_failure: Option<String>,
    answer: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AgentResponse {
    Nothing,
    /// The agent's last message is the last in `messages`.
    Reply,
    /// The reply is not a state.
    Nonsense(String),
    Failed(Failure),
    /// Questions to a person.
    Asks(Vec<AgentQuestion>),
}

/// A question of an agent's run, as in its context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AgentQuestion {
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    schema: Option<Value>,
    /// Where the answer belongs; returned unchanged.
    #[serde(flatten)]
    place: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoppedAgent {
    capability: String,
    agent: String,
    why: String,
}

impl Supervise {
    fn of(visit: Visit<Settings>) -> Supervise {
        Supervise {
            messages: visit.messages,
            context: visit.context,
            model: visit.model,
            approve: visit.approve,
            settings: visit.settings.unwrap_or_default(),
            team: Vec::new(),
            plan: Vec::new(),
            next: String::new(),
            current_step_index: 0,
            completed_capabilities: Vec::new(),
            retry_counts: BTreeMap::new(),
            response: AgentResponse::Nothing,
            questions: 0,
            answers: None,
            stopped: None,
            revised: String::new(),
            revisions: Vec::new(),
            model_failure: None,
            answer: String::new(),
        }
    }

    fn request(&self) -> String {
        turn::request_text(&self.messages)
    }

    /// The current capability and its agent.
    fn current(&self) -> Option<&Member> {
        let capability = self.plan.get(self.current_step_index)?;
        self.team.iter().find(|member| member.capability == *capability)
    }

    /// The agents of the plan, with their addresses.
    fn agents(&self) -> Vec<Value> {
        let members = self.plan.iter().filter_map(|capability| self.team.iter().find(|member| member.capability == *capability));
        members.map(|member| json!({ "capability": member.capability, "name": member.name, "address": member.address })).collect()
    }

    fn progress(&self) -> Value {
        json!({
            "plan": self.plan,
            "current_step_index": self.current_step_index,
            "completed_capabilities": self.completed_capabilities,
            "retry_counts": self.retry_counts,
        })
    }

    /// The context for the next agent. Fields of the supervisor override whatever an agent wrote there.
    fn agent_context(&self) -> Map<String, Value> {
        let mut context = self.context.clone();
        context.remove("waiting");
        context.remove("answers");
        context.extend(self.answers.clone().map(|answers| ("answers".to_owned(), answers)));
        if let Value::Object(progress) = self.progress() {
            context.extend(progress);
        }
        context.insert("capability".into(), json!(self.plan.get(self.current_step_index)));
        context
    }

    fn stop(&mut self, why: String) -> Go {
        let (capability, agent) = self.current().map(|member| (member.capability.clone(), member.name.clone())).unwrap_or_default();
        let note = json!({ "capability": capability, "agent": agent, "why": why });
        // If the model did not plan and no agent completed its part, there is nothing to report.
        if let Some(failure) = self.model_failure.as_ref().filter(|_| self.completed_capabilities.is_empty()) {
            return no_model::fail("supervise", &format!("{failure}; {why}"), &[]).note("stopped", note);
        }
        self.stopped = Some(StoppedAgent { capability, agent, why });
        self.finish().note("stopped", note)
    }

    fn finish(&mut self) -> Go {
        FINISH.clone_into(&mut self.next);
        self.answer = self.result_text();
        let asked = self.request();
        self.messages.push(Turn::by("supervisor", self.answer.clone()));
        Go::end().note("next", FINISH).say("user", asked).say("assistant", self.answer.clone())
    }

    /// The result of the plan, for people. An agent may add a line about its work under `reports` in the context; its data is not read.
    fn result_text(&self) -> String {
        let line = |capability: &str| {
            let report = self.context.get("reports").and_then(|reports| reports.get(capability)).and_then(Value::as_str).unwrap_or_default();
            let report = evidence::visible(report);
            if report.trim().is_empty() { "done".to_owned() } else { prompt::clipped(report.trim(), REPORT_TOKENS_MAX) }
        };
        let mut lines = Vec::new();
        for (index, capability) in self.plan.iter().enumerate() {
            let result = match &self.stopped {
                _ if index < self.current_step_index => line(capability),
                Some(stopped) if index == self.current_step_index => format!("not done. {}", evidence::visible(&stopped.why)),
                _ => "not tried, because what comes before it is not done".to_owned(),
            };
            let is_tried = index < self.current_step_index || (index == self.current_step_index && self.stopped.is_some());
            let elsewhere = self.team.iter().find(|member| is_tried && member.capability == *capability && !member.address.is_empty());
            let by = elsewhere.map(|member| format!(" ({})", member.name_and_address())).unwrap_or_default();
            lines.push(format!("- **{capability}**{by}: {result}"));
        }
        lines.join("\n")
    }
}

const REPORT_TOKENS_MAX: usize = 600;

fn fold_team(s: &mut Supervise, replies: &Replies<'_>, registry: &Registry) -> Go {
    let (members, failure) = team::read(replies, 0, registry);
    s.team = members;
    let go = Go::to("plan").note("team", json!(s.team));
    match failure {
        Some(failure) => go.note("team_is_local", format!("the agents could not be listed ({failure}), so the flows here do the work")),
        None => go,
    }
}

fn ask_plan(s: &Supervise) -> Ask {
    let team: Vec<Value> = s.team.iter().map(|member| json!({ "capability": member.capability, "about": member.about })).collect();
    let mut messages =
        vec![prompt::system(prompt::render(PLAN.of(&s.model), json!({ "team": team, "revised": s.revised, "revisions": s.revisions })))];
    let (_, before) = s.messages.split_last().map_or((None, &[][..]), |(last, before)| (Some(last), before));
    let earlier: Vec<graph::Message> = before.iter().map(|turn| prompt::message(&turn.role, turn.content.clone())).collect();
    messages.extend(crate::input::fitted(&crate::input::recent(&earlier, HISTORY_TURNS_MAX), s.model.history_tokens() / 2));
    messages.push(prompt::user(prompt::clipped(&s.request(), s.model.question_tokens())));
    let capabilities: Vec<&str> = s.team.iter().map(|member| member.capability.as_str()).collect();
    let schema = json!({
        "type": "object",
        "required": ["plan", "reply"],
        "additionalProperties": false,
        "properties": {
            "plan": { "type": "array", "maxItems": plan::PLAN_MAX, "items": { "type": "string", "enum": capabilities } },
            "reply": { "type": "string", "maxLength": 600 },
        },
    });
    Ask::one(prompt::call("plan", messages, Some(schema), PLAN_TOKENS_MAX).label("planning"))
}

fn fold_plan(s: &mut Supervise, replies: &Replies<'_>, registry: &Registry) -> Go {
    let mut notes = Vec::new();
    let mut reply = String::new();
    match read_plan(replies) {
        Ok(planned) => {
            let was_empty = planned.plan.is_empty();
            let (known, unknown) = plan::restricted(planned.plan, &s.team, registry);
            s.plan = known;
            if !unknown.is_empty() {
                notes.push(("plan_unknown", json!({ "left_out": unknown, "why": "no agent has this capability" })));
            }
            // A plan of unknown capabilities only is not a plan.
            if s.plan.is_empty() && was_empty {
                reply = planned.reply.trim().to_owned();
            }
        }
        Err(failure) => {
            s.model_failure = no_model::is_down(&failure).then(|| failure.message.clone());
            notes.push(("plan_failed", json!(failure.to_string())));
        }
    }
    if s.plan.is_empty() && reply.is_empty() {
        s.plan = plan::by_words(&s.request(), &s.team);
        notes.push(("plan_fallback", json!({ "plan": s.plan, "why": "no usable plan came, so the words of the request decide" })));
    }
    let go = match (s.plan.is_empty(), s.approve, &s.model_failure) {
        (true, _, Some(failure)) => no_model::fail("supervise", failure, &[]),
        (true, _, None) => {
            let reply = if reply.is_empty() { "Nobody on the team can do that.".to_owned() } else { evidence::visible(&reply) };
            FINISH.clone_into(&mut s.next);
            s.answer.clone_from(&reply);
            let asked = s.request();
            s.messages.push(Turn::by("supervisor", reply.clone()));
            Go::end().say("user", asked).say("assistant", reply)
        }
        (false, Approve::Plan, _) => Go::to("approve"),
        (false, Approve::None, _) => Go::to("supervisor"),
    };
    notes.insert(0, ("plan", json!({ "plan": s.plan })));
    notes.into_iter().fold(go, |go, (name, value)| go.note(name, value))
}

/// The plan in the reply, with or without text around it; a bare list is accepted.
fn read_plan(replies: &Replies<'_>) -> Result<plan::Planned, Failure> {
    prompt::read::<plan::Planned>(replies, 0).or_else(|failure| match prompt::read::<Vec<String>>(replies, 0) {
        Ok(plan) => Ok(plan::Planned { plan, reply: String::new() }),
        Err(_) => Err(failure),
    })
}

fn ask_approval(s: &Supervise) -> Ask {
    let prompt = format!("May the team do this for {:?}?\n{}", s.request(), plan_text(s));
    let capabilities: Vec<&str> = s.team.iter().map(|member| member.capability.as_str()).collect();
    Ask::one(approval::request(prompt, &[("plan", json!({ "type": "string", "enum": capabilities }))], None))
}

fn plan_text(s: &Supervise) -> String {
    let steps: Vec<String> = s.plan.iter().enumerate().map(|(at, capability)| format!("{}. {capability}", at + 1)).collect();
    steps.join("\n")
}

fn fold_approval(s: &mut Supervise, replies: &Replies<'_>, registry: &Registry) -> Go {
    #[derive(Default, Deserialize)]
    struct Edited {
        #[serde(default)]
        plan: Option<Vec<String>>,
    }
    let edited = match approval::read::<Edited>(replies, None) {
        Decision::Approved(edited) => edited.plan,
        Decision::Revise(reason) if s.revisions.len() < REVISIONS_MAX => {
            s.revised = plan_text(s);
            s.revisions.push(reason.clone());
            return Go::to("plan").note("approval", json!({ "revise": reason }));
        }
        Decision::Revise(_) => return declined(s, &format!("it was revised {REVISIONS_MAX} times already")),
        Decision::Declined(reason) | Decision::Wrong(reason) => return declined(s, &reason),
    };
    if let Some(wanted) = edited.filter(|plan| !plan.is_empty()) {
        let (known, unknown) = plan::restricted(wanted, &s.team, registry);
        if !unknown.is_empty() {
            return declined(s, &format!("nobody on the team can do {}", unknown.join(", ")));
        }
        s.plan = known;
    }
    Go::to("supervisor").note("approved", true)
}

fn declined(s: &mut Supervise, reason: &str) -> Go {
    s.stop(approval::declined_words("The plan was not approved", reason)).note("approved", false)
}

/// Routing: checks whether the current agent is done, counts retries, and selects the next.
fn supervise(s: &mut Supervise, _: &Replies<'_>, registry: &Registry) -> Go {
    let response = std::mem::replace(&mut s.response, AgentResponse::Nothing);
    let Some((capability, name)) = s.current().map(|member| (member.capability.clone(), member.name.clone())) else {
        return s.finish();
    };
    let incomplete = match response {
        AgentResponse::Nothing | AgentResponse::Asks(_) => None,
        AgentResponse::Reply => match turn::signal(s.messages.last().map_or("", |last| last.content.as_str())) {
            Signal::Completed(completed) if is_same(&completed, &capability, registry) => {
                s.completed_capabilities.push(capability.clone());
                s.retry_counts.remove(&capability);
                s.current_step_index += 1;
                s.questions = 0;
                return route(s).note("completed", json!({ "capability": capability, "agent": name }));
            }
            Signal::Completed(other) => Some(format!("it says that it completed {:?}", other.chars().take(60).collect::<String>())),
            Signal::GivenUp { capability: of, reason } if is_same(&of, &capability, registry) => {
                let why = if reason.trim().is_empty() { format!("{name} says that it cannot") } else { prompt::clipped(reason.trim(), 300) };
                return s.stop(why);
            }
            Signal::GivenUp { .. } | Signal::None => Some("it did not say that it is done".to_owned()),
        },
        AgentResponse::Nonsense(why) => Some(why),
        // The engine has already retried as often as allowed.
        AgentResponse::Failed(failure) => return s.stop(format!("{name} failed: {}", failure.message)),
    };
    let Some(why) = incomplete else { return route(s) };
    let retries = s.retry_counts.entry(capability.clone()).or_default();
    if *retries >= s.settings.retries_max {
        let tries = *retries + 1;
        return s.stop(format!("{name} was asked {tries} times and is not done: {why}."));
    }
    *retries += 1;
    let note = json!({ "capability": capability, "agent": name, "retry": *retries, "why": why });
    route(s).note("retry", note)
}

/// An agent may use another name for the capability, such as `send_email`.
fn is_same(named: &str, capability: &str, registry: &Registry) -> bool {
    named == capability || registry.canonical_capability(named) == capability
}

fn route(s: &mut Supervise) -> Go {
    match s.current().map(|member| member.name.clone()) {
        None => s.finish(),
        Some(name) => {
            s.next.clone_from(&name);
            Go::to("agent").note("next", name)
        }
    }
}

fn ask_agent(s: &Supervise) -> Ask {
    let Some(member) = s.current() else { return Ask::nothing() };
    let mut input = json!({ "messages": s.messages, "next": s.next, "context": s.agent_context() });
    if member.agent == member.name {
        // A local flow gets the same model profile.
        input["model"] = json!(s.model);
        input["settings"] = s.settings.each.get(&member.agent).cloned().unwrap_or_default();
    }
    let call = Request::from(graph::agent(member.agent.as_str(), input)).label(format!("{} ({})", member.name_and_address(), member.capability));
    Ask::one(call.attempts(s.settings.attempts_max).deadline_ms(s.settings.agent_ms_max).backoff(BACKOFF))
}

fn fold_agent(s: &mut Supervise, replies: &Replies<'_>) -> Go {
    s.answers = None;
    s.response = match replies.value(0) {
        Err(failure) => AgentResponse::Failed(failure),
        Ok(reply) => take(s, reply).unwrap_or_else(AgentResponse::Nonsense),
    };
    match s.response {
        AgentResponse::Asks(_) if s.questions < QUESTIONS_MAX => Go::to("person"),
        AgentResponse::Asks(_) => {
            s.response = AgentResponse::Nonsense("it asks people too much".to_owned());
            Go::to("supervisor")
        }
        _ => Go::to("supervisor"),
    }
}

/// Appends the new messages and merges the context; the error explains why it is not a valid reply.
fn take(s: &mut Supervise, reply: &Value) -> Result<AgentResponse, String> {
    #[derive(Deserialize)]
    struct Reply {
        #[serde(default)]
        messages: Vec<Turn>,
        #[serde(default)]
        context: Option<Map<String, Value>>,
    }
    let Reply { messages, context } = Reply::deserialize(reply).map_err(|error| format!("its reply is no state: {error}"))?;
    let mut context = context.unwrap_or_default();
    let asks = context.remove("waiting").and_then(|asks| serde_json::from_value::<Vec<AgentQuestion>>(asks).ok()).filter(|asks| !asks.is_empty());
    let new = new_ones(&s.messages, messages);
    let bytes = |turns: &[Turn]| turns.iter().map(|turn| json!(turn).to_string().len()).sum::<usize>();
    if bytes(&s.messages) + bytes(&new) > MESSAGES_BYTES_MAX {
        return Err(format!("with its messages there would be more than messages_bytes_max = {MESSAGES_BYTES_MAX}"));
    }
    let mut merged = s.context.clone();
    merge(&mut merged, context);
    if json!(merged).to_string().len() > CONTEXT_BYTES_MAX {
        return Err(format!("with its context there would be more than context_bytes_max = {CONTEXT_BYTES_MAX}"));
    }
    s.context = merged;
    if let Some(asks) = asks {
        // The question goes to a person and is not part of the conversation.
        return Ok(AgentResponse::Asks(asks));
    }
    let has_text = new.iter().any(|turn| !turn.content.trim().is_empty());
    s.messages.extend(new);
    if has_text { Ok(AgentResponse::Reply) } else { Err("its reply has no message".to_owned()) }
}

/// An agent replies with its own messages or with the whole conversation; both are common. Messages of role `user` or `system` are dropped:
/// an agent must not speak for the user, least of all about recipients.
fn new_ones(known: &[Turn], result: Vec<Turn>) -> Vec<Turn> {
    let is_same = |a: &Turn, b: &Turn| a.role == b.role && a.content == b.content;
    let has_all = result.len() >= known.len() && known.iter().zip(&result).all(|(a, b)| is_same(a, b));
    let skip = if has_all { known.len() } else { 0 };
    let id = |turn: &Turn| turn.rest.get("wire").and_then(|wire| wire.get("id")).and_then(Value::as_str).map(str::to_owned);
    let is_known = |turn: &Turn| id(turn).is_some_and(|id_of| known.iter().any(|other| id(other).as_deref() == Some(&id_of) && is_same(other, turn)));
    let may_say = |turn: &Turn| !turn.is_a_persons() && turn.role != "system";
    result.into_iter().skip(skip).filter(|turn| may_say(turn) && !is_known(turn)).collect()
}

/// Newer fields win; the reports of several agents are kept side by side.
fn merge(context: &mut Map<String, Value>, newer: Map<String, Value>) {
    for (name, value) in newer {
        match (context.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) if name == "reports" => old.extend(new),
            (_, value) => drop(context.insert(name, value)),
        }
    }
}

fn ask_person(s: &Supervise) -> Ask {
    let AgentResponse::Asks(asks) = &s.response else { return Ask::nothing() };
    let requests = asks.iter().map(|asked| {
        let who = &s.next;
        let prompt = format!("{who} asks: {}", evidence::visible(&asked.prompt));
        Request::from(Effect::AskPerson(Question { prompt, schema: asked.schema.clone() })).label(format!("{who} needs a person"))
    });
    Ask { requests: requests.collect() }
}

fn fold_person(s: &mut Supervise, replies: &Replies<'_>) -> Go {
    let AgentResponse::Asks(asks) = std::mem::replace(&mut s.response, AgentResponse::Nothing) else { return Go::to("agent") };
    s.questions += 1;
    let answers: Vec<Value> = asks
        .into_iter()
        .enumerate()
        .map(|(index, asked)| {
            let mut answer = asked.place;
            answer.insert("value".into(), replies.value(index).cloned().unwrap_or(Value::Null));
            Value::Object(answer)
        })
        .collect();
    s.answers = Some(json!(answers));
    Go::to("agent")
}

/// The final state, and the text for people.
fn output(s: &Supervise) -> Value {
    let mut context = s.agent_context();
    context.remove("capability");
    let mut output = turn::state(&s.messages, &s.next, &context, "supervise", &s.answer);
    output.insert("plain".into(), json!(s.answer));
    output.insert("plan".into(), json!(s.plan));
    output.insert("agents".into(), json!(s.agents()));
    output.insert("completed_capabilities".into(), json!(s.completed_capabilities));
    output.insert("stopped".into(), json!(s.stopped));
    Value::Object(output)
}
