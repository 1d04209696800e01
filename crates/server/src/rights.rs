//! What each user of a server may do, as configured: a role, the models and tools, and how much a day.
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
//!
//! [users.eve]
//! groups = ["analysts"]    # beside those that a provider of OpenID Connect lists
//!
//! [groups.analysts]        # the same settings as of a user
//! usd_per_day = 5.0
//! ```
//!
//! What is set for a user by name counts first. Otherwise a user has the most that one of their groups has, and who is in no group that is configured has the rights
//! of `[users.default]`.

use std::collections::BTreeMap;

use graph::UserId;
use serde::{Deserialize, Serialize};

/// Everybody who is not named.
const OTHERS: &str = "default";
/// In a list of models: the one that the server chose.
pub const SERVERS_MODEL: &str = "default";

/// From the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads what is their own: conversations, answers, documents. Starts and changes nothing.
    Viewer,
    /// Starts runs and changes what is their own.
    #[default]
    User,
    /// Also changes what all users share: tools, servers, imports. Does not see other users' data.
    Operator,
}

impl Role {
    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::User => "user",
            Role::Operator => "operator",
        }
    }
}

/// What one user may do. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    /// The role.
    pub role: Role,
    /// Names of models; one that ends with `*` stands for all that begin so, `default` for the server's own.
    pub models: Option<Vec<String>>,
    /// `server.tool`, or a whole server.
    pub tools: Option<Vec<String>>,
    /// US dollars a day, in UTC.
    pub usd_per_day: Option<f64>,
    /// Input and output tokens a day.
    pub tokens_per_day: Option<u64>,
    /// Runs a day, without child runs.
    pub runs_per_day: Option<u64>,
}

impl Rights {
    /// Whether runs of the user may use a model.
    pub fn may_use_model(&self, model: &str, servers_model: Option<&str>) -> bool {
        let fits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => wanted == model || (wanted == SERVERS_MODEL && servers_model.is_none_or(|own| own == model)),
        };
        self.models.as_ref().is_none_or(|models| models.iter().any(fits))
    }

    /// Whether runs of the user may call a tool.
    pub fn may_call(&self, tool: &str) -> bool {
        let server = tool.split_once('.').map_or(tool, |(server, _)| server);
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool || name == server))
    }

    pub(crate) fn usd_micros_per_day(&self) -> Option<u64> {
        self.usd_per_day.map(|usd| (usd * 1e6).round() as u64)
    }

    pub(crate) fn has_budget(&self) -> bool {
        self.usd_per_day.is_some() || self.tokens_per_day.is_some() || self.runs_per_day.is_some()
    }
}

/// A table of the configuration, of a user or a group. Absent values come from the group or the default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    role: Option<Role>,
    groups: Vec<String>,
    models: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    usd_per_day: Option<f64>,
    tokens_per_day: Option<u64>,
    runs_per_day: Option<u64>,
}

impl Table {
    fn check(&self) -> Result<(), String> {
        match self.usd_per_day.is_some_and(|usd| !usd.is_finite() || !(0.0..=1e9).contains(&usd)) {
            true => Err("usd_per_day is an amount such as 2.5".to_owned()),
            false => Ok(()),
        }
    }

    /// What it sets, and the rest of `below`.
    fn over(&self, below: &Rights) -> Rights {
        Rights {
            role: self.role.unwrap_or(below.role),
            models: self.models.clone().or_else(|| below.models.clone()),
            tools: self.tools.clone().or_else(|| below.tools.clone()),
            usd_per_day: self.usd_per_day.or(below.usd_per_day),
            tokens_per_day: self.tokens_per_day.or(below.tokens_per_day),
            runs_per_day: self.runs_per_day.or(below.runs_per_day),
        }
    }
}

impl Rights {
    /// What one of two allows. Absent is everything.
    fn most(&self, other: &Rights) -> Rights {
        fn larger<T: PartialOrd + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.zip(other).map(|(one, other)| if one >= other { one } else { other })
        }
        let both = |one: &Option<Vec<String>>, other: &Option<Vec<String>>| {
            one.as_ref().zip(other.as_ref()).map(|(one, other)| one.iter().chain(other).cloned().collect())
        };
        Rights {
            role: self.role.max(other.role),
            models: both(&self.models, &other.models),
            tools: both(&self.tools, &other.tools),
            usd_per_day: larger(self.usd_per_day, other.usd_per_day),
            tokens_per_day: larger(self.tokens_per_day, other.tokens_per_day),
            runs_per_day: larger(self.runs_per_day, other.runs_per_day),
        }
    }
}

/// Tables of `[users]`, or of `[groups]`, by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Tables(BTreeMap<String, Table>);

/// The users and groups that the configuration names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Users {
    named: BTreeMap<String, Table>,
    groups: BTreeMap<String, Table>,
}

impl Users {
    /// Checks the limits of every table, and that every group that a user is in is defined.
    pub fn new(users: Tables, groups: Tables) -> Result<Users, String> {
        let users = Users { named: users.0, groups: groups.0 };
        for (section, tables) in [("users", &users.named), ("groups", &users.groups)] {
            for (name, table) in tables {
                let wrong = |why: String| format!("[{section}.{name}]: {why}");
                table.check().map_err(wrong)?;
                if section == "groups" && !table.groups.is_empty() {
                    return Err(wrong("a group is in no other group; only users are (groups = […] in [users.NAME])".to_owned()));
                }
                if let Some(unknown) = table.groups.iter().find(|group| !users.groups.contains_key(*group)) {
                    return Err(wrong(format!("there is no group {unknown:?}; add [groups.{unknown}]")));
                }
            }
        }
        Ok(users)
    }

