//! Links: passages that name each other.
//!
//! An encyclopedia, a wiki, documentation with headings and code with symbols name their own passages. A question that names one refers to
//! it (`seeds`), and passages named by the best results are often the ones needed (`hop`). Nothing is stored for this: names in a text are
//! looked up in the titles at query time, so links never go stale.
//!
//! In other folders titles are common words (`Overview`, `Usage`) and such a link means nothing. So the weight of links is measured on the
//! corpus at hand: if A names B, do the two share more words, apart from the name, than A and an unrelated passage?

use std::collections::{HashMap, HashSet};

use crate::words;

/// Longer titles are sentences.
const TITLE_WORDS_MAX: usize = 10;
/// A name in more than one of this many passages is a common word.
const COMMON_ONE_IN: usize = 40;
/// Maximum number of passages with the same name that are followed.
const NAMESAKES_MAX: usize = 200;
/// Lower bound for small corpora.
const COMMON_MIN: usize = 4;
/// Number of passages sampled to measure links.
const SAMPLE_ROWS: usize = 600;
const SAMPLE_PAIRS: usize = 400;
/// Prior of this many uninformative pairs: a few links prove nothing.
const DOUBT_PAIRS: f32 = 12.0;
/// Related passages often share few words, so links that are right four times in five get the full weight.
const SHARE_GOOD: f32 = 0.8;
/// Scores in a fused list are so close that even a small weight decides between neighbours; below this it is zero.
const WORTH_MIN: f32 = 0.3;
/// The share expected by chance.
const SHARE_NOTHING: f32 = 0.5;

/// Names of passages in one state of the index.
#[derive(Default)]
pub(crate) struct Links {
    titles: HashMap<String, Vec<u32>>,
    first_words: HashSet<String>,
    title_words_max: usize,
    /// Names that are common words.
    common: HashSet<String>,
    /// `path` and `path#heading`.
    addresses: HashMap<String, u32>,
    /// The weight of links here, from 0 to 1.
    pub(crate) worth: f32,
}

/// A row that a text names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) row: u32,
    /// Number of words of the name. Longer names are more reliable.
    pub(crate) words: usize,
    /// Number of rows with this name.
    pub(crate) namesakes: usize,
}

/// A passage of the sample.
pub(crate) struct Sampled {
    pub(crate) row: u32,
    pub(crate) title: String,
    pub(crate) text: String,
}

impl Links {
    pub(crate) fn name(&mut self, title: &str, row: u32) {
        let names = words::plain(title);
        self.put(&names, row);
        // `Viva (channel)` is also called Viva.
        if let Some((short, _)) = title.split_once(" (") {
            let short = words::plain(short);
            if short.len() < names.len() {
                self.put(&short, row);
            }
        }
    }

    fn put(&mut self, names: &[String], row: u32) {
        let is_specific = names.iter().any(|word| word.chars().count() > 2 && !words::is_stop_word(word));
        if !is_specific || names.len() > TITLE_WORDS_MAX {
            return;
        }
        self.title_words_max = self.title_words_max.max(names.len());
        self.first_words.insert(names[0].clone());
        let rows = self.titles.entry(names.join(" ")).or_default();
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }

    pub(crate) fn place(&mut self, file: &str, heading: Option<&str>, row: u32) {
        let address = heading.map_or_else(|| file.to_owned(), |heading| format!("{file}#{}", slug(heading)));
        self.addresses.entry(address).or_insert(row);
    }

    /// The rows a text names, in text order.
    pub(crate) fn named(&self, text: &str) -> Vec<Named> {
        let mut named: Vec<Named> = Vec::new();
        let mut known = HashSet::new();
        self.scan(text, |name, rows, words| {
            if !self.common.contains(name) {
                // Bounds the cost of a name that thousands of passages have.
                for row in rows.iter().take(NAMESAKES_MAX) {
                    if known.insert(*row) {
                        named.push(Named { row: *row, words, namesakes: rows.len() });
                    }
                }
            }
        });
        named
    }

