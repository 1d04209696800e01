//! Every flow as LangServe's clients find it: `/{flow}/invoke` and its siblings, and for an agent its own flow at `/graph`.

use std::collections::BTreeMap;

use flows::input::Mind;
use flows::specialist::{self, Specialist};
use serde_json::{Map, Value, json};
use server::langserve::{Dress, Served};
use wire::langserve::{Capability, Description};

use crate::asking::BEHIND_THE_FRONT_DOOR;
use crate::config::Config;
use crate::exit::Result;
use crate::wiring;

/// `graph` is what `/graph` leads to.
pub(crate) fn all(graph: &str, mind: Mind, config: &Config, has_docs: bool) -> Result<BTreeMap<String, Served>> {
    let mut served: BTreeMap<String, Served> = wiring::flows()?.into_keys().map(|flow| (flow.clone(), one(&flow, mind, config, has_docs))).collect();
    served.insert("graph".to_owned(), one(graph, mind, config, has_docs));
    Ok(served)
}

fn one(flow: &str, mind: Mind, config: &Config, has_docs: bool) -> Served {
    let is_agent = flow == "supervise" || specialist::ALL.iter().any(|one| one.flow == flow);
    let dress = match flow {
        _ if is_agent => Dress::Agent,
        flow if flow == "auto" || BEHIND_THE_FRONT_DOOR.contains(&flow) => Dress::Question,
        _ => Dress::Bare,
    };
    let settings = match flow {
        "auto" => json!({ "flows": BEHIND_THE_FRONT_DOOR, "each": { "supervise": config.settings_of("supervise") } }),
        flow => config.settings_of(flow),
    };
    let mut base = Map::new();
    if dress != Dress::Bare {
        base.insert("model".to_owned(), json!(mind));
        base.insert("docs".to_owned(), json!(has_docs));
        if settings != Value::Null {
            base.insert("settings".to_owned(), settings);
        }
    }
    Served { flow: flow.to_owned(), dress, base }
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
        let served = all("researcher", Mind::default(), &Config::default(), false).unwrap();
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
            let started = graph::Run::start(&flows[&served.flow], graph::Start::new(&served.flow, "t", "r", input));
            assert!(started.is_ok(), "{path}: {:?}", started.err());
        }
    }
}
