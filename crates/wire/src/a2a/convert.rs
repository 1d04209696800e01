//! Messages of gRPC to and from those of JSON. What one form cannot have is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::card::{AgentCard, Interface, Skill};
use super::{
    Artifact, ArtifactUpdate, Authentication, ListTasks, Message, Part, PushConfig, PushQuery, Role, SendConfiguration, SendMessage, StatusUpdate,
    StreamResponse, Task, TaskList, TaskQuery, TaskState, TaskStatus, proto,
};
use crate::timestamp;
use proto::part::Content;
use proto::stream_response::Payload;
use proto::value::Kind;

/// Converts every element of a list.
fn each<A: Into<B>, B>(list: Vec<A>) -> Vec<B> {
    list.into_iter().map(Into::into).collect()
}

impl From<Value> for proto::Value {
    fn from(value: Value) -> Self {
        proto::Value {
            kind: Some(match value {
                Value::Null => Kind::NullValue(0),
                Value::Bool(value) => Kind::BoolValue(value),
                Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
                Value::String(text) => Kind::StringValue(text),
                Value::Array(values) => Kind::ListValue(proto::ListValue { values: each(values) }),
                Value::Object(fields) => Kind::StructValue(fields.into()),
            }),
        }
    }
}

impl From<proto::Value> for Value {
    fn from(value: proto::Value) -> Self {
        match value.kind {
            None | Some(Kind::NullValue(_)) => Value::Null,
            Some(Kind::BoolValue(value)) => Value::Bool(value),
            Some(Kind::NumberValue(number)) => number_of(number),
            Some(Kind::StringValue(text)) => Value::String(text),
            Some(Kind::ListValue(list)) => Value::Array(each(list.values)),
            Some(Kind::StructValue(fields)) => Value::Object(fields.into()),
        }
    }
}

/// Protobuf has one kind of number. Whole ones become integers again, as far as they are exact.
fn number_of(number: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    match number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        true => Value::from(number as i64),
        // Infinity and NaN are no JSON.
        false => Number::from_f64(number).map_or(Value::Null, Value::Number),
    }
}

impl From<Map<String, Value>> for proto::Struct {
    fn from(fields: Map<String, Value>) -> Self {
        proto::Struct { fields: fields.into_iter().map(|(name, value)| (name, value.into())).collect() }
    }
}

impl From<proto::Struct> for Map<String, Value> {
    fn from(fields: proto::Struct) -> Self {
        fields.fields.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

fn to_timestamp(text: &str) -> Option<proto::Timestamp> {
    let ms = timestamp::parse(text)?;
    Some(proto::Timestamp { seconds: ms.div_euclid(1_000), nanos: i32::try_from(ms.rem_euclid(1_000) * 1_000_000).ok()? })
}

fn from_timestamp(at: &proto::Timestamp) -> Option<String> {
    let ms = at.seconds.checked_mul(1_000)?.checked_add(i64::from(at.nanos) / 1_000_000)?;
    Some(timestamp::shown(ms))
}

impl From<TaskState> for proto::TaskState {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Unspecified => proto::TaskState::Unspecified,
            TaskState::Submitted => proto::TaskState::Submitted,
            TaskState::Working => proto::TaskState::Working,
            TaskState::Completed => proto::TaskState::Completed,
            TaskState::Failed => proto::TaskState::Failed,
            TaskState::Canceled => proto::TaskState::Canceled,
            TaskState::InputRequired => proto::TaskState::InputRequired,
            TaskState::Rejected => proto::TaskState::Rejected,
            TaskState::AuthRequired => proto::TaskState::AuthRequired,
        }
    }
}

impl From<proto::TaskState> for TaskState {
    fn from(state: proto::TaskState) -> Self {
        match state {
            proto::TaskState::Unspecified => TaskState::Unspecified,
            proto::TaskState::Submitted => TaskState::Submitted,
            proto::TaskState::Working => TaskState::Working,
            proto::TaskState::Completed => TaskState::Completed,
            proto::TaskState::Failed => TaskState::Failed,
            proto::TaskState::Canceled => TaskState::Canceled,
            proto::TaskState::InputRequired => TaskState::InputRequired,
            proto::TaskState::Rejected => TaskState::Rejected,
            proto::TaskState::AuthRequired => TaskState::AuthRequired,
        }
    }
}

/// A state that is not known here is unspecified.
fn state_of(number: i32) -> TaskState {
    proto::TaskState::try_from(number).unwrap_or_default().into()
}

