//! How a [`graph::Context`] (history, preferences, notes) becomes part of a flow's input.
//!
//! ```text
//! Graph::of::<S>(…).recall(context::recall(TURNS))     history and `strict`, for flows that need no more
//! fill(&mut input, &context, messages_max) -> bool     the same by hand; returns whether other people's text was added
//! settings(&mut input) -> &mut Map                     to add to the flow's own settings
//! PREFERENCES                                          preferences of a user, and how they are checked
//! ```
//!
//! Values given by the caller are kept. What is added here is journalled with the input, so each flow takes only what it uses.

use graph::{Context, Message};
use serde_json::{Map, Value, json};

/// A lasting preference of a user.
pub struct Preference {
    /// Its name in `baton memory prefer`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The accepted values.
    pub choices: &'static [&'static str],
}

/// All preferences.
pub const PREFERENCES: [Preference; 3] = [
    Preference {
        name: WAY,
        about: "how to answer what no rule decides: at once, or by planning and looking things up",
        choices: &["direct", "agentic"],
    },
    Preference {
        name: DEPTH,
        about: "how much effort the flow `reason` spends: directly unless a tool is needed, as usual, or always planned and reflected on",
        choices: &["quick", "normal", "deep"],
    },
    Preference { name: STRICT, about: "whether sentences that nothing supports are removed, and not only marked", choices: &["yes", "no"] },
];

/// Direct or agentic.
pub const WAY: &str = "way";
/// The effort of `reason`.
pub const DEPTH: &str = "depth";
const STRICT: &str = "strict";

impl Preference {
    /// The preference of this name.
    pub fn named(name: &str) -> Option<&'static Preference> {
        PREFERENCES.iter().find(|preference| preference.name == name)
    }

    /// The stored form of a choice; `None` if it is not valid.
    pub fn value(&self, choice: &str) -> Option<Value> {
        self.choices.contains(&choice).then(|| match choice {
            "yes" => json!(true),
            "no" => json!(false),
            other => json!(other),
        })
    }
}

/// For flows that need only the history, limited to this many turns.
pub fn recall(turns: usize) -> impl Fn(&mut Value, &Context) -> bool + Send + Sync + 'static {
    move |input, context| fill(input, context, 2 * turns)
}

/// Adds history and preferences to an input; returns whether untrusted text was added.
pub fn fill(input: &mut Value, context: &Context, messages_max: usize) -> bool {
    let Some(fields) = input.as_object_mut() else { return false };
    if let Some(strict) = context.preferences.get(STRICT).filter(|value| value.is_boolean()) {
        fields.entry("strict").or_insert_with(|| strict.clone());
    }
    if fields.contains_key("history") || context.history.is_empty() {
        return false;
    }
    let from = context.history.len().saturating_sub(messages_max);
    fields.insert("history".to_owned(), json!(context.history[from..]));
    true
}

/// The flow's settings in an input, created if missing; `None` if the input is not an object.
pub fn settings(input: &mut Value) -> Option<&mut Map<String, Value>> {
    let settings = input.as_object_mut()?.entry("settings").or_insert(Value::Null);
    if settings.is_null() {
        *settings = json!({});
    }
    settings.as_object_mut()
}

/// The question with the earlier questions it refers to, from an input that is not parsed yet.
pub fn full_question(input: &Value) -> String {
    let question = input.get("question").and_then(Value::as_str).unwrap_or_default();
    let history: Vec<Message> = input.get("history").and_then(|history| serde_json::from_value(history.clone()).ok()).unwrap_or_default();
    crate::follow_up::in_full(question.trim(), &history)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        let message = |n: usize| Message { role: if n.is_multiple_of(2) { "user" } else { "assistant" }.into(), content: n.to_string() };
        let preferences = [("strict".to_owned(), json!(true)), ("way".to_owned(), json!("agentic"))].into();
        Context { history: (0..30).map(message).collect(), turns: 15, preferences, ..Context::default() }
    }

    #[test]
    fn r7_input_of_the_caller_is_kept_and_the_rest_is_filled_in() {
        let mut input = json!({ "question": "q" });
        assert!(fill(&mut input, &context(), 20), "answers are not the user's own words");
        assert_eq!((input["history"].as_array().unwrap().len(), &input["history"][0]["content"], &input["strict"]), (20, &json!("10"), &json!(true)));
        let mut own = json!({ "question": "q", "history": [], "strict": false });
        assert!(!fill(&mut own, &context(), 20));
        assert_eq!(own, json!({ "question": "q", "history": [], "strict": false }));
        let mut first = json!({ "question": "q" });
        assert!(!fill(&mut first, &Context::default(), 20));
        assert_eq!(first, json!({ "question": "q" }));
        assert!(!fill(&mut json!("no input"), &context(), 20));
    }

    #[test]
    fn r7_every_flow_that_people_ask_receives_the_history() {
        let registry = crate::Registry::default();
        for flow in registry.iter() {
            let graph = (flow.graph)(&registry).unwrap();
            let is_asked = !matches!(flow.input, crate::InputKind::Own(_));
            assert_eq!(graph.remembers(), is_asked, "{}", graph.name());
            if is_asked {
                let mut input = json!({ "question": "q" });
                assert!(graph.recall(&mut input, &context()));
                graph::Run::start(&graph, graph::Start::new(graph.name(), "t", "r", input)).unwrap();
            }
        }
    }

    #[test]
    fn r7_preferences_are_of_a_known_kind() {
        let value = |name: &str, choice: &str| Preference::named(name).and_then(|preference| preference.value(choice));
        assert_eq!((value("way", "agentic"), value("strict", "no")), (Some(json!("agentic")), Some(json!(false))));
        assert_eq!((value("way", "sideways"), value("colour", "red")), (None, None));
    }
}
