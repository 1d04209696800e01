//! Settings of flows: `[flows.NAME]` and `[team]` of the configuration, overlaid by those of a command or a request.
//!
//! The flows declare which settings exist and what values they accept; see `flows::settings`.

use std::collections::BTreeMap;

use flows::settings::{self, Kind, Setting, SettingError};
use flows::{Calls, Registry, Visibility};
use serde_json::{Map, Value, json};
use wire::api;

use crate::config::Team;
use crate::error::{Result, ServiceError};

/// The configured settings, checked, by flow.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    registry: Registry,
    own: BTreeMap<String, Value>,
}

impl Configured {
    /// These flows without configured settings.
    pub fn empty(registry: &Registry) -> Configured {
        Configured { registry: registry.clone(), own: BTreeMap::new() }
    }

    /// `tables` are those of `[flows.NAME]`. The error names the invalid table.
    pub fn new(registry: &Registry, tables: &BTreeMap<String, Value>, team: &Team) -> std::result::Result<Configured, String> {
        let mut own = BTreeMap::new();
        for (flow, set) in team_settings(team).into_iter().filter(|(flow, _)| registry.get(flow).is_some()) {
            let resolved = registry.resolve_settings(flow, &set).map_err(|error| format!("[team]: {error}"))?;
            own.insert(flow.to_owned(), resolved);
        }
        for (flow, table) in tables {
            if !registry.flows_with_settings().any(|known| known == flow) {
                let mut known: Vec<&str> = registry.flows_with_settings().collect();
                // Listed flows first.
                let is_listed = |name: &str| registry.get(name).is_some_and(|flow| flow.visibility == Visibility::Listed);
                known.sort_unstable_by_key(|name| (!is_listed(name), *name));
                return Err(format!("[flows.{flow}]: no flow of that name takes settings; there are: {}", known.join(", ")));
            }
            let resolved = registry.resolve_settings(flow, table).map_err(|error| format!("[flows.{flow}]: {error}"))?;
            settings::overlay(own.entry(flow.clone()).or_insert_with(|| json!({})), resolved);
        }
        Ok(Configured { registry: registry.clone(), own })
    }

    /// The settings of a run of this flow: the configured ones, overlaid by the requested ones. `null` for a flow without settings.
    pub fn settings_for(&self, flow: &str, asked: &Value) -> std::result::Result<Value, SettingError> {
        let asked = self.registry.resolve_settings(flow, asked)?;
        let Some(descriptor) = self.registry.get(flow).filter(|flow| flow.settings.is_some()) else { return Ok(Value::Null) };
        let mut all = self.of(flow);
        if descriptor.calls == Calls::Routed {
            all["flows"] = self.registry.routed().map(|flow| flow.name).collect();
        }
        settings::overlay(&mut all, asked);
        Ok(all)
    }

    /// The settings of a flow, with the configured values as defaults.
    pub fn list(&self, flow: &str) -> Vec<Setting> {
        self.registry.effective_settings(flow, &self.of(flow))
    }

    /// The flows whose settings these are.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn of(&self, flow: &str) -> Value {
        self.registry.assemble_settings(flow, &|flow| self.own.get(flow).cloned().unwrap_or_default())
    }
}

