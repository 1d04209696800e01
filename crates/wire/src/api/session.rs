//! Ways to sign in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one can sign in beside with a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInWays {
    /// The provider of OpenID Connect, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<SignInProvider>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInProvider {
    /// What the button says.
    pub title: String,
    /// Where the browser goes to sign in; `?to=/path` is where it returns to.
    pub start: String,
    /// Where it goes after signing out, if the session at the provider is to end too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    pub token: String,
}
