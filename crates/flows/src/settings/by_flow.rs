//! The settings of the flows in a registry, each with those of the flows it calls.

use serde_json::{Map, Value, json};

use super::{Setting, SettingError, accept, clipped, flatten, overlay};
use crate::registry::Registry;

impl Registry {
    /// The flows that take settings.
    pub fn flows_with_settings(&self) -> impl Iterator<Item = &'static str> {
        self.iter().filter(|flow| flow.settings.is_some()).map(|flow| flow.name)
    }

    /// The settings of a flow, its own first, then those of the flows it calls.
    pub fn settings(&self, flow: &str) -> Vec<Setting> {
        let own = self.declared(flow).unwrap_or_default();
        let of_member = |member: &&str| {
            let prefixed = |setting: Setting| Setting { name: format!("{member}.{}", setting.name), ..setting };
            self.settings(member).into_iter().map(prefixed).collect::<Vec<_>>()
        };
        own.iter().cloned().chain(self.members(flow).iter().flat_map(of_member)).collect()
    }

    /// The list with the values of `configured` (as [`Registry::assemble_settings`] makes it) where those are not the built-in defaults.
    pub fn effective_settings(&self, flow: &str, configured: &Value) -> Vec<Setting> {
        let at = |setting: Setting| match configured.pointer(&setting.pointer()) {
            Some(value) => Setting { default: value.clone(), ..setting },
            None => setting,
        };
        self.settings(flow).into_iter().map(at).collect()
    }

    /// The settings of a flow as a JSON schema; `None` if it has none.
    pub fn settings_schema(&self, flow: &str) -> Option<Value> {
        let all = self.settings(flow);
        if all.is_empty() {
            return None;
        }
        let properties: Map<String, Value> = all.iter().map(|setting| (setting.name.clone(), setting.schema())).collect();
        Some(json!({ "type": "object", "properties": properties, "additionalProperties": false }))
    }

    /// `KEY=VALUE` with the value as the setting's declared type. A list is JSON, or texts separated by commas.
    pub fn parse_setting(&self, flow: &str, pair: &str) -> Result<(String, Value), SettingError> {
        let (key, text) = pair.split_once('=').ok_or_else(|| SettingError::NotAPair { text: pair.to_owned() })?;
        let (key, text) = (key.trim(), text.trim());
        let found = self.settings_named(flow, key)?;
        let mut values: Vec<Value> = found.iter().map(|setting| setting.read(text)).collect();
        values.dedup();
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => {
                accept(&found, key, &value)?;
                Ok((key.to_owned(), value))
            }
            // The text means a different value for each flow that has such a setting.
            _ => {
                let names: Vec<String> = found.iter().map(|setting| setting.name.clone()).collect();
                let (wrong, expected) = found.last().map(|setting| (setting.name.clone(), setting.expected())).unwrap_or_default();
                Err(SettingError::NotForAll { key: key.to_owned(), value: text.to_owned(), names, wrong, expected })
            }
        }
    }

    /// User settings by name, converted to the form of the flow's input: those of other flows are under `each`. `null` means no settings.
    pub fn resolve_settings(&self, flow: &str, settings: &Value) -> Result<Value, SettingError> {
        let fields = match settings {
            Value::Null => return Ok(json!({})),
            Value::Object(fields) => fields,
            _ => return Err(SettingError::NotAnObject { flow: flow.to_owned() }),
        };
        let mut given = Vec::new();
        flatten(fields, "", &mut given);
        // A name with its flow wins over one without.
        given.sort_by_key(|(key, _)| key.matches('.').count());
        let mut resolved = json!({});
        for (key, value) in given {
            // An empty table for a flow.
            if value.is_object() && self.settings(flow).iter().any(|setting| setting.name.starts_with(&format!("{key}."))) {
                continue;
            }
            let found = self.settings_named(flow, &key)?;
            accept(&found, &key, value)?;
            for setting in found {
                setting.put(&mut resolved, value.clone());
            }
        }
        Ok(resolved)
    }

    /// A flow's settings with those of the flows it may call. `own` returns the settings of a flow by name, in the form of
    /// [`Registry::resolve_settings`].
    pub fn assemble_settings(&self, flow: &str, own: &dyn Fn(&str) -> Value) -> Value {
        let mut all = json!({});
        for member in self.members(flow) {
            let of_member = self.assemble_settings(member, own);
            if of_member.as_object().is_some_and(|fields| !fields.is_empty()) {
                all["each"][member] = of_member;
            }
        }
        overlay(&mut all, own(flow));
        all
    }

    /// The settings that a key refers to: the one with that full name, or all whose name ends with it. The flow's own name may precede it.
    fn settings_named(&self, flow: &str, key: &str) -> Result<Vec<Setting>, SettingError> {
        let all = self.settings(flow);
        let key = key.strip_prefix(flow).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key);
        if let Some(exact) = all.iter().find(|setting| setting.name == key) {
            return Ok(vec![exact.clone()]);
        }
        let is_meant = |setting: &&Setting| setting.name.strip_suffix(key).is_some_and(|before| before.ends_with('.'));
        let found: Vec<Setting> = all.iter().filter(is_meant).cloned().collect();
        match (found.is_empty(), all.is_empty(), self.declared(flow)) {
            (false, _, _) => Ok(found),
            (true, true, _) => Err(SettingError::NoSettings { flow: flow.to_owned() }),
            (true, false, None) => {
                Err(SettingError::NoFlow { flow: flow.to_owned(), known: self.flows_with_settings().map(str::to_owned).collect() })
            }
            (true, false, Some(_)) => {
                let known = all.into_iter().map(|setting| setting.name).collect();
                Err(SettingError::Unknown { flow: flow.to_owned(), name: clipped(key), known })
            }
        }
    }
}