impl From<Part> for proto::Part {
    fn from(part: Part) -> Self {
        let Part { text, raw, url, data, metadata, filename, media_type } = part;
        let content = text
            .map(Content::Text)
            .or_else(|| raw.and_then(|raw| STANDARD.decode(raw).ok()).map(Content::Raw))
            .or_else(|| url.map(Content::Url))
            .or_else(|| data.map(|data| Content::Data(data.into())));
        proto::Part { content, metadata: metadata.map(Into::into), filename, media_type }
    }
}

impl From<proto::Part> for Part {
    fn from(part: proto::Part) -> Self {
        let proto::Part { content, metadata, filename, media_type } = part;
        let mut read = Part { metadata: metadata.map(Into::into), filename, media_type, ..Part::default() };
        match content {
            None => {}
            Some(Content::Text(text)) => read.text = Some(text),
            Some(Content::Raw(bytes)) => read.raw = Some(STANDARD.encode(bytes)),
            Some(Content::Url(url)) => read.url = Some(url),
            Some(Content::Data(data)) => read.data = Some(data.into()),
        }
        read
    }
}

impl From<Message> for proto::Message {
    fn from(message: Message) -> Self {
        let Message { message_id, context_id, task_id, role, parts, metadata, extensions, reference_task_ids } = message;
        let role = match role {
            Role::Unspecified => proto::Role::Unspecified,
            Role::User => proto::Role::User,
            Role::Agent => proto::Role::Agent,
        };
        let (parts, metadata) = (each(parts), metadata.map(Into::into));
        proto::Message { message_id, context_id, task_id, role: role.into(), parts, metadata, extensions, reference_task_ids }
    }
}

impl From<proto::Message> for Message {
    fn from(message: proto::Message) -> Self {
        let role = match message.role() {
            proto::Role::Unspecified => Role::Unspecified,
            proto::Role::User => Role::User,
            proto::Role::Agent => Role::Agent,
        };
        let proto::Message { message_id, context_id, task_id, role: _, parts, metadata, extensions, reference_task_ids } = message;
        let (parts, metadata) = (each(parts), metadata.map(Into::into));
        Message { message_id, context_id, task_id, role, parts, metadata, extensions, reference_task_ids }
    }
}

impl From<TaskStatus> for proto::TaskStatus {
    fn from(TaskStatus { state, message, timestamp }: TaskStatus) -> Self {
        let state = proto::TaskState::from(state).into();
        proto::TaskStatus { state, message: message.map(Into::into), timestamp: to_timestamp(&timestamp) }
    }
}

impl From<proto::TaskStatus> for TaskStatus {
    fn from(status: proto::TaskStatus) -> Self {
        let timestamp = status.timestamp.as_ref().and_then(from_timestamp).unwrap_or_default();
        TaskStatus { state: state_of(status.state), message: status.message.map(Into::into), timestamp }
    }
}

impl From<Artifact> for proto::Artifact {
    fn from(Artifact { artifact_id, name, description, parts, metadata }: Artifact) -> Self {
        proto::Artifact { artifact_id, name, description, parts: each(parts), metadata: metadata.map(Into::into) }
    }
}

impl From<proto::Artifact> for Artifact {
    fn from(proto::Artifact { artifact_id, name, description, parts, metadata }: proto::Artifact) -> Self {
        Artifact { artifact_id, name, description, parts: each(parts), metadata: metadata.map(Into::into) }
    }
}

impl From<Task> for proto::Task {
    fn from(Task { id, context_id, status, artifacts, history, metadata }: Task) -> Self {
        let (artifacts, history) = (each(artifacts.unwrap_or_default()), each(history));
        proto::Task { id, context_id, status: Some(status.into()), artifacts, history, metadata: metadata.map(Into::into) }
    }
}

impl From<proto::Task> for Task {
    fn from(proto::Task { id, context_id, status, artifacts, history, metadata }: proto::Task) -> Self {
        let status = status.map(Into::into).unwrap_or_default();
        Task { id, context_id, status, artifacts: Some(each(artifacts)), history: each(history), metadata: metadata.map(Into::into) }
    }
}

impl From<StreamResponse> for proto::StreamResponse {
    fn from(response: StreamResponse) -> Self {
        let payload = match response {
            StreamResponse::Task(task) => Payload::Task((*task).into()),
            StreamResponse::Message(message) => Payload::Message(message.into()),
            StreamResponse::StatusUpdate(StatusUpdate { task_id, context_id, status }) => {
                Payload::StatusUpdate(proto::TaskStatusUpdateEvent { task_id, context_id, status: Some(status.into()) })
            }
            StreamResponse::ArtifactUpdate(ArtifactUpdate { task_id, context_id, artifact, append, last_chunk }) => {
                let artifact = Some(artifact.into());
                Payload::ArtifactUpdate(proto::TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk })
            }
        };
        proto::StreamResponse { payload: Some(payload) }
    }
}

