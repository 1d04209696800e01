//! What each user of a server may do, as the configuration says: a role, the models and tools, and how much a day.
//!
//! ```toml
//! [users.default]          # everybody who is not named, but for the user of this machine
//! usd_per_day = 1.0
//! runs_per_day = 100
//!
//! [users.ada]
//! role = "viewer"          # viewer, user or operator
//! models = ["default", "ollama/*"]
//! tools = ["docs", "search.search"]
//! ```

use std::collections::BTreeMap;

use graph::UserId;
use serde::{Deserialize, Serialize};

/// Everybody who is not named.
const OTHERS: &str = "default";
/// In a list of models: the one that the server chose.
pub const SERVERS_MODEL: &str = "default";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads what is their own: conversations, answers, documents. Starts and changes nothing.
    Viewer,
    #[default]
    User,
    /// Also changes what all users share: tools, servers, imports. Sees nobody else's data.
    Operator,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::User => "user",
            Role::Operator => "operator",
        }
    }
}

/// What one user may do. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    pub role: Role,
    /// Names of models; one that ends with `*` stands for all that begin so, `default` for the server's own.
    pub models: Option<Vec<String>>,
    /// `server.tool`, or a whole server.
    pub tools: Option<Vec<String>>,
    pub usd_per_day: Option<f64>,
    pub tokens_per_day: Option<u64>,
    pub runs_per_day: Option<u64>,
}

impl Rights {
    pub fn may_use_model(&self, model: &str, servers_model: Option<&str>) -> bool {
        let fits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => wanted == model || (wanted == SERVERS_MODEL && servers_model.is_none_or(|own| own == model)),
        };
        self.models.as_ref().is_none_or(|models| models.iter().any(fits))
    }

    pub fn may_call(&self, tool: &str) -> bool {
        let server = tool.split_once('.').map_or(tool, |(server, _)| server);
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool || name == server))
    }

    pub fn usd_micros_per_day(&self) -> Option<u64> {
        self.usd_per_day.map(|usd| (usd * 1e6).round() as u64)
    }

    pub(crate) fn has_budget(&self) -> bool {
        self.usd_per_day.is_some() || self.tokens_per_day.is_some() || self.runs_per_day.is_some()
    }
}

/// The users that the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "BTreeMap<String, Rights>")]
pub struct Users {
    named: BTreeMap<String, Rights>,
}

impl TryFrom<BTreeMap<String, Rights>> for Users {
    type Error = String;

    fn try_from(named: BTreeMap<String, Rights>) -> Result<Users, String> {
        let wrong = named.iter().find(|(_, rights)| rights.usd_per_day.is_some_and(|usd| !usd.is_finite() || !(0.0..=1e9).contains(&usd)));
        match wrong {
            Some((name, _)) => Err(format!("[users.{name}]: usd_per_day is an amount such as 2.5")),
            None => Ok(Users { named }),
        }
    }
}

impl Users {
    pub fn of(&self, user: &UserId) -> &Rights {
        if let Some(rights) = self.named.get(user.as_str()) {
            return rights;
        }
        match *user == UserId::default() {
            true => &UNLIMITED_OPERATOR,
            false => self.named.get(OTHERS).unwrap_or(&UNLIMITED_USER),
        }
    }
}

static UNLIMITED_USER: Rights = unlimited(Role::User);
/// The user of this machine.
static UNLIMITED_OPERATOR: Rights = unlimited(Role::Operator);

const fn unlimited(role: Role) -> Rights {
    Rights { role, models: None, tools: None, usd_per_day: None, tokens_per_day: None, runs_per_day: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn users(value: serde_json::Value) -> Result<Users, String> {
        serde_json::from_value(value).map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn everybody_has_the_rights_of_their_name_or_those_of_the_others() {
        let users = users(json!({ "default": { "runs_per_day": 5 }, "ada": { "role": "viewer" }, "eve": { "role": "operator" } })).unwrap();
        let role = |name: &str| users.of(&UserId::from(name)).role;
        assert_eq!((role("ada"), role("bob"), role("eve"), role("local")), (Role::Viewer, Role::User, Role::Operator, Role::Operator));
        assert_eq!((users.of(&UserId::from("bob")).runs_per_day, users.of(&UserId::from("ada")).runs_per_day), (Some(5), None));
        assert_eq!(Users::default().of(&UserId::from("bob")).role, Role::User);
    }

    #[test]
    fn models_and_tools_are_named_or_begin_alike() {
        let rights = Rights {
            models: Some(vec!["default".into(), "ollama/*".into(), "openai/small".into()]),
            tools: Some(vec!["docs".into(), "search.search".into()]),
            ..Rights::default()
        };
        for (model, expected) in [("ollama/q", true), ("openai/small", true), ("openai/small-2", false), ("own/model", true), ("other/model", false)]
        {
            assert_eq!(rights.may_use_model(model, Some("own/model")), expected, "{model}");
        }
        for (tool, expected) in [("docs.read", true), ("search.search", true), ("search.other", false), ("mail.send", false)] {
            assert_eq!(rights.may_call(tool), expected, "{tool}");
        }
        assert!(Rights::default().may_use_model("any", None) && Rights::default().may_call("any.tool"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (wrong, words) in [
            (json!({ "ada": { "role": "king" } }), "viewer"),
            (json!({ "ada": { "usd": 1 } }), "usd_per_day"),
            (json!({ "ada": { "usd_per_day": -1.0 } }), "[users.ada]: usd_per_day is an amount"),
        ] {
            let why = users(wrong).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
