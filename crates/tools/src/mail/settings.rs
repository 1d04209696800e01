//! What a user writes down about mail. Secrets are never here, only where they are found.

use std::path::PathBuf;

use secret::KeySource;
use serde::Deserialize;

use super::MailError;

/// The `mail` server's settings. The default sends nothing: it writes what it would have sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whom mails are from, as `Name <name@example.org>`. Needed as soon as a transport is set.
    pub from: Option<String>,
    /// Where every mail is kept with its state. Losing this folder is losing the memory of what was sent.
    pub outbox: PathBuf,
    /// Folders whose files may be attached, beside the outbox itself.
    pub attachment_folders: Vec<PathBuf>,
    /// Who may be written to: whole addresses (`ann@example.org`) or domains (`@example.org`). Empty means anybody.
    pub recipients_allowed: Vec<String>,
    pub recipients_max: usize,
    pub body_bytes_max: usize,
    /// All attachments of one mail together.
    pub attachments_bytes_max: u64,
    pub transport: Transport,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            from: None,
            outbox: PathBuf::from("outbox"),
            attachment_folders: Vec::new(),
            recipients_allowed: Vec::new(),
            recipients_max: 50,
            body_bytes_max: 500_000,
            // Most servers take 25 MB, and base64 makes four bytes of three.
            attachments_bytes_max: 18_000_000,
            transport: Transport::DryRun,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Transport {
    #[default]
    DryRun,
    Smtp(Smtp),
    Gmail(Gmail),
}

impl Transport {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Transport::DryRun => "dry_run",
            Transport::Smtp(_) => "smtp",
            Transport::Gmail(_) => "gmail",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Smtp {
    pub host: String,
    /// 587 with STARTTLS, 465 with TLS from the start, 25 without, unless said otherwise.
    pub port: Option<u16>,
    pub tls: Tls,
    pub user: Option<String>,
    pub password: SecretPlace,
    /// A PEM file with the certificate of an authority that is not publicly known.
    pub authority_file: Option<PathBuf>,
    /// Each of: connecting, the talk before the mail, handing the mail over.
    pub timeout_seconds: u64,
}

impl Default for Smtp {
    fn default() -> Self {
        Self {
            host: "localhost".into(),
            port: None,
            tls: Tls::default(),
            user: None,
            password: SecretPlace::default(),
            authority_file: None,
            timeout_seconds: 60,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// Begins in the clear and must be upgraded before anything is said.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Implicit,
    /// In the clear. With a user's name only to this very machine.
    None,
}

/// Gmail's REST interface. The token needs the scope `https://www.googleapis.com/auth/gmail.modify`: drafts, sending and looking up.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gmail {
    pub client_id: String,
    pub client_secret: SecretPlace,
    pub refresh_token: SecretPlace,
    pub base_url: String,
    pub token_url: String,
    pub timeout_seconds: u64,
    /// How long a mail that the server does not show yet may still be under way.
    pub settle_seconds: u64,
}

impl Default for Gmail {
    fn default() -> Self {
        Self {
            client_id: String::new(),
            client_secret: SecretPlace::default(),
            refresh_token: SecretPlace::default(),
            base_url: "https://gmail.googleapis.com".into(),
            token_url: "https://oauth2.googleapis.com/token".into(),
            timeout_seconds: 60,
            settle_seconds: 60,
        }
    }
}

/// Where a secret is found: `{ env = "…" }`, `{ file = "…" }` or `{ command = ["…"] }`. Read anew at each use, kept nowhere.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct SecretPlace(pub Option<KeySource>);

impl SecretPlace {
    pub(super) async fn read(&self, what: &str) -> Result<String, MailError> {
        let missing = |todo: &str| MailError::Settings(format!("the {what} is missing: {todo}"));
        let source = self.0.clone().ok_or_else(|| missing("say where it is, with `env`, `file` or `command`"))?;
        // A program may take seconds.
        let found = tokio::task::spawn_blocking(move || source.find(&|name| std::env::var(name).ok())).await;
        let found = found.unwrap_or_else(|error| Err(error.to_string()));
        found.map(|secret| secret.reveal().to_owned()).map_err(|why| missing(&why))
    }
}
