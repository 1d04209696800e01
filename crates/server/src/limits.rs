//! Limits that the operator of a server can set: `[server]` in the configuration. Each is declared once, in the list below.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One limit, as help texts and errors show it. Every limit is an integer.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The key in `[server]`.
    pub name: &'static str,
    /// The value if the configuration has none.
    pub default: u64,
    /// The smallest allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
    /// What it limits.
    pub help: &'static str,
}

macro_rules! limits {
    ($($(#[doc = $help:literal])+ $name:ident = $default:expr, $min:expr => $max:expr;)+) => {
        /// The limits of one server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($name: $default),+ }
            }
        }

        /// All limits, in the order in which they are shown.
        pub const ALL: &[Limit] = &[
            $(Limit { name: stringify!($name), default: $default, min: $min, max: $max, help: concat!($($help),+) }),+
        ];

        impl Limits {
            /// The value of a limit by its name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            fn field(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

limits! {
    /// Requests of one user per second, over time.
    requests_per_second_max = 200, 1 => 1_000_000;
    /// Requests of one user in one moment, after a pause.
    requests_burst_max = 1_000, 1 => 1_000_000;
    /// Requests of all users per second.
    requests_per_second_total_max = 20_000, 1 => 1_000_000;
    /// Requests of one user that are handled at the same time.
    requests_at_once_max = 256, 1 => 100_000;
    /// Runs of one user at the same time.
    runs_max = 32, 1 => 100_000;
    /// Runs of all users at the same time; further ones wait.
    runs_total_max = 1_024, 1 => 100_000;
    /// Times in a row that the process driving a run may end before the run makes progress; then the run is ended as crashed.
    takeovers_max = 10, 1 => 1_000;
    /// Open event streams of one user.
    streams_max = 64, 1 => 100_000;
    /// Open event streams of all users.
    streams_total_max = 3_072, 1 => 1_000_000;
    /// Connections; never more than three quarters of the process's limit of open files.
    connections_max = 4_096, 1 => 1_000_000;
    /// Connections from one address other than this machine (of IPv6, from one /64 network).
    connections_per_address_max = 512, 1 => 1_000_000;
    /// Seconds for the headers of a request, and between two requests of a connection.
    header_seconds_max = 10, 1 => 300;
    /// Bytes of a JSON body of the API.
    body_bytes_max = MIB, 1_024 => GIB;
    /// Bytes of a JSON body of LangServe's routes.
    langserve_body_bytes_max = 4 * MIB, 1_024 => GIB;
    /// Bytes of one uploaded document.
    upload_bytes_max = 20 * MIB, 1_024 => GIB;
    /// Bytes of request bodies of one user in memory at the same time; the same for long responses that were not read yet.
    bodies_bytes_max = 32 * MIB, 1_024 => 64 * GIB;
    /// Bytes of request bodies of all users in memory at the same time, of which one user has at most as many as are free; the same for long responses.
    bodies_bytes_total_max = 128 * MIB, 1_024 => 64 * GIB;
    /// Bytes of documents that one user has uploaded.
    uploads_bytes_max = 500 * MIB, 1_024 => 1_024 * GIB;
    /// Bytes of conversations stored for one user; a user with more can start no run until some are deleted.
    stored_bytes_max = 2 * GIB, MIB => 1_024 * GIB;
}

/// Why `[server]` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum LimitError {
    #[error("there is no limit {name:?}; there are: {}", names())]
    Unknown { name: String },
    #[error("{name} is an integer from {min} to {max}, not {given}")]
    Value { name: &'static str, min: u64, max: u64, given: String },
    #[error("{larger} ({bytes} bytes) is more than {name} allows ({most} bytes); raise {name}")]
    Contradiction { name: &'static str, most: u64, larger: &'static str, bytes: u64 },
}

impl Limits {
    /// The defaults, with what a table of the configuration sets.
    pub fn from_table(table: &BTreeMap<String, Value>) -> Result<Limits, LimitError> {
        let mut limits = Limits::default();
        for (name, value) in table {
            let Some(limit) = ALL.iter().find(|limit| limit.name == name) else { return Err(LimitError::Unknown { name: name.clone() }) };
            let wrong = || LimitError::Value { name: limit.name, min: limit.min, max: limit.max, given: value.to_string() };
            let value = value.as_u64().filter(|value| (limit.min..=limit.max).contains(value)).ok_or_else(wrong)?;
            if let Some(field) = limits.field(name) {
                *field = value;
            }
        }
        limits.check()?;
        Ok(limits)
    }

    /// A body that is allowed by itself must fit into what is allowed at the same time.
    fn check(&self) -> Result<(), LimitError> {
        for larger in ["body_bytes_max", "langserve_body_bytes_max", "upload_bytes_max"] {
            // Of the total, as much as one user has must stay free.
            for (name, most) in [("bodies_bytes_max", self.bodies_bytes_max), ("bodies_bytes_total_max", self.bodies_bytes_total_max / 2)] {
                let bytes = self.get(larger).unwrap_or_default();
                if bytes > most {
                    return Err(LimitError::Contradiction { name, most, larger, bytes });
                }
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Limits::from_table(&table).map_err(|error| D::Error::custom(format!("[server]: {error}")))
    }
}

/// Every limit with its default, bounds and help, for `--help`.
pub fn table() -> String {
    let mut text = String::new();
    for Limit { name, default, min, max, help } in ALL {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name} = {default}    ({min} to {max})\n      {}", help.trim());
    }
    text.trim_end().to_owned()
}

fn names() -> String {
    ALL.iter().map(|limit| limit.name).collect::<Vec<_>>().join(", ")
}

/// A limit as a count of things in memory.
pub fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limits(table: Value) -> Result<Limits, LimitError> {
        Limits::from_table(&serde_json::from_value(table).unwrap())
    }

    #[test]
    fn what_is_set_is_checked_and_errors_name_what_is_valid() {
        assert_eq!(limits(json!({})), Ok(Limits::default()));
        let set = limits(json!({ "runs_max": 4_096, "requests_per_second_max": 100_000 })).unwrap();
        assert_eq!((set.runs_max, set.requests_per_second_max, set.streams_max), (4_096, 100_000, Limits::default().streams_max));
        let unknown = limits(json!({ "runs": 1 })).unwrap_err().to_string();
        assert!(unknown.contains("\"runs\"") && unknown.contains("runs_max, runs_total_max"), "{unknown}");
        for wrong in [json!(0), json!(-1), json!(1.5), json!("many"), json!(100_001), json!(null)] {
            let error = limits(json!({ "runs_max": wrong })).unwrap_err().to_string();
            assert!(error.contains("runs_max is an integer from 1 to 100000"), "{error}");
        }
        let error = limits(json!({ "upload_bytes_max": 64 << 20 })).unwrap_err().to_string();
        assert!(error.contains("raise bodies_bytes_max"), "{error}");
        let error = limits(json!({ "bodies_bytes_total_max": 32 << 20 })).unwrap_err().to_string();
        assert!(error.contains("upload_bytes_max (20971520 bytes)") && error.contains("raise bodies_bytes_total_max"), "{error}");
    }

    #[test]
    fn every_default_is_within_its_bounds_and_has_help() {
        let table = table();
        for limit in ALL {
            assert!((limit.min..=limit.max).contains(&limit.default), "{}", limit.name);
            assert!(!limit.help.trim().is_empty() && table.contains(limit.name), "{}", limit.name);
            assert_eq!(Limits::default().get(limit.name), Some(limit.default));
        }
    }
}
