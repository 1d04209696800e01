//! `[server]` of the configuration: limits, and how people sign in.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use server::limits::Limits;
use server::oidc::{Oidc, Settings};

use crate::error::{Result, ServiceError};

/// Section `[server]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSection {
    /// Limits of requests, runs, streams and memory.
    pub limits: Limits,
    /// The provider with which people sign in at the page.
    pub oidc: Option<Settings>,
}

const OIDC: &str = "oidc";

impl<'de> Deserialize<'de> for ServerSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut table = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let oidc = match table.remove(OIDC) {
            Some(value) => {
                let settings: Settings = serde_json::from_value(value).map_err(|error| D::Error::custom(format!("[server.oidc]: {error}")))?;
                settings.check().map_err(D::Error::custom)?;
                Some(settings)
            }
            None => None,
        };
        let limits = Limits::from_table(&table).map_err(|error| D::Error::custom(format!("[server]: {error}")))?;
        Ok(ServerSection { limits, oidc })
    }
}

impl ServerSection {
    /// The provider, with the client's secret from where the configuration names it.
    pub(crate) fn provider(&self, key: &dyn Fn(&str) -> Option<String>) -> Result<Option<Oidc>> {
        let Some(settings) = &self.oidc else { return Ok(None) };
        let wrong = |why: String| ServiceError::Usage(format!("[server.oidc]: client_secret: {why}"));
        let secret = settings.client_secret.as_ref().map(|source| source.find(key)).transpose().map_err(wrong)?;
        Oidc::new(settings.clone(), secret).map(Some).map_err(ServiceError::Usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> std::result::Result<ServerSection, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string())
    }

    #[test]
    fn limits_and_the_provider_stand_side_by_side() {
        let read = section(
            "runs_max = 7\n[oidc]\nissuer = \"https://login.example\"\nclient_id = \"baton\"\nclient_secret = { file = \"/run/secrets/oidc\" }\n",
        )
        .unwrap();
        assert_eq!(read.limits.runs_max, 7);
        assert_eq!(read.oidc.unwrap().user_claim, "preferred_username");
        for (wrong, words) in [
            ("[oidc]\nissuer = \"http://login.example\"\nclient_id = \"b\"\n", "https://"),
            ("[oidc]\nissuer = \"https://login.example\"\n", "client_id is missing"),
            ("[oidc]\nisuer = \"https://login.example\"\n", "isuer"),
            ("[oidc]\nissuer = \"https://login.example\"\nclient_id = \"b\"\nclient_secret = \"abc\"\n", "expected one of"),
            ("runs = 1\n", "there is no limit \"runs\""),
        ] {
            let why = section(wrong).unwrap_err();
            assert!(why.contains(words), "{wrong}: {why}");
        }
    }
}