    fn scan<'a>(&'a self, text: &str, mut see: impl FnMut(&'a str, &'a [u32], usize)) {
        let words = words::plain(text);
        let mut at = 0;
        while at < words.len() {
            let mut step = 1;
            if self.first_words.contains(&words[at]) {
                for count in (1..=self.title_words_max.min(words.len() - at)).rev() {
                    if let Some((name, rows)) = self.titles.get_key_value(&words[at..at + count].join(" ")) {
                        see(name, rows, count);
                        step = count;
                        break;
                    }
                }
            }
            at += step;
        }
    }

    /// The target of a written link, if it is in the index.
    pub(crate) fn target(&self, file: &str, link: &str) -> Option<u32> {
        let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
        if path.contains("://") || path.starts_with("mailto:") {
            return None;
        }
        let path = if path.is_empty() { file.to_owned() } else { joined(file, path) };
        let exact = heading.and_then(|heading| self.addresses.get(&format!("{path}#{}", slug(heading))));
        exact.or_else(|| self.addresses.get(&path)).copied()
    }

    /// Finds common words and the weight of links in a sample.
    pub(crate) fn measure(&mut self, sample: &[Sampled], passages: usize, passages_with: &dyn Fn(&str) -> u64) {
        let mut times: HashMap<&str, usize> = HashMap::new();
        for passage in sample {
            let mut seen = HashSet::new();
            self.scan(&passage.text, |name, _, _| {
                if seen.insert(name) {
                    *times.entry(name).or_default() += 1;
                }
            });
        }
        let many = (sample.len() / COMMON_ONE_IN).max(COMMON_MIN);
        self.common = times.into_iter().filter(|(_, count)| *count > many).map(|(name, _)| name.to_owned()).collect();

        let weigh = |text: &str, without: &HashSet<String>| -> HashMap<String, f32> {
            let mut weights: HashMap<String, f32> = HashMap::new();
            for term in words::terms(text) {
                if !without.contains(&term) {
                    *weights.entry(term).or_default() += 1.0;
                }
            }
            for (term, weight) in &mut weights {
                let rarity = (1.0 + passages as f32 / (1.0 + passages_with(term) as f32)).ln();
                *weight = (1.0 + weight.ln()) * rarity;
            }
            let length = weights.values().map(|weight| weight * weight).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            weights.values_mut().for_each(|weight| *weight /= length);
            weights
        };
        let alike =
            |a: &HashMap<String, f32>, b: &HashMap<String, f32>| a.iter().filter_map(|(term, weight)| Some(weight * b.get(term)?)).sum::<f32>();
        let by_row: HashMap<u32, &Sampled> = sample.iter().map(|passage| (passage.row, passage)).collect();
        let (mut won, mut pairs) = (0.0, 0.0);
        for (at, passage) in sample.iter().enumerate() {
            for Named { row, .. } in self.named(&passage.text) {
                let Some(named) = by_row.get(&row).filter(|named| named.row != passage.row && named.title != passage.title) else { continue };
                // A distant passage of the sample, chosen deterministically.
                let anybody = &sample[(at + sample.len() / 2 + row as usize) % sample.len()];
                if anybody.row == passage.row || anybody.row == row || pairs >= SAMPLE_PAIRS as f32 {
                    continue;
                }
                // The names themselves do not count as shared words.
                let without: HashSet<String> = [&named.title, &passage.title, &anybody.title].iter().flat_map(|title| words::terms(title)).collect();
                let own = weigh(&passage.text, &without);
                let (linked, unlinked) = (alike(&own, &weigh(&named.text, &without)), alike(&own, &weigh(&anybody.text, &without)));
                pairs += 1.0;
                won += if linked > unlinked {
                    1.0
                } else if linked < unlinked {
                    0.0
                } else {
                    0.5
                };
            }
        }
        let share = (won + SHARE_NOTHING * DOUBT_PAIRS) / (pairs + DOUBT_PAIRS);
        let worth = ((share - SHARE_NOTHING) / (SHARE_GOOD - SHARE_NOTHING)).min(1.0);
        self.worth = if worth < WORTH_MIN { 0.0 } else { worth };
    }

    /// The sampled rows: all of a small corpus, and contiguous blocks of a large one, so that both ends of links are in it.
    pub(crate) fn sample(&self, rows: &[u32], text: &mut dyn FnMut(u32) -> Option<String>) -> Vec<u32> {
        let step = rows.len().div_ceil(SAMPLE_ROWS / 2).max(1);
        let mut chosen: Vec<u32> = rows.iter().copied().step_by(step).collect();
        let mut known: HashSet<u32> = chosen.iter().copied().collect();
        for row in chosen.clone() {
            if known.len() >= SAMPLE_ROWS {
                break;
            }
            let named = text(row).map(|text| self.named(&text)).unwrap_or_default();
            for named in named.into_iter().take(3) {
                if known.insert(named.row) {
                    chosen.push(named.row);
                }
            }
        }
        chosen
    }
}

