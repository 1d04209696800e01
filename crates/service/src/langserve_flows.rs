//! Every flow for LangServe clients: `/{flow}/invoke` and related routes, and for an agent its own flow at `/graph`.

use std::collections::BTreeMap;
use std::sync::Arc;

use flows::input::ModelProfile;
use flows::{Descriptor, InputKind, Specialist};
use serde_json::{Map, Value, json};
use server::langserve::{FlowSettings, InputShape, ServedFlow};
use wire::langserve::{Capability, Description};

use crate::config::Config;

/// `graph` is the flow at `/graph`.
pub fn all(graph: &str, model: ModelProfile, config: &Config, has_docs: bool) -> BTreeMap<String, ServedFlow> {
    let registry = config.settings.registry();
    let served = |flow: &Descriptor| one(flow, model, config, has_docs);
    let mut all: BTreeMap<String, ServedFlow> = registry.iter().map(|flow| (flow.name.to_owned(), served(flow))).collect();
    all.extend(registry.get(graph).map(|flow| ("graph".to_owned(), served(flow))));
    all
}

fn one(flow: &Descriptor, model: ModelProfile, config: &Config, has_docs: bool) -> ServedFlow {
    let input_shape = match flow.input {
        InputKind::Messages => InputShape::Agent,
        InputKind::Question => InputShape::Question,
        InputKind::Own(_) => InputShape::Bare,
    };
    let mut base = Map::new();
    if input_shape != InputShape::Bare {
        base.insert("model".to_owned(), json!(model));
        base.insert("docs".to_owned(), json!(has_docs));
    }
    ServedFlow { flow: flow.name.to_owned(), input_shape, base, settings: settings_of(flow.name, config) }
}

fn settings_of(flow: &str, config: &Config) -> FlowSettings {
    let schema = config.settings.registry().settings_schema(flow);
    let properties = schema.and_then(|mut schema| match schema["properties"].take() {
        Value::Object(properties) => Some(properties),
        _ => None,
    });
    let (configured, flow) = (config.settings.clone(), flow.to_owned());
    let resolve = move |given: Map<String, Value>| configured.settings_for(&flow, &Value::Object(given)).map_err(|error| error.to_string());
    FlowSettings { schema: properties.unwrap_or_default(), resolve: Arc::new(resolve) }
}

/// The content of `agent.json`.
pub fn description(one: &Specialist) -> Description {
    let capability = Capability { name: one.capability.to_owned(), about: one.about.to_owned() };
    Description { name: one.flow.to_owned(), about: one.about.to_owned(), capabilities: vec![capability] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p3_every_flow_has_a_langserve_route_and_starts_from_its_input() {
        let served = all("researcher", ModelProfile::default(), &Config::default(), false);
        assert_eq!((served["graph"].flow.as_str(), served["graph"].input_shape), ("researcher", InputShape::Agent));
        let flows: BTreeMap<String, graph::Graph> = flows::all().unwrap().into_iter().map(|graph| (graph.name().to_owned(), graph)).collect();
        assert_eq!(served.len(), flows.len() + 1);
        for (path, served) in &served {
            let mut input = match served.input_shape {
                InputShape::Agent => json!({ "messages": [{ "role": "user", "content": "hi" }], "next": "", "context": {} }),
                InputShape::Question => json!({ "question": "hi" }),
                InputShape::Bare => continue,
            };
            input.as_object_mut().unwrap().extend(served.base.clone());
            input["settings"] = (served.settings.resolve)(Map::new()).unwrap();
            let started = graph::Run::start(&flows[&served.flow], graph::Start::new(&served.flow, "t", "r", input));
            assert!(started.is_ok(), "{path}: {:?}", started.err());
        }
    }
}
