//! Ways to sign in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ways to sign in other than with a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInWays {
    /// The provider of OpenID Connect, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<SignInProvider>,
}

/// A provider of OpenID Connect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignInProvider {
    /// The text of the button.
    pub title: String,
    /// The address that begins the sign-in; `?to=/path` is where the browser returns to.
    pub start: String,
    /// The address that also ends the session at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// The body of a request that opens a session of the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// The API token.
    pub token: String,
}
