//! OAuth tokens of remote servers: one file per server, readable by this account only, so that every process of the account uses and refreshes the same tokens.
//! Without a folder they are kept in memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::AuthError;
use rmcp::transport::auth::{CredentialRefreshGuard, CredentialStore, InMemoryCredentialStore, StoredCredentials};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::memory::write_whole;

/// How long a process waits while another one refreshes the same token.
const REFRESH_WAIT_MAX: Duration = Duration::from_secs(20);
const REFRESH_POLL: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) enum Credentials {
    Memory(InMemoryCredentialStore),
    File(CredentialFile),
}

impl Credentials {
    /// The credentials of a server with this name at this address: another server under the same name does not get the tokens.
    pub(crate) fn of(folder: Option<&Path>, server: &str, url: &str) -> Self {
        let Some(folder) = folder else { return Credentials::Memory(InMemoryCredentialStore::new()) };
        let digest = Sha256::digest(format!("{server}\n{url}"));
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Credentials::File(CredentialFile { path: folder.join(format!("{server}-{digest}.json")) })
    }

    pub(crate) async fn has_tokens(&self) -> bool {
        matches!(self.load().await, Ok(Some(StoredCredentials { token_response: Some(_), .. })))
    }

    /// The same without waiting, for a list of servers.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Credentials::File(file) if file.path.exists())
    }
}

#[derive(Clone)]
pub(crate) struct CredentialFile {
    path: PathBuf,
}

impl CredentialFile {
    fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        // What could not be read may hold tokens, so only its place is shown.
        let unreadable = |error: serde_json::Error| self.failed(&format!("line {}, column {} is not as expected", error.line(), error.column()));
        serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
    }

    fn remove(&self) -> Result<(), AuthError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> AuthError {
        AuthError::CredentialStoreError(format!("{}: {error}", self.path.display()))
    }

    /// Work with the file beside the runtime: a slow disk must not stop other requests.
    async fn beside<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> Result<T, AuthError> + Send + 'static) -> Result<T, AuthError> {
        let file = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(self.failed(&error)))
    }
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match self {
            Credentials::Memory(memory) => memory.load().await,
            Credentials::File(file) => file.beside(CredentialFile::read).await,
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        match self {
            Credentials::Memory(memory) => memory.save(credentials).await,
            Credentials::File(file) => {
                let bytes = serde_json::to_vec_pretty(&credentials).map_err(|error| file.failed(&error))?;
                file.beside(move |file| write_whole(&file.path, &bytes).map_err(|error| file.failed(&error))).await
            }
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match self {
            Credentials::Memory(memory) => memory.clear().await,
            Credentials::File(file) => file.beside(CredentialFile::remove).await,
        }
    }

    /// Tokens that can no longer be refreshed are removed, so that lists say that a sign-in is needed.
    async fn on_refresh_token_rejected(&self, rejected: &StoredCredentials) -> Result<(), AuthError> {
        let same = |stored: &StoredCredentials| {
            let text = |credentials: &StoredCredentials| serde_json::to_string(&credentials.token_response).ok();
            text(stored) == text(rejected)
        };
        match self.load().await? {
            Some(stored) if same(&stored) => self.clear().await,
            _ => Ok(()),
        }
    }

    /// Several processes may share a refresh token that can be used once. The lock is of the operating system, so it ends with its process.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Credentials::File(file) = self else { return Ok(None) };
        let open = |file: &CredentialFile| {
            let path = file.path.with_extension("lock");
            File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| file.failed(&error))
        };
        let lock = file.beside(open).await?;
        let until = Instant::now() + REFRESH_WAIT_MAX;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(lock))),
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(REFRESH_POLL).await,
                Err(error) => return Err(file.failed(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(token: &str) -> StoredCredentials {
        let response = serde_json::json!({"access_token": token, "token_type": "bearer", "refresh_token": format!("refresh-{token}")});
        StoredCredentials::new("client".into(), Some(serde_json::from_value(response).unwrap()), vec![], None)
    }

    #[tokio::test]
    async fn tokens_are_in_a_file_of_the_account_and_belong_to_one_address() {
        let folder = tempfile::tempdir().unwrap();
        let of = |server: &str, url: &str| Credentials::of(Some(folder.path()), server, url);
        let notes = of("notes", "https://notes.example/mcp");
        assert!(!notes.is_kept() && !notes.has_tokens().await);
        notes.save(stored("a")).await.unwrap();
        assert!(notes.is_kept() && notes.has_tokens().await);
        assert!(!of("notes", "https://evil.example/mcp").has_tokens().await, "another server under the same name");
        assert!(!of("other", "https://notes.example/mcp").has_tokens().await, "another account at the same server");
        let Credentials::File(file) = &notes else { panic!("a file") };
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file.path).unwrap().permissions()) & 0o777, 0o600);
        std::fs::write(&file.path, "{\"client_id\": secret-token}").unwrap();
        let error = notes.load().await.unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("secret-token"), "{error}");
        notes.clear().await.unwrap();
        notes.clear().await.unwrap();
        assert!(!notes.is_kept());
    }

    #[tokio::test]
    async fn rejected_tokens_are_removed_unless_newer_ones_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Credentials::of(Some(folder.path()), "notes", "https://notes.example/mcp");
        notes.save(stored("new")).await.unwrap();
        notes.on_refresh_token_rejected(&stored("old")).await.unwrap();
        assert!(notes.has_tokens().await);
        notes.on_refresh_token_rejected(&stored("new")).await.unwrap();
        assert!(!notes.has_tokens().await);
    }

    #[tokio::test]
    async fn one_process_refreshes_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Credentials::of(Some(folder.path()), "notes", "https://notes.example/mcp");
        notes.save(stored("a")).await.unwrap();
        let first = notes.acquire_refresh_guard().await.unwrap().unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(200), notes.acquire_refresh_guard()).await;
        assert!(waits.is_err());
        drop(first);
        assert!(notes.acquire_refresh_guard().await.unwrap().is_some());
    }

    /// A pipe that nobody writes to, in the place of the file: reading it blocks. The only thread of this runtime must go on.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_disk_that_hangs_does_not_stop_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Credentials::of(Some(folder.path()), "notes", "https://notes.example/mcp");
        let Credentials::File(file) = &notes else { panic!("a file") };
        assert!(std::process::Command::new("mkfifo").arg(&file.path).status().unwrap().success());
        let reading = tokio::spawn({
            let notes = notes.clone();
            async move { notes.load().await.is_err() }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!reading.is_finished(), "it waits for the pipe, and this goes on");
        std::fs::write(&file.path, "no JSON").unwrap();
        assert!(reading.await.unwrap());
    }
}
