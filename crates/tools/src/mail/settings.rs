//! Mail settings. They contain only the location of secrets.

use std::path::PathBuf;

use secret::KeySource;
use serde::Deserialize;

use super::MailError;

/// The `mail` server's settings. The default sends nothing: it writes what it would have sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The sender, as `Name <name@example.org>`. Required with a transport.
    pub from: Option<String>,
    /// The folder of all mails with their state. Without it, the record of sent mails is lost.
    pub outbox: PathBuf,
    /// Folders whose files may be attached, in addition to the outbox.
    pub attachment_folders: Vec<PathBuf>,
    /// Allowed recipients: addresses (`ann@example.org`) or domains (`@example.org`). Empty means any.
    pub recipients_allowed: Vec<String>,
    /// Recipients of one mail.
    pub recipients_max: usize,
    /// Bytes of the text.
    pub body_bytes_max: usize,
    /// All attachments of one mail together.
    pub attachments_bytes_max: u64,
    /// How mails are sent.
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
            // Most servers accept 25 MB, and base64 adds a third.
            attachments_bytes_max: 18_000_000,
            transport: Transport::DryRun,
        }
    }
}

/// How mails are sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Transport {
    /// Mails are only written to the outbox.
    #[default]
    DryRun,
    /// Through an SMTP server.
    Smtp(Smtp),
    /// Through Gmail's REST API.
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

/// An SMTP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Smtp {
    /// The host name.
    pub host: String,
    /// Defaults: 587 with STARTTLS, 465 with implicit TLS, 25 without.
    pub port: Option<u16>,
    /// Whether and how the connection is encrypted.
    pub tls: Tls,
    /// The user name; without one there is no authentication.
    pub user: Option<String>,
    /// The password of the user.
    pub password: SecretPlace,
    /// A PEM file with the certificate of a private authority.
    pub authority_file: Option<PathBuf>,
    /// For each of: connecting, the dialogue before the mail, the transfer of the mail.
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

/// Encryption of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// Starts unencrypted and must be upgraded before anything else is sent.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Implicit,
    /// Unencrypted. With a user name only to this machine.
    None,
}

/// Gmail's REST API. The token needs the scope `https://www.googleapis.com/auth/gmail.modify`: drafts, sending and lookups.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gmail {
    /// The OAuth client.
    pub client_id: String,
    /// The secret of the OAuth client.
    pub client_secret: SecretPlace,
    /// The refresh token of the mailbox.
    pub refresh_token: SecretPlace,
    /// The address of the API.
    pub base_url: String,
    /// The address that issues access tokens.
    pub token_url: String,
    /// Time for each request.
    pub timeout_seconds: u64,
    /// How long a mail that the server does not list yet may still be in transit.
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
