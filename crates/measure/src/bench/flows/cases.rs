//! Input of each flow, and the replies of its models and tools: enough text that prompts, evidence and answers have a typical size.

use std::collections::BTreeMap;
use std::sync::Arc;

use effects::EffectHandler;
use evidence::Trust;
use mcp_hub::{LIST, ToolHandler, Tools};
use serde_json::{Value, json};

pub(super) struct Case {
    pub(super) flow: &'static str,
    pub(super) input: Value,
    pub(super) replies: BTreeMap<&'static str, Value>,
}

pub(super) fn all() -> Vec<Case> {
    vec![search(), chat(), reason(), panel(), direct(), auto()]
}

/// The tasks of a search, and the length of the longest chain.
pub(super) struct Plan {
    tasks: Vec<Value>,
    pub(super) longest: u32,
}

pub(super) fn search() -> Case {
    search_with(&plan(&[1, 1, 1]))
}

pub(super) fn search_with(plan: &Plan) -> Case {
    let answer = "<p>The log is replayed from the last checkpoint [1]. A commit is one fsync and a little more [2].</p>";
    let replies = [
        ("plan", json!({ "reasoning": "Several aspects must be looked up.", "tasks": plan.tasks })),
        ("synthesis", json!({ "reasoning": "Two passages say so.", "response_content": answer })),
    ];
    case("search", input(QUESTION, json!({})), replies)
}

/// Plans of different widths: independent tasks, chains, and both.
pub(super) fn plans() -> Vec<Plan> {
    vec![plan(&[1; 8]), plan(&[4]), plan(&[3, 1, 2, 1, 1]), plan(&[2, 2, 2, 2])]
}

/// Chains of so many tasks each, in which a task uses the result of the one before.
fn plan(chains: &[u32]) -> Plan {
    let mut tasks = Vec::new();
    for chain in chains {
        for place in 0..*chain {
            let before = if place > 0 { format!(" after {{{{{}.title}}}}", tasks.len()) } else { String::new() };
            let tool = if tasks.len() % 2 == 0 { "docs.search" } else { "stories.search" };
            let number = tasks.len() + 1;
            let arguments = json!({ "query": format!("aspect {number} of the log{before}") });
            tasks.push(json!({ "task_number": number, "tool_name": tool, "tool_arguments": arguments, "description": "an aspect" }));
        }
    }
    Plan { tasks, longest: chains.iter().copied().max().unwrap_or_default() }
}

fn chat() -> Case {
    let replies = [("intent", json!({ "intent": "search" })), ("plan", json!({ "stages": ["search"] })), ("answer", json!(ANSWER))];
    case("chat", input(QUESTION, json!({})), replies)
}

fn reason() -> Case {
    let steps = json!([
        { "description": "how", "tool": "docs.search", "arguments": { "query": "how the log is replayed" } },
        { "description": "how fast", "tool": "stories.search", "arguments": { "query": "how fast a commit is" } },
    ]);
    let reflection = json!({ "goal_achieved": true, "issues_found": [], "plan_adjustments": null, "should_continue": false, "final_response": null });
    let replies = [
        (
            "plan",
            json!({ "analysis": "How a run survives, and how fast.", "steps": steps, "estimated_complexity": "moderate", "success_criteria": ["both are known"] }),
        ),
        ("reflect", reflection),
        ("answer", json!(ANSWER)),
    ];
    case("reason", input("Think it through: how does a run survive a crash, and how fast is a commit?", json!({})), replies)
}

/// A plan of one step, for comparison with the direct path. With `draft` the planner also writes the answer for that result; without it a
/// second call reads the result.
pub(super) fn one_step_reason(draft: Option<&str>) -> Case {
    let steps = json!([{ "description": "how", "tool": "docs.search", "arguments": { "query": "how the log is replayed" } }]);
    let plan = json!({
        "analysis": "How a run survives a crash.", "steps": steps, "estimated_complexity": "simple", "success_criteria": ["it is known"],
        "answer": draft, "ask_user": null,
    });
    case("reason", input("Find out how a run survives a crash.", json!({})), [("plan", plan), ("answer", json!(ANSWER))])
}

fn panel() -> Case {
    let replies = [
        ("plan", json!({ "research_steps": ["How the log is replayed", "How fast a commit is"], "expert_steps": ["Put both together"] })),
        ("critic", json!({ "decision": "approve", "feedback": "" })),
        ("tools", json!({ "calls": [{ "tool": "docs.search", "arguments": { "query": "log" } }] })),
        ("research", json!(ANSWER)),
        ("expert", json!({ "expert_answer": ANSWER, "expert_reasoning": "The research says so." })),
        ("answer", json!(ANSWER)),
        ("trace", json!({ "final_reasoning_trace": "It was looked up, and put together." })),
    ];
    case("panel", input(QUESTION, json!({})), replies)
}

fn direct() -> Case {
    case("direct", input(QUESTION, json!({ "docs": true })), [("answer", json!(ANSWER))])
}

fn auto() -> Case {
    let search = search();
    let flows = json!({ "flows": ["direct", "search", "chat", "reason", "panel"] });
    Case { flow: "auto", input: input("Please look up how a run survives a crash.", json!({ "settings": flows })), ..search }
}

const QUESTION: &str = "How does a run survive a crash, and how fast is a commit?";
const ANSWER: &str = "The log is replayed from the last checkpoint [1]. A commit is one fsync and a little more [2].";

fn input(question: &str, more: Value) -> Value {
    let mut input = json!({ "question": question, "model": { "is_small": false, "context_tokens": 32_768 } });
    if let (Value::Object(fields), Value::Object(more)) = (&mut input, more) {
        fields.extend(more);
    }
    input
}

fn case<const N: usize>(flow: &'static str, input: Value, replies: [(&'static str, Value); N]) -> Case {
    let mut replies = BTreeMap::from(replies);
    for tool in ["docs.search", "stories.search", "search.search"] {
        replies.insert(tool, found(tool));
    }
    replies.insert(LIST, listed());
    Case { flow, input, replies }
}

/// Five passages of about eighty words, like those of a document server.
fn found(tool: &str) -> Value {
    let passage = |number: usize| {
        let words =
            format!("Passage {number} of {tool} says how the log is written before anything else is told, and why that is enough. ").repeat(4);
        let text = format!("After crash {number} the log is replayed from the last checkpoint; a commit is one fsync and a little more. {words}");
        json!({ "title": format!("Chapter {number}"), "address": format!("docs/{number}.md"), "text": text })
    };
    let passages: Vec<Value> = (1..=5).map(passage).collect();
    let text = passages.iter().filter_map(|passage| passage["text"].as_str()).collect::<Vec<_>>().join("\n\n");
    json!(evidence::found(tool, Trust::Own, &text, Some(&json!({ "passages": passages, "confidence": 0.8 }))))
}

fn listed() -> Value {
    let schema = json!({
        "type": "object", "required": ["query"], "additionalProperties": false,
        "properties": { "query": { "type": "string", "description": "what to look for" }, "size": { "type": "integer" } },
    });
    let tool = |name: &str| json!({ "name": name, "description": "Finds passages.", "schema": schema, "read_only": true, "destructive": false });
    json!({ "text": "tools", "data": { "tools": [tool("docs.search"), tool("stories.search"), tool("search.search")] }, "spans": [] })
}

/// The built-in servers, as far as they need no settings.
pub(super) fn hub() -> Arc<dyn EffectHandler> {
    let hub = service::hub::with_builtins(Tools::builder(), &tools::Settings::bare());
    Arc::new(ToolHandler::new(hub.build(), Vec::new()))
}
