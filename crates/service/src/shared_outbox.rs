//! The outbox of mails in a store that several servers share.

use std::sync::Arc;

use async_trait::async_trait;
use store::{NewValue, SharedValues, Store, StoreError};
use tools::mail::SharedOutbox;

use crate::shared_uploads::wall_ms;

/// States of mails, and their texts until they are sent.
const STATES: &str = "mail";
const TEXTS: &str = "mail text";

pub(crate) struct StoreOutbox(Arc<dyn Store>);

impl StoreOutbox {
    /// `None` where the store is not shared.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Arc<dyn SharedOutbox>> {
        store.values().is_some().then(|| Arc::new(StoreOutbox(store.clone())) as Arc<dyn SharedOutbox>)
    }

    fn values(&self) -> Result<&dyn SharedValues, String> {
        self.0.values().ok_or_else(|| StoreError::Closed.to_string())
    }

    async fn put(&self, space: &str, name: &str, version: u64, bytes: &[u8]) -> Result<Option<u64>, String> {
        let value = NewValue { space: space.to_owned(), name: name.to_owned(), version, bytes: bytes.to_vec(), at_ms: wall_ms() };
        self.values()?.put_value(value).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl SharedOutbox for StoreOutbox {
    async fn state(&self, name: &str) -> Result<Option<(u64, Vec<u8>)>, String> {
        self.values()?.value(STATES, name).await.map_err(|error| error.to_string())
    }

    async fn put_state(&self, name: &str, version: u64, state: &[u8]) -> Result<Option<u64>, String> {
        self.put(STATES, name, version, state).await
    }

    async fn mail(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let value = self.values()?.value(TEXTS, name).await.map_err(|error| error.to_string())?;
        Ok(value.map(|(_, bytes)| bytes))
    }

    async fn put_mail(&self, name: &str, mail: Option<&[u8]>) -> Result<(), String> {
        match mail {
            // One that is there already was left by a server that stopped before it wrote the state; the key means the same mail.
            Some(mail) => self.put(TEXTS, name, 0, mail).await.map(drop),
            None => self.values()?.drop_value(TEXTS, name).await.map(drop).map_err(|error| error.to_string()),
        }
    }
}
