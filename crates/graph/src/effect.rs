use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything a flow can want from the world. Closed on purpose: a new kind is a tour of the house.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    CallModel(ModelCall),
    CallTool(ToolCall),
    /// A remote agent, or another flow as a child run.
    CallAgent(AgentCall),
    /// Parks the run until somebody answers.
    AskPerson(Question),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCall {
    /// What the call is for: plan, intent, critic… Recordings, budgets and prices are kept by it.
    pub purpose: String,
    /// `None` takes the model the user chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub messages: Vec<Message>,
    /// The JSON schema the reply must satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// What the model may call by itself. The reply then names the calls; whether to make them is the flow's to decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

impl Message {
    /// A message with instructions for the model.
    pub fn system(content: impl Into<String>) -> Self {
        Message { role: "system".to_owned(), content: content.into() }
    }

    /// A message that the model is to answer.
    pub fn user(content: impl Into<String>) -> Self {
        Message { role: "user".to_owned(), content: content.into() }
    }
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCall {
    pub agent: String,
    pub input: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub prompt: String,
    /// The JSON schema of a good answer, for whoever draws the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

pub fn model(purpose: impl Into<String>, messages: Vec<Message>) -> Effect {
    Effect::CallModel(ModelCall { purpose: purpose.into(), messages, ..ModelCall::default() })
}

pub fn tool(tool: impl Into<String>, arguments: Value) -> Effect {
    Effect::CallTool(ToolCall { tool: tool.into(), arguments })
}

pub fn agent(agent: impl Into<String>, input: Value) -> Effect {
    Effect::CallAgent(AgentCall { agent: agent.into(), input })
}

pub fn person(prompt: impl Into<String>) -> Effect {
    Effect::AskPerson(Question { prompt: prompt.into(), schema: None })
}

impl Effect {
    /// The kind, as scripts, cassettes and timelines spell it.
    pub fn kind(&self) -> &'static str {
        match self {
            Effect::CallModel(_) => "model",
            Effect::CallTool(_) => "tool",
            Effect::CallAgent(_) => "agent",
            Effect::AskPerson(_) => "person",
        }
    }

    /// Whom it is addressed to: a purpose, a tool, an agent.
    pub fn name(&self) -> &str {
        match self {
            Effect::CallModel(call) => &call.purpose,
            Effect::CallTool(call) => &call.tool,
            Effect::CallAgent(call) => &call.agent,
            Effect::AskPerson(_) => "person",
        }
    }

    pub fn is_for_a_person(&self) -> bool {
        matches!(self, Effect::AskPerson(_))
    }
}
