//! JSON documents of users, out of the maps.

use std::collections::{BTreeMap, BTreeSet};

use graph::UserId;

use super::Tables;
use crate::{NewRecord, RECORDS_LISTED_BYTES_MAX, RECORDS_MAX, RecordFilter, RecordRow, Result, StoreError};

/// By kind, key and user: the order in which they are listed.
pub(super) type Records = BTreeMap<(String, String, UserId), RecordRow>;

impl Tables {
    pub(super) fn put_record(&mut self, new: NewRecord) -> Result<()> {
        new.must_fit(new.value.to_string().len())?;
        let NewRecord { user, kind, key, value, at_ms } = new;
        let place = (kind.clone(), key.clone(), user.clone());
        if let Some(row) = self.records.get_mut(&place) {
            (row.value, row.updated_ms) = (value, at_ms);
            return Ok(());
        }
        if self.records.values().filter(|row| row.user == user && row.kind == kind).count() >= RECORDS_MAX {
            return Err(StoreError::TooMany { kind, count_max: RECORDS_MAX });
        }
        self.records.insert(place, RecordRow { user, kind, key, value, created_ms: at_ms, updated_ms: at_ms });
        Ok(())
    }

    pub(super) fn record(&self, user: &UserId, kind: &str, key: &str) -> Option<RecordRow> {
        self.records.get(&(kind.to_owned(), key.to_owned(), user.clone())).cloned()
    }

    pub(super) fn records(&self, filter: &RecordFilter) -> Vec<RecordRow> {
        let is_after = |row: &RecordRow| filter.after.as_ref().is_none_or(|(key, user)| (&row.key, &row.user) > (key, user));
        let is_wanted = |row: &&RecordRow| filter.user.as_ref().is_none_or(|user| *user == row.user) && is_after(row);
        let first = (filter.kind.clone(), filter.key_prefix.clone(), UserId::from(""));
        let with_prefix = self.records.range(first..).map(|(_, row)| row);
        let with_prefix = with_prefix.take_while(|row| row.kind == filter.kind && row.key.starts_with(&filter.key_prefix));
        let (mut bytes, mut all) = (0, Vec::new());
        for row in with_prefix.filter(is_wanted).take(filter.limit) {
            if bytes >= RECORDS_LISTED_BYTES_MAX {
                break;
            }
            bytes += row.value.to_string().len();
            all.push(row.clone());
        }
        all
    }

    pub(super) fn drop_record(&mut self, user: &UserId, kind: &str, key: &str) -> bool {
        self.records.remove(&(kind.to_owned(), key.to_owned(), user.clone())).is_some()
    }

    pub(super) fn users(&self) -> Vec<UserId> {
        let mut all: BTreeSet<&UserId> = self.threads.values().filter_map(|thread| thread.user.as_ref()).collect();
        all.extend(self.notes.values().map(|note| &note.user));
        all.extend(self.preferences.iter().filter(|(_, liked)| !liked.is_empty()).map(|(user, _)| user));
        all.extend(self.records.values().map(|row| &row.user));
        all.extend(self.tokens.values().map(|(_, row)| &row.user));
        all.extend(self.permissions.values().map(|(user, _)| user));
        all.into_iter().cloned().collect()
    }

    pub(super) fn records_bytes(&self, user: &UserId) -> usize {
        self.records.values().filter(|row| row.user == *user).map(|row| row.value.to_string().len()).sum()
    }
}