impl proto::StreamResponse {
    /// The update in it; `None` if its kind is unknown.
    pub fn into_update(self) -> Option<StreamResponse> {
        Some(match self.payload? {
            Payload::Task(task) => StreamResponse::Task(Box::new(task.into())),
            Payload::Message(message) => StreamResponse::Message(message.into()),
            Payload::StatusUpdate(proto::TaskStatusUpdateEvent { task_id, context_id, status }) => {
                StreamResponse::StatusUpdate(StatusUpdate { task_id, context_id, status: status.map(Into::into).unwrap_or_default() })
            }
            Payload::ArtifactUpdate(update) => {
                let proto::TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk } = update;
                let artifact = artifact.map(Into::into).unwrap_or_default();
                StreamResponse::ArtifactUpdate(ArtifactUpdate { task_id, context_id, artifact, append, last_chunk })
            }
        })
    }
}

impl From<PushConfig> for proto::TaskPushNotificationConfig {
    fn from(PushConfig { tenant, id, task_id, url, token, authentication }: PushConfig) -> Self {
        let authentication = authentication.map(|Authentication { scheme, credentials }| proto::AuthenticationInfo { scheme, credentials });
        proto::TaskPushNotificationConfig { tenant, id, task_id, url, token, authentication }
    }
}

impl From<proto::TaskPushNotificationConfig> for PushConfig {
    fn from(config: proto::TaskPushNotificationConfig) -> Self {
        let proto::TaskPushNotificationConfig { tenant, id, task_id, url, token, authentication } = config;
        let authentication = authentication.map(|proto::AuthenticationInfo { scheme, credentials }| Authentication { scheme, credentials });
        PushConfig { tenant, id, task_id, url, token, authentication }
    }
}

impl From<SendMessage> for proto::SendMessageRequest {
    fn from(SendMessage { tenant, message, configuration, metadata }: SendMessage) -> Self {
        let configuration = configuration.map(|configuration| {
            let SendConfiguration { accepted_output_modes, task_push_notification_config, history_length, return_immediately } = configuration;
            let task_push_notification_config = task_push_notification_config.map(Into::into);
            proto::SendMessageConfiguration { accepted_output_modes, task_push_notification_config, history_length, return_immediately }
        });
        proto::SendMessageRequest { tenant, message: message.map(Into::into), configuration, metadata: metadata.map(Into::into) }
    }
}

impl From<proto::SendMessageRequest> for SendMessage {
    fn from(proto::SendMessageRequest { tenant, message, configuration, metadata }: proto::SendMessageRequest) -> Self {
        let configuration = configuration.map(|configuration| {
            let proto::SendMessageConfiguration { accepted_output_modes, task_push_notification_config, history_length, return_immediately } =
                configuration;
            let task_push_notification_config = task_push_notification_config.map(Into::into);
            SendConfiguration { accepted_output_modes, task_push_notification_config, history_length, return_immediately }
        });
        SendMessage { tenant, message: message.map(Into::into), configuration, metadata: metadata.map(Into::into) }
    }
}

impl From<proto::GetTaskRequest> for TaskQuery {
    fn from(proto::GetTaskRequest { tenant: _, id, history_length }: proto::GetTaskRequest) -> Self {
        TaskQuery { id, history_length }
    }
}

impl From<proto::ListTasksRequest> for ListTasks {
    fn from(request: proto::ListTasksRequest) -> Self {
        let state = state_of(request.status);
        ListTasks {
            context_id: request.context_id,
            status: Some(state).filter(|state| *state != TaskState::Unspecified),
            page_size: request.page_size,
            page_token: request.page_token,
            history_length: request.history_length,
            status_timestamp_after: request.status_timestamp_after.as_ref().and_then(from_timestamp).unwrap_or_default(),
            include_artifacts: request.include_artifacts,
        }
    }
}

impl From<TaskList> for proto::ListTasksResponse {
    fn from(TaskList { tasks, next_page_token, page_size, total_size }: TaskList) -> Self {
        proto::ListTasksResponse { tasks: each(tasks), next_page_token, page_size, total_size }
    }
}

impl From<proto::GetTaskPushNotificationConfigRequest> for PushQuery {
    fn from(request: proto::GetTaskPushNotificationConfigRequest) -> Self {
        PushQuery { task_id: request.task_id, id: request.id }
    }
}

