//! The title, the pin and the tags that a user gave to a thread.

use std::collections::HashMap;

use graph::{ThreadId, UserId};
use serde::{Deserialize, Serialize};
use store::{CardRow, RECORDS_MAX, RecordFilter, Store, StoreError, ThreadRow};
use wire::api::ChangeThread;

use super::{StoredDetail, keep, kept};
use crate::problem::Problem;

pub(crate) const KIND: &str = "thread.details";
const TITLE_CHARS_MAX: usize = 200;
const TAGS_MAX: usize = 20;
const TAG_CHARS_MAX: usize = 40;

/// What a user set for a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// In place of the first question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is listed first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_pinned: bool,
    /// Tags, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Details {
    /// Whether each word stands in the title or is the beginning of a tag, whatever the case of letters.
    fn has(&self, words: &[String]) -> bool {
        let title = self.title.as_deref().unwrap_or_default().to_lowercase();
        let has = |word: &String| {
            let word = word.to_lowercase();
            title.contains(&word) || self.tags.iter().any(|tag| tag.to_lowercase().starts_with(word.trim_start_matches('#')))
        };
        !words.is_empty() && words.iter().all(has)
    }
}

/// The details of a thread.
pub async fn of(store: &dyn Store, thread: &ThreadRow) -> Result<Details, StoreError> {
    kept(store, KIND, thread).await
}

/// The details of all threads of a user.
pub struct AllDetails(HashMap<ThreadId, (i64, Details)>);

impl AllDetails {
    /// Reads them from the store.
    pub async fn of(store: &dyn Store, user: &UserId) -> Result<AllDetails, StoreError> {
        let filter = RecordFilter { kind: KIND.to_owned(), user: Some(user.clone()), key_prefix: String::new(), limit: RECORDS_MAX, after: None };
        let mut all = HashMap::new();
        for row in store.records(filter).await? {
            let thread = ThreadId::from(row.key.as_str());
            let StoredDetail { made_ms, value } = StoredDetail::<Details>::read(row)?;
            all.insert(thread, (made_ms, value));
        }
        Ok(AllDetails(all))
    }

    /// The details of a thread; empty if there are none.
    pub fn get(&self, thread: &ThreadRow) -> Details {
        self.0.get(&thread.thread).filter(|(made_ms, _)| *made_ms == thread.created_ms).map(|(_, details)| details.clone()).unwrap_or_default()
    }

    /// Threads that are pinned.
    pub fn pinned(&self) -> Vec<ThreadId> {
        self.named(|details| details.is_pinned)
    }

    /// Threads with this tag, ignoring the case of ASCII letters.
    pub fn tagged(&self, tag: &str) -> Vec<ThreadId> {
        self.named(|details| details.tags.iter().any(|own| own.eq_ignore_ascii_case(tag)))
    }

    /// Threads whose own title and tags hold these words.
    pub fn with(&self, words: &[String]) -> Vec<ThreadId> {
        self.named(|details| details.has(words))
    }

    fn named(&self, is_meant: impl Fn(&Details) -> bool) -> Vec<ThreadId> {
        let mut all: Vec<ThreadId> = self.0.iter().filter(|(_, (_, details))| is_meant(details)).map(|(thread, _)| thread.clone()).collect();
        all.sort();
        all
    }
}

/// Puts the details of a thread into its row, as lists show it.
pub(crate) fn shown(row: &CardRow, details: Details) -> wire::api::Thread {
    let mut card = crate::api::threads::card(row);
    card.title = details.title.unwrap_or(card.title);
    card.is_pinned = details.is_pinned;
    card.tags = details.tags;
    card
}

/// Applies a change and stores the result.
pub async fn change(store: &dyn Store, thread: &ThreadRow, change: &ChangeThread) -> Result<Details, Problem> {
    let mut details = of(store, thread).await?;
    if let Some(title) = &change.title {
        details.title = checked_title(title)?;
    }
    if let Some(is_pinned) = change.is_pinned {
        details.is_pinned = is_pinned;
    }
    if let Some(tags) = &change.tags {
        details.tags = checked_tags(tags)?;
    }
    keep(store, KIND, thread, &details).await?;
    Ok(details)
}

fn checked_title(title: &str) -> Result<Option<String>, Problem> {
    let title = evidence::visible(title);
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match title.chars().count() {
        0 => Ok(None),
        1..=TITLE_CHARS_MAX => Ok(Some(title)),
        count => Err(Problem::invalid(format!("a title has at most {TITLE_CHARS_MAX} characters, not {count}"))),
    }
}

fn checked_tags(tags: &[String]) -> Result<Vec<String>, Problem> {
    let mut checked: Vec<String> = Vec::new();
    for tag in tags {
        let tag = tag.trim().trim_start_matches('#').to_owned();
        let is_good = (1..=TAG_CHARS_MAX).contains(&tag.chars().count()) && !tag.chars().any(|c| c == ',' || c.is_control());
        if !is_good {
            return Err(Problem::invalid(format!("a tag has 1 to {TAG_CHARS_MAX} characters and no comma; this has not: {tag:?}")));
        }
        if !checked.iter().any(|known| known.eq_ignore_ascii_case(&tag)) {
            checked.push(tag);
        }
    }
    match checked.len() <= TAGS_MAX {
        true => Ok(checked),
        false => Err(Problem::invalid(format!("a thread has at most {TAGS_MAX} tags"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_tags_are_cleaned_or_refused() {
        assert_eq!(checked_title("  A\n title ").unwrap().as_deref(), Some("A title"));
        assert_eq!(checked_title(" \n").unwrap(), None);
        assert!(checked_title(&"x".repeat(201)).is_err());
        let tags = |all: &[&str]| checked_tags(&all.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        assert_eq!(tags(&["#work", " Work ", "later"]).unwrap(), ["work", "later"]);
        assert!(tags(&["a,b"]).is_err() && tags(&[" "]).is_err() && tags(&[&"x".repeat(41)]).is_err());
        let many: Vec<String> = (0..21).map(|n| n.to_string()).collect();
        assert!(checked_tags(&many).is_err());
    }

    #[test]
    fn words_are_found_in_titles_and_tags() {
        let details = Details { title: Some("Relay Rules".into()), is_pinned: false, tags: vec!["sport".into()] };
        let has = |words: &str| details.has(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(has("relay") && has("rules #sp") && has("SPORT") && !has("relay mail"));
        assert!(!details.has(&[]));
    }

    #[tokio::test]
    async fn details_of_a_deleted_thread_do_not_apply_to_a_new_one_of_its_name() {
        let store = store::MemoryStore::new();
        let row = |created_ms: i64| ThreadRow {
            thread: "t".into(),
            title: "first".into(),
            messages: 0,
            created_ms,
            updated_ms: created_ms,
            user: Some(UserId::default()),
        };
        let wanted = ChangeThread { title: Some("Mine".into()), is_pinned: Some(true), tags: Some(vec!["a".into()]) };
        change(&store, &row(1), &wanted).await.unwrap();
        let all = AllDetails::of(&store, &UserId::default()).await.unwrap();
        assert_eq!(all.get(&row(1)).title.as_deref(), Some("Mine"));
        assert_eq!((all.pinned().len(), all.tagged("A").len(), all.tagged("b").len()), (1, 1, 0));
        assert_eq!((all.get(&row(2)), of(&store, &row(2)).await.unwrap()), (Details::default(), Details::default()));
    }
}
