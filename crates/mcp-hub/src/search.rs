//! Which tools fit a question, when there are too many to show a planner all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::ToolInfo;

/// Ranks tools. The hub has a lexical one; a better one (vectors) is plugged in when the hub is built.
pub trait Rank: Send + Sync + 'static {
    /// Indices into `tools` with scores above zero, best first, at most `size`. `version` changes when `tools` does, so that an
    /// index may be kept.
    fn rank(&self, version: u64, tools: &[Arc<ToolInfo>], query: &str, size: usize) -> Vec<(usize, f32)>;
}

/// BM25 over names and descriptions; a word in the name counts more than one in the description.
pub struct Lexical;

const NAME_COUNTS: f32 = 3.0;
const K1: f32 = 1.2;
const B: f32 = 0.75;

impl Rank for Lexical {
    fn rank(&self, _version: u64, tools: &[Arc<ToolInfo>], query: &str, size: usize) -> Vec<(usize, f32)> {
        let texts: Vec<HashMap<String, f32>> = tools.iter().map(|tool| weights(tool)).collect();
        let lengths: Vec<f32> = texts.iter().map(|text| text.values().sum()).collect();
        let mean = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let words: BTreeSet<String> = words(query).collect();
        let mut scores = vec![0.0_f32; tools.len()];
        for word in &words {
            let having = texts.iter().filter(|text| text.contains_key(word)).count() as f32;
            let rare = ((tools.len() as f32 - having + 0.5) / (having + 0.5) + 1.0).ln();
            for (index, text) in texts.iter().enumerate() {
                let Some(weight) = text.get(word) else { continue };
                scores[index] += rare * weight * (K1 + 1.0) / (weight + K1 * (1.0 - B + B * lengths[index] / mean));
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
        // Ties stay in the order of the list, so that the same question gives the same tools.
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(size);
        ranked
    }
}

fn weights(tool: &ToolInfo) -> HashMap<String, f32> {
    let mut weights = HashMap::new();
    words(&tool.name).for_each(|word| *weights.entry(word).or_default() += NAME_COUNTS);
    let texts = [tool.title.as_deref().unwrap_or_default(), &tool.description];
    texts.into_iter().flat_map(words).for_each(|word| *weights.entry(word).or_default() += 1.0);
    weights
}

/// Words in lower case without the endings English puts to them; `searchStories_v2` is three.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut split = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            split.push(' ');
        }
        was_lower = c.is_lowercase();
        split.extend(if c.is_alphanumeric() { c.to_lowercase().collect::<Vec<_>>() } else { vec![' '] });
    }
    let words: Vec<String> = split.split_whitespace().map(stem).filter(|word| !STOP.contains(&word.as_str())).collect();
    words.into_iter()
}

const STOP: [&str; 22] = [
    "a", "an", "and", "are", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that", "the", "to", "what", "which", "with", "you",
];

fn stem(word: &str) -> String {
    for ending in ["ing", "ies", "es", "ed", "s"] {
        if let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() >= 3) {
            return if ending == "ies" { format!("{stem}y") } else { stem.to_owned() };
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_that_fits_comes_first() {
        let tool = |name: &str, description: &str| Arc::new(ToolInfo { name: name.into(), description: description.into(), ..ToolInfo::default() });
        let tools = [
            tool("mail.send", "Sends a mail to people"),
            tool("docs.search", "Finds passages in the user's documents"),
            tool("stories.searchStories", "Finds user stories by words and tags"),
            tool("calc.evaluate", "Computes an expression with units, exactly"),
        ];
        let best = |query: &str| Lexical.rank(0, &tools, query, 2).first().map(|(index, _)| tools[*index].name.clone());
        for (query, name) in [
            ("send mail to Ada", Some("mail.send")),
            ("search my documents", Some("docs.search")),
            ("find a story about login", Some("stories.searchStories")),
            ("computing 3 miles in km", Some("calc.evaluate")),
            ("the of", None),
        ] {
            assert_eq!(best(query).as_deref(), name, "{query}");
        }
        assert!(Lexical.rank(0, &[], "x", 3).is_empty());
    }
}
