//! Every flow as LangServe's clients find it: `/{flow}/invoke` and its siblings, and for an agent its own flow at `/graph`.

use std::collections::BTreeMap;
use std::sync::Arc;

use flows::input::ModelProfile;
use flows::specialist::{self, Specialist};
use serde_json::{Map, Value, json};
use server::langserve::{Dress, FlowSettings, Served};
use wire::langserve::{Capability, Description};

use crate::asking::BEHIND_THE_FRONT_DOOR;
use crate::config::Config;
use crate::exit::Result;
use crate::wiring;

/// `graph` is what `/graph` leads to.
pub(crate) fn all(graph: &str, mind: ModelProfile, config: &Config, has_docs: bool) -> Result<BTreeMap<String, Served>> {
    let mut served: BTreeMap<String, Served> = wiring::flows()?.into_keys().map(|flow| (flow.clone(), one(&flow, mind, config, has_docs))).collect();
    served.insert("graph".to_owned(), one(graph, mind, config, has_docs));
    Ok(served)
}

fn one(flow: &str, mind: ModelProfile, config: &Config, has_docs: bool) -> Served {
    let is_agent = flow == "supervise" || specialist::ALL.iter().any(|one| one.flow == flow);
    let dress = match flow {
        _ if is_agent => Dress::Agent,
        flow if flow == "auto" || BEHIND_THE_FRONT_DOOR.contains(&flow) => Dress::Question,
        _ => Dress::Bare,
    };
    let mut base = Map::new();
    if dress != Dress::Bare {
        base.insert("model".to_owned(), json!(mind));
        base.insert("docs".to_owned(), json!(has_docs));
    }
    Served { flow: flow.to_owned(), dress, base, settings: settings_of(flow, config) }
}

fn settings_of(flow: &str, config: &Config) -> FlowSettings {
    let properties = flows::settings::schema(flow).and_then(|mut schema| match schema["properties"].take() {
        Value::Object(properties) => Some(properties),
        _ => None,
    });
    let (configured, flow) = (config.settings.clone(), flow.to_owned());
    let resolve = move |given: Map<String, Value>| configured.settings_for(&flow, &Value::Object(given)).map_err(|error| error.to_string());
    FlowSettings { schema: properties.unwrap_or_default(), resolve: Arc::new(resolve) }
}

pub(crate) fn description(one: &Specialist) -> Description {
    let capability = Capability { name: one.capability.to_owned(), about: one.about.to_owned() };
    Description { name: one.flow.to_owned(), about: one.about.to_owned(), capabilities: vec![capability] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p3_every_flow_is_served_and_takes_what_it_is_given() {
        let served = all("researcher", ModelProfile::default(), &Config::default(), false).unwrap();
        assert_eq!((served["graph"].flow.as_str(), served["graph"].dress), ("researcher", Dress::Agent));
        let flows = wiring::flows().unwrap();
        assert_eq!(served.len(), flows.len() + 1);
        for (path, served) in &served {
            let mut input = match served.dress {
                Dress::Agent => json!({ "messages": [{ "role": "user", "content": "hi" }], "next": "", "context": {} }),
                Dress::Question => json!({ "question": "hi" }),
                Dress::Bare => continue,
            };
            input.as_object_mut().unwrap().extend(served.base.clone());
            input["settings"] = (served.settings.resolve)(Map::new()).unwrap();
            let started = graph::Run::start(&flows[&served.flow], graph::Start::new(&served.flow, "t", "r", input));
            assert!(started.is_ok(), "{path}: {:?}", started.err());
        }
    }
}