impl From<AgentCard> for proto::AgentCard {
    fn from(card: AgentCard) -> Self {
        let interface = |one: Interface| {
            let Interface { url, protocol_binding, tenant, protocol_version } = one;
            proto::AgentInterface { url, protocol_binding, tenant, protocol_version }
        };
        let skill = |one: Skill| {
            let Skill { id, name, description, tags, examples } = one;
            proto::AgentSkill { id, name, description, tags, examples }
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // Of the schemes there are, ours is a bearer token.
        let scheme = |(name, scheme): (&String, &Value)| {
            let http = scheme.get("httpAuthSecurityScheme")?;
            let http = proto::HttpAuthSecurityScheme { description: text(&http["description"]), scheme: text(&http["scheme"]) };
            Some((name.clone(), proto::SecurityScheme { scheme: Some(proto::security_scheme::Scheme::HttpAuthSecurityScheme(http)) }))
        };
        let scopes = |(name, scopes): (&String, &Value)| {
            let list = scopes["list"].as_array().into_iter().flatten().map(text).collect();
            (name.clone(), proto::StringList { list })
        };
        let requirement =
            |one: &Value| proto::SecurityRequirement { schemes: one["schemes"].as_object().into_iter().flatten().map(scopes).collect() };
        let schemes = card.security_schemes.as_ref().and_then(Value::as_object);
        let requirements = card.security_requirements.as_ref().and_then(Value::as_array);
        proto::AgentCard {
            name: card.name,
            description: card.description,
            supported_interfaces: card.supported_interfaces.into_iter().map(interface).collect(),
            version: card.version,
            capabilities: Some(proto::AgentCapabilities {
                streaming: Some(card.capabilities.streaming),
                push_notifications: Some(card.capabilities.push_notifications),
                extended_agent_card: Some(card.capabilities.extended_agent_card),
            }),
            security_schemes: schemes.into_iter().flatten().filter_map(scheme).collect(),
            security_requirements: requirements.into_iter().flatten().map(requirement).collect(),
            default_input_modes: card.default_input_modes,
            default_output_modes: card.default_output_modes,
            skills: card.skills.into_iter().map(skill).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_the_same_after_a_round_trip_through_protobuf() {
        let request: SendMessage = serde_json::from_value(json!({
            "tenant": "search",
            "message": { "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "extensions": ["e"], "referenceTaskIds": ["r"],
                "parts": [{ "text": "Tides?" }, { "data": { "n": 1, "half": 0.5, "far": 1e300, "list": [null, true, "x", -3] } }, { "raw": "AAEC", "filename": "f", "mediaType": "a/b" },
                    { "url": "https://sea.example", "metadata": { "k": {} } }] },
            "configuration": { "historyLength": 0, "returnImmediately": true, "acceptedOutputModes": ["text/plain"],
                "taskPushNotificationConfig": { "id": "p", "url": "https://a.example", "token": "x", "authentication": { "scheme": "Bearer", "credentials": "y" } } },
            "metadata": { "baton": { "flow": "search", "budget": 20_000 } },
        }))
        .unwrap();
        let bytes = proto::SendMessageRequest::from(request.clone()).encode_to_vec();
        assert_eq!(SendMessage::from(proto::SendMessageRequest::decode(bytes.as_slice()).unwrap()), request);
    }

    #[test]
    fn every_kind_of_event_is_the_same_after_protobuf() {
        for update in [
            json!({ "task": { "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING", "timestamp": "2026-11-16T09:44:00.123Z" },
                "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [{ "text": "x" }], "metadata": { "k": 1 } }], "history": [], "metadata": { "k": "v" } } }),
            json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [] } }),
            json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_INPUT_REQUIRED",
                "message": { "messageId": "q", "role": "ROLE_AGENT", "parts": [{ "text": "Which?" }] } } } }),
            json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": { "artifactId": "a", "parts": [] }, "append": true, "lastChunk": true } }),
        ] {
            let update: StreamResponse = serde_json::from_value(update).unwrap();
            let bytes = proto::StreamResponse::from(update.clone()).encode_to_vec();
            assert_eq!(proto::StreamResponse::decode(bytes.as_slice()).unwrap().into_update(), Some(update));
        }
        assert_eq!(proto::StreamResponse::default().into_update(), None);
    }

    #[test]
    fn values_that_json_cannot_have_are_read_without_harm() {
        let number = |number: f64| Value::from(proto::Value { kind: Some(Kind::NumberValue(number)) });
        assert_eq!((number(f64::NAN), number(f64::INFINITY), number(-0.0)), (Value::Null, Value::Null, json!(0)));
        assert_eq!(from_timestamp(&proto::Timestamp { seconds: i64::MAX, nanos: 0 }), None);
        let unknown = proto::TaskStatus { state: 99, message: None, timestamp: Some(proto::Timestamp { seconds: i64::MIN, nanos: -1 }) };
        assert_eq!(TaskStatus::from(unknown), TaskStatus::default());
        let list = ListTasks::from(proto::ListTasksRequest { status: 3, ..proto::ListTasksRequest::default() });
        assert_eq!((list.status, list.page_size), (Some(TaskState::Completed), None));
    }
}
