//! Threads as a list shows them, and who may use a server, out of the maps.

use graph::ThreadId;

use super::{Tables, Thread};
use crate::{CardFilter, CardRow, NewToken, NewestRun, PREVIEW_CHARS_MAX, Result, SESSIONS_MAX, TokenRow};

/// The digest of a token, and its row.
pub(super) type Tokens = std::collections::BTreeMap<u64, ([u8; 32], TokenRow)>;

impl Tables {
    pub(super) fn cards(&self, filter: &CardFilter) -> Result<Vec<CardRow>> {
        let before = match &filter.before {
            Some(thread) => self.known_thread(thread)?.place(),
            None => (i64::MAX, u64::MAX),
        };
        let is_meant = |id: &ThreadId, thread: &Thread| {
            thread.user.is_some()
                && filter.user.as_ref().is_none_or(|user| thread.user.as_ref() == Some(user))
                && filter.thread.as_ref().is_none_or(|wanted| wanted == id)
                && filter.since_ms.is_none_or(|since_ms| thread.updated_ms >= since_ms)
                && filter.words.iter().all(|word| thread.has(word))
        };
        let all = self.by_use().into_iter().filter(|(place, _)| *place < before);
        let found = all.filter_map(|(_, id)| self.threads.get(&id).filter(|thread| is_meant(&id, thread)).map(|thread| self.card(&id, thread)));
        Ok(found.take(filter.limit).collect())
    }

    fn card(&self, id: &ThreadId, thread: &Thread) -> CardRow {
        let last = thread.messages.iter().rev().find(|message| message.role == "assistant");
        let roots = thread.runs.iter().filter_map(|run| self.runs.get(run)).filter(|run| run.row.parent.is_none());
        let newest = roots.max_by_key(|run| run.number);
        CardRow {
            thread: thread.row(id),
            preview: last.map(|message| message.content.chars().take(PREVIEW_CHARS_MAX).collect()).unwrap_or_default(),
            newest: newest.map(|run| NewestRun { run: run.row.run.clone(), flow: run.row.flow.clone(), status: run.row.status }),
        }
    }

    pub(super) fn keep_token(&mut self, new: NewToken) -> u64 {
        self.tokens.retain(|_, (_, row)| row.until_ms.is_none_or(|until_ms| until_ms > new.created_ms));
        self.tokens_made += 1;
        let NewToken { digest, user, made_with, created_ms, until_ms, scope } = new;
        self.tokens.insert(self.tokens_made, (digest, TokenRow { token: self.tokens_made, user, made_with, created_ms, until_ms, scope }));
        if made_with.is_some() {
            let sessions = self.tokens.iter().filter(|(_, (_, row))| row.made_with == made_with).map(|(number, _)| *number);
            let sessions: Vec<u64> = sessions.collect();
            for oldest in sessions.iter().rev().skip(SESSIONS_MAX) {
                self.tokens.remove(oldest);
            }
        }
        self.tokens_made
    }

    pub(super) fn drop_token(&mut self, token: u64) -> bool {
        let Some((digest, _)) = self.tokens.remove(&token) else { return false };
        self.tokens.retain(|_, (_, row)| row.made_with != Some(digest));
        true
    }
}

impl Thread {
    /// Whatever the case of ASCII letters.
    fn has(&self, word: &str) -> bool {
        let word = word.to_ascii_lowercase();
        let has = |text: &str| text.to_ascii_lowercase().contains(&word);
        has(&self.title) || self.messages.iter().any(|message| has(&message.content))
    }
}