    /// What a user may do who is in these groups, beside those of the configuration. Groups that are not configured say nothing.
    pub fn of(&self, user: &UserId, groups: &[String]) -> Rights {
        let own = self.named.get(user.as_str());
        let all = own.into_iter().flat_map(|own| &own.groups).chain(groups);
        let of_groups = all.filter_map(|name| self.groups.get(name)).map(|group| group.over(&UNLIMITED_USER)).reduce(|one, other| one.most(&other));
        let below = match of_groups {
            Some(rights) => rights,
            None if own.is_none() && *user != UserId::default() => {
                self.named.get(OTHERS).map_or(UNLIMITED_USER, |others| others.over(&UNLIMITED_USER))
            }
            None if own.is_none() => UNLIMITED_OPERATOR,
            // A named user has none of the limits of the others.
            None => UNLIMITED_USER,
        };
        own.map_or(below.clone(), |own| own.over(&below))
    }
}

const UNLIMITED_USER: Rights = unlimited(Role::User);
/// The user of this machine.
const UNLIMITED_OPERATOR: Rights = unlimited(Role::Operator);

const fn unlimited(role: Role) -> Rights {
    Rights { role, models: None, tools: None, usd_per_day: None, tokens_per_day: None, runs_per_day: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn users(users: serde_json::Value, groups: serde_json::Value) -> Result<Users, String> {
        let tables = |value| serde_json::from_value::<Tables>(value).map_err(|error| error.to_string());
        Users::new(tables(users)?, tables(groups)?)
    }

    fn named(value: serde_json::Value) -> Result<Users, String> {
        users(value, json!({}))
    }

    #[test]
    fn everybody_has_the_rights_of_their_name_or_those_of_the_others() {
        let users = named(json!({ "default": { "runs_per_day": 5 }, "ada": { "role": "viewer" }, "eve": { "role": "operator" } })).unwrap();
        let of = |name: &str| users.of(&UserId::from(name), &[]);
        assert_eq!((of("ada").role, of("bob").role, of("eve").role, of("local").role), (Role::Viewer, Role::User, Role::Operator, Role::Operator));
        assert_eq!((of("bob").runs_per_day, of("ada").runs_per_day), (Some(5), None));
        assert_eq!(Users::default().of(&UserId::from("bob"), &[]).role, Role::User);
    }

    #[test]
    fn a_user_has_the_most_that_one_of_their_groups_has() {
        let all = users(
            json!({
                "default": { "runs_per_day": 1, "tools": [] },
                "ada": { "groups": ["readers"] },
                "bob": { "groups": ["writers"], "runs_per_day": 7 },
            }),
            json!({
                "readers": { "role": "viewer", "runs_per_day": 10, "tools": ["docs"], "models": ["default"] },
                "writers": { "runs_per_day": 20, "tools": ["document"], "models": ["ollama/*"], "usd_per_day": 2.5 },
                "admins": { "role": "operator" },
            }),
        );
        let all = all.unwrap();
        let of = |name: &str, groups: &[&str]| all.of(&UserId::from(name), &groups.iter().map(|&group| group.to_owned()).collect::<Vec<_>>());
        assert_eq!((of("ada", &[]).role, of("ada", &[]).runs_per_day), (Role::Viewer, Some(10)));
        let both = of("ada", &["writers"]);
        assert_eq!((both.role, both.runs_per_day, both.usd_per_day), (Role::User, Some(20), None));
        assert!(both.may_call("docs.read") && both.may_call("document.write") && !both.may_call("mail.send"));
        assert_eq!((of("bob", &[]).runs_per_day, of("bob", &[]).usd_per_day), (Some(7), Some(2.5)), "the user's own setting, and the group's");
        // A user who is known only from the provider.
        assert_eq!((of("eve", &["admins"]).role, of("eve", &["admins"]).tools), (Role::Operator, None));
        assert_eq!(of("eve", &["of no meaning here"]), of("eve", &[]), "the rights of the others");
        assert_eq!((of("eve", &[]).runs_per_day, of("eve", &["readers"]).runs_per_day), (Some(1), Some(10)));
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
    fn invalid_rights_are_errors_with_a_reason() {
        for (wrong, words) in [
            (json!({ "ada": { "role": "king" } }), "viewer"),
            (json!({ "ada": { "usd": 1 } }), "usd_per_day"),
            (json!({ "ada": { "usd_per_day": -1.0 } }), "[users.ada]: usd_per_day is an amount"),
            (json!({ "ada": { "groups": ["staff"] } }), "[users.ada]: there is no group \"staff\"; add [groups.staff]"),
        ] {
            let why = named(wrong).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        let why = users(json!({}), json!({ "a": { "groups": ["b"] }, "b": {} })).unwrap_err();
        assert!(why.contains("[groups.a]: a group is in no other group"), "{why}");
    }
}