/// The settings that have their own names in `[team]`.
fn team_settings(team: &Team) -> [(&'static str, Value); 2] {
    let given = |fields: [(&str, Option<Value>); 3]| {
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(fields.collect())
    };
    let supervise = given([
        ("agent_ms_max", team.agent_s_max.map(|seconds| json!(seconds.saturating_mul(1_000)))),
        ("attempts_max", team.attempts_max.map(Value::from)),
        ("retries_max", team.retries_max.map(Value::from)),
    ]);
    let mailer = given([("me", team.me.clone().map(Value::from)), ("", None), ("", None)]);
    [(flows::supervise::FLOW.name, supervise), (flows::specialist::mailer::NAME, mailer)]
}

/// `KEY=VALUE` for each setting; the last one of a key counts.
pub(crate) fn parse_all(registry: &Registry, flow: &str, pairs: &[String]) -> Result<Map<String, Value>> {
    pairs.iter().map(|pair| registry.parse_setting(flow, pair).map_err(|error| ServiceError::Usage(error.to_string()))).collect()
}

/// A setting as the API has it.
pub(crate) fn as_api(setting: Setting) -> api::Setting {
    let kind = match setting.kind {
        Kind::Integer => api::SettingKind::Integer,
        Kind::Number => api::SettingKind::Number,
        Kind::Boolean => api::SettingKind::Boolean,
        Kind::Text => api::SettingKind::Text,
        Kind::Choice => api::SettingKind::Choice,
        Kind::List => api::SettingKind::List,
    };
    let Setting { name, default, minimum, maximum, choices, help, .. } = setting;
    api::Setting { name, kind, default, minimum, maximum, choices, help }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(text: &str) -> std::result::Result<Configured, String> {
        #[derive(serde::Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Tables {
            flows: BTreeMap<String, Value>,
            team: Team,
        }
        let tables: Tables = toml::from_str(text).unwrap();
        Configured::new(&Registry::default(), &tables.flows, &tables.team)
    }

    #[test]
    fn s13_a_request_wins_over_the_configuration_and_that_over_the_default() {
        let configured = configured(
            "[flows.search]\nmax_turn_iterations = 2\nenabled_tools = [\"docs\"]\n[flows.panel]\nretry_limit = 3\n[team]\nme = \"ann@example.org\"\nagent_s_max = 60",
        )
        .unwrap();
        let for_search = configured.settings_for("search", &Value::Null).unwrap();
        assert_eq!(for_search, json!({ "max_turn_iterations": 2, "enabled_tools": ["docs"] }));
        let asked = configured.settings_for("search", &json!({ "max_turn_iterations": 5 })).unwrap();
        assert_eq!(asked, json!({ "max_turn_iterations": 5, "enabled_tools": ["docs"] }));
        let auto = configured.settings_for("auto", &json!({ "panel.retry_limit": 1 })).unwrap();
        assert_eq!(auto["flows"], json!(["direct", "search", "chat", "reason", "panel", "supervise"]));
        let each = json!({
            "search": for_search,
            "panel": { "retry_limit": 1 },
            "supervise": { "agent_ms_max": 60_000, "each": { "mailer": { "me": "ann@example.org" } } },
            "report": { "each": { "search": for_search } },
        });
        assert_eq!(auto["each"], each);
        assert_eq!(configured.settings_for("research", &Value::Null).unwrap(), Value::Null);
        assert_eq!(configured.list("search")[0].default, json!(2));
        assert_eq!(Configured::default().settings_for("search", &Value::Null).unwrap(), json!({}));
    }

    #[test]
    fn s13_a_wrong_table_is_named_with_what_can_be_set() {
        for (text, words) in [
            ("[flows.serch]\nx = 1", "[flows.serch]: no flow of that name takes settings; there are: auto, chat, direct, panel"),
            ("[flows.search]\nmax_turns = 1", "[flows.search]: the flow search has no setting \"max_turns\""),
            ("[flows.search]\nmax_turn_iterations = 11", "from 1 to 10"),
            ("[flows.search]\nmax_turn_iterations = \"2\"", "cannot be \"2\""),
            ("[flows]\nsearch = 2", "an object"),
            ("[team]\nattempts_max = 99", "[team]: the setting attempts_max cannot be 99: it is a whole number from 1 to 12"),
        ] {
            let error = configured(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        // Settings of the chosen flow may be in the table of the router.
        let auto = configured("[flows.auto]\nsearch.max_turn_iterations = 4\n[flows.search]\nmax_turn_iterations = 2").unwrap();
        assert_eq!(auto.settings_for("auto", &Value::Null).unwrap()["each"]["search"]["max_turn_iterations"], 4);
        assert_eq!(auto.settings_for("search", &Value::Null).unwrap()["max_turn_iterations"], 2);
    }
}
