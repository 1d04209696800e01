//! User stories of a fictional team: sample data with the query language of the search specification. Words, and `tag:backend` for a tag,
//! `tag:*` for any tag.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evidence::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Builtin, Hints, Kind, Passage, Settings, Tool, ToolError, ToolOutput, Toolset};

/// The server `stories`: a sample backlog of user stories.
pub const KIND: Kind =
    Kind { name: "stories", about: "Searches about 200 sample user stories by words and tags", port: 8003, trust: Trust::Own, make };

const DATA: &str = include_str!("stories.jsonl");

const SIZE_DEFAULT: usize = 10;
const SIZE_MAX: usize = 50;
const QUERY_BYTES_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Story {
    id: String,
    title: String,
    text: String,
    tags: Vec<String>,
    status: String,
    points: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoriesArguments {
    /// Words to look for, and `tag:NAME` for stories with that tag or `tag:*` for stories with any, such as `upstream tag:backend`.
    query: String,
    /// How many stories to give, from 1 to 50; 10 if not said. The total is always told.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    size: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StoriesOutput {
    /// How many stories fit, shown or not.
    total: usize,
    /// `all` when every word was found in each story; `any` when no story has them all, and these have some.
    matched: Matched,
    stories: Vec<Story>,
    passages: Vec<Passage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Matched {
    All,
    Any,
}

fn make(kind: &Kind, _: &Settings) -> Result<Builtin, String> {
    let stories = Arc::new(Stories::read(DATA)?);
    let search = Tool::new(
        "search_stories",
        "Search the team's user stories by words and tags, best first, with how many there are in all. `tag:NAME` keeps those with a tag, `tag:*` \
         those with any; several must all hold.",
        Hints::READS,
        move |takes: StoriesArguments, _| {
            let stories = Arc::clone(&stories);
            async move { stories.search(&takes) }
        },
    );
    Ok(kind.around(Toolset::new(kind.name, kind.about, [search])))
}

struct Stories {
    all: Vec<(Story, BTreeMap<String, f64>)>,
    /// In how many stories a word occurs.
    counts: BTreeMap<String, usize>,
}

#[derive(Debug, Default, PartialEq)]
struct Query {
    words: BTreeSet<String>,
    tags: BTreeSet<String>,
    any_tag: bool,
}

impl Query {
    fn read(text: &str) -> Query {
        let mut query = Query::default();
        for part in text.split_whitespace() {
            let lower = part.to_lowercase();
            match lower.strip_prefix("tag:").or_else(|| lower.strip_prefix("tags:")) {
                Some("*" | "") => query.any_tag = true,
                Some(tags) => query.tags.extend(tags.split(',').map(|tag| tag.trim_matches(['"', '\'']).to_owned()).filter(|tag| !tag.is_empty())),
                None => query.words.extend(words(part)),
            }
        }
        query
    }
}

impl Stories {
    fn read(data: &str) -> Result<Stories, String> {
        let mut all = Vec::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (at, line) in data.lines().enumerate() {
            let story: Story = serde_json::from_str(line).map_err(|error| format!("line {} of the stories is wrong: {error}", at + 1))?;
            let mut weights: BTreeMap<String, f64> = BTreeMap::new();
            for (text, weight) in [(&story.title, 2.0), (&story.text, 1.0), (&story.tags.join(" "), 1.5)] {
                for word in words(text) {
                    *weights.entry(word).or_default() += weight;
                }
            }
            weights.keys().for_each(|word| *counts.entry(word.clone()).or_default() += 1);
            all.push((story, weights));
        }
        Ok(Stories { all, counts })
    }

    fn search(&self, takes: &StoriesArguments) -> Result<ToolOutput<StoriesOutput>, ToolError> {
        let size = takes.size.unwrap_or(SIZE_DEFAULT);
        if !(1..=SIZE_MAX).contains(&size) {
            return Err(ToolError(format!("`size` is {size}; it must be from 1 to {SIZE_MAX}")));
        }
        if takes.query.len() > QUERY_BYTES_MAX {
            return Err(ToolError(format!("`query` has more than {QUERY_BYTES_MAX} bytes; a few words are enough")));
        }
        let query = Query::read(&takes.query);
        if query == Query::default() {
            return Err("`query` is empty; give words, or `tag:*` for all stories with a tag".into());
        }
        self.known(&query)?;
        let tagged = |story: &Story| (!query.any_tag || !story.tags.is_empty()) && query.tags.iter().all(|tag| story.tags.contains(tag));
        let (mut full, mut some) = (Vec::new(), Vec::new());
        for (story, weights) in self.all.iter().filter(|(story, _)| tagged(story)) {
            let hits: Vec<f64> = query.words.iter().filter_map(|word| weights.get(word).map(|weight| weight * self.rarity(word))).collect();
            let score: f64 = hits.iter().sum();
            if hits.len() == query.words.len() {
                full.push((score, story));
            } else if !hits.is_empty() {
                some.push((score, story));
            }
        }
        let (matched, mut found) = if full.is_empty() { (Matched::Any, some) } else { (Matched::All, full) };
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
        let best = found.first().map_or(1.0, |(score, _)| score.max(f64::MIN_POSITIVE));
        let total = found.len();
        found.truncate(size);
        let passages = found.iter().map(|(score, story)| passage(story, if query.words.is_empty() { 1.0 } else { score / best })).collect();
        let stories: Vec<Story> = found.into_iter().map(|(_, story)| story.clone()).collect();
        let text = result_text(&takes.query, total, matched, &stories);
        Ok(ToolOutput { text, data: StoriesOutput { total, matched, stories, passages } })
    }

    /// An unknown tag is an error that the caller can fix, unlike words without matches.
    fn known(&self, query: &Query) -> Result<(), ToolError> {
        let tags: BTreeSet<&str> = self.all.iter().flat_map(|(story, _)| &story.tags).map(String::as_str).collect();
        match query.tags.iter().find(|tag| !tags.contains(tag.as_str())) {
            Some(tag) => Err(ToolError(format!("no story has the tag `{tag}`; the tags are {}", tags.into_iter().collect::<Vec<_>>().join(", ")))),
            None => Ok(()),
        }
    }

    fn rarity(&self, word: &str) -> f64 {
        let count = self.counts.get(word).copied().unwrap_or(0) as f64;
        (1.0 + self.all.len() as f64 / (1.0 + count)).ln()
    }
}

fn passage(story: &Story, share: f64) -> Passage {
    let tags = if story.tags.is_empty() { "none".to_owned() } else { story.tags.join(", ") };
    Passage {
        text: format!("{}: {} {} Tags: {tags}. Status: {}. Points: {}.", story.id, story.title, story.text, story.status, story.points),
        title: Some(format!("{} {}", story.id, story.title)),
        address: Some(format!("stories:{}", story.id)),
        confidence: Some((share * 100.0).round() / 100.0),
        ..Passage::default()
    }
}

fn result_text(query: &str, total: usize, matched: Matched, stories: &[Story]) -> String {
    let mut text = match (total, matched) {
        (0, _) => format!("Found no stories matching '{query}'. Try fewer or other words."),
        (_, Matched::All) => format!("Found {total} stories matching '{query}'"),
        (_, Matched::Any) => format!("No story matches all of '{query}'; found {total} that match a part of it"),
    };
    if !stories.is_empty() && stories.len() < total {
        text.push_str(&format!(", the best {} of them", stories.len()));
    }
    for story in stories {
        text.push_str(&format!(
            "\n\n{} {} [{}] ({}, {} points)\n{}",
            story.id,
            story.title,
            story.tags.join(", "),
            story.status,
            story.points,
            story.text
        ));
    }
    text
}

fn words(text: &str) -> Vec<String> {
    let all = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    all.map(|word| word.strip_suffix('s').filter(|stem| stem.len() > 3 && !stem.ends_with('s')).map(str::to_owned).unwrap_or(word)).collect()
}