/// The anchor that Markdown sites generate for a heading.
fn slug(heading: &str) -> String {
    words::plain(heading).join("-").replace('_', "-")
}

/// Resolves a path relative to a file.
fn joined(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { file.split('/').collect() };
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if path.starts_with('/') { format!("/{}", parts.join("/")) } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(titles: &[&str]) -> Links {
        let mut links = Links::default();
        for (row, title) in titles.iter().enumerate() {
            links.name(title, row as u32);
        }
        links
    }

    #[test]
    fn the_longest_name_is_meant() {
        let links = links(&["York", "New York", "Viva (channel)", "The", "a b", "São Paulo"]);
        let cases: [(&str, &[u32]); 6] = [
            ("He moved to New York in 1990.", &[1]),
            ("york, then new york", &[0, 1]),
            ("on VIVA's air", &[2]),
            ("The viva (channel)", &[2]),
            ("in Sao Paulo", &[5]),
            ("nothing here", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(links.named(text).iter().map(|named| named.row).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn written_links_lead_to_passages() {
        let mut links = Links::default();
        links.place("/docs/guide/start.md", None, 1);
        links.place("/docs/guide/start.md", Some("First steps!"), 2);
        links.place("/docs/api.md", None, 3);
        let cases = [
            ("/docs/guide/start.md", "#first-steps", Some(2)),
            ("/docs/guide/start.md", "../api.md", Some(3)),
            ("/docs/api.md", "guide/start.md#first-steps", Some(2)),
            ("/docs/api.md", "./guide/start.md#unknown", Some(1)),
            ("/docs/api.md", "/docs/api.md", Some(3)),
            ("/docs/api.md", "https://example.org/api.md", None),
            ("/docs/api.md", "../../../../..", None),
        ];
        for (file, link, expected) in cases {
            assert_eq!(links.target(file, link), expected, "{link} in {file}");
        }
    }

    fn worth(passages: &[(&str, String)]) -> f32 {
        let titles: Vec<&str> = passages.iter().map(|(title, _)| *title).collect();
        let mut links = links(&titles);
        let sample: Vec<Sampled> =
            passages.iter().enumerate().map(|(row, (title, text))| Sampled { row: row as u32, title: (*title).into(), text: text.clone() }).collect();
        let frequency = |term: &str| sample.iter().filter(|passage| words::terms(&passage.text).iter().any(|word| word == term)).count() as u64;
        links.measure(&sample, sample.len(), &frequency);
        links.worth
    }

    #[test]
    fn links_count_where_they_are_informative() {
        let names = [
            "Amber", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel", "Ivy", "Juniper", "Kelp", "Larch", "Maple", "Nettle", "Oak",
            "Poplar",
        ];
        let subject = ["river stone water boat", "engine piston fuel valve", "violin concerto bow string", "market price bond yield"];
        let about = |at: usize, named: usize| format!("{} belongs to {} and to {}", names[at], names[named], subject[at / 4]);
        let good: Vec<_> = (0..16).map(|at| (names[at], about(at, at / 4 * 4 + (at + 1) % 4))).collect();
        let noise: Vec<_> = (0..16).map(|at| (names[at], about(at, (at + 4) % 16))).collect();
        assert!(worth(&good) > 0.4, "{}", worth(&good));
        assert!(worth(&noise) < 0.15, "{}", worth(&noise));
    }
}
