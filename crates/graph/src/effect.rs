use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything a flow can request. Deliberately exhaustive: a new kind changes every `match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A language model is to answer.
    CallModel(ModelCall),
    /// A tool is to be called.
    CallTool(ToolCall),
    /// A remote agent, or another flow as a child run.
    CallAgent(AgentCall),
    /// Parks the run until a person answers.
    AskPerson(Question),
}

/// A call of a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCall {
    /// What the call is for: plan, intent, critic… Recordings, budgets and prices are kept by it.
    pub purpose: String,
    /// `None` takes the model the user chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation so far, the question last.
    pub messages: Vec<Message>,
    /// The JSON schema the reply must satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The longest answer; `None` leaves it to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u32>,
    /// `None` leaves it to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// What the model may call by itself. The reply then names the calls; whether to make them is the flow's to decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
}

/// One message of a conversation with a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `evidence`.
    pub role: String,
    /// Its text.
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

/// A tool as it is described to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// What the model calls it.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// `server.tool`
    pub tool: String,
    /// An object that fits the schema of the tool.
    pub arguments: Value,
}

/// A call of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCall {
    /// The name of a flow, or of a remote agent.
    pub agent: String,
    /// What it starts with.
    pub input: Value,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The text they are shown.
    pub prompt: String,
    /// The JSON schema of a valid answer, from which a form can be drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A model call with these messages and no schema.
pub fn model(purpose: impl Into<String>, messages: Vec<Message>) -> Effect {
    Effect::CallModel(ModelCall { purpose: purpose.into(), messages, ..ModelCall::default() })
}

/// A tool call.
pub fn tool(tool: impl Into<String>, arguments: Value) -> Effect {
    Effect::CallTool(ToolCall { tool: tool.into(), arguments })
}

/// A call of a flow or a remote agent.
pub fn agent(agent: impl Into<String>, input: Value) -> Effect {
    Effect::CallAgent(AgentCall { agent: agent.into(), input })
}

/// A question whose answer is free.
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

    /// Its name: the purpose of a model call, the tool, or the agent.
    pub fn name(&self) -> &str {
        match self {
            Effect::CallModel(call) => &call.purpose,
            Effect::CallTool(call) => &call.tool,
            Effect::CallAgent(call) => &call.agent,
            Effect::AskPerson(_) => "person",
        }
    }

    /// Whether a person must answer it.
    pub fn is_for_a_person(&self) -> bool {
        matches!(self, Effect::AskPerson(_))
    }
}
