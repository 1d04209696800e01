//! Trains the router's classifier (`flows::auto::classify`) on the labelled examples in `lab/data/routes.train.jsonl`.
//!
//! The same examples give the same bytes on every machine. `lab/tests/generated.rs` renews the committed weights; `cargo run -p baton-lab
//! --bin train_router` also reports the accuracy on examples left out of the training.

mod train;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flows::auto::classify::{Classifier, FLOWS, Feature, Request, features};
use flows::toolbox::Tool;
use serde::Deserialize;

pub use train::{Example, train};

/// One line of the training set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub flow: String,
    pub language: String,
    pub request: String,
    /// It makes sense only in a conversation.
    #[serde(default)]
    pub history: bool,
    /// Available tool sets; by default the built-in ones.
    #[serde(default = "built_in")]
    pub tools: Vec<String>,
}

fn built_in() -> Vec<String> {
    vec!["builtin".to_owned()]
}

/// The training set and the tools its lines name.
pub struct TrainingSet {
    pub lines: Vec<Line>,
    tools: BTreeMap<String, Vec<Tool>>,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).to_owned()
}

/// The committed weights, relative to the root.
pub const WEIGHTS: &str = "crates/flows/src/auto/weights.bin";
const LINES: &str = "lab/data/routes.train.jsonl";
const TOOLS: &str = "crates/measure/src/eval/routes/tools.json";

impl TrainingSet {
    /// Reads the committed set; the error names the file and the line.
    pub fn read() -> Result<TrainingSet, String> {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"));
        let line = |(at, text): (usize, &str)| serde_json::from_str::<Line>(text).map_err(|error| format!("{LINES}:{}: {error}", at + 1));
        let lines: Vec<Line> = read(LINES)?.lines().enumerate().map(line).collect::<Result<_, _>>()?;
        let tools: BTreeMap<String, Vec<Tool>> = serde_json::from_str(&read(TOOLS)?).map_err(|error| format!("{TOOLS}: {error}"))?;
        for (at, line) in lines.iter().enumerate() {
            if !FLOWS.contains(&line.flow.as_str()) {
                return Err(format!("{LINES}:{}: there is no flow {:?}; there are {}", at + 1, line.flow, FLOWS.join(", ")));
            }
            if let Some(unknown) = line.tools.iter().find(|name| !tools.contains_key(*name)) {
                return Err(format!("{LINES}:{}: {TOOLS} has no set {unknown:?}", at + 1));
            }
        }
        Ok(TrainingSet { lines, tools })
    }

    fn features(&self, line: &Line, has_history: bool) -> Vec<Feature> {
        let tools: Vec<Tool> = line.tools.iter().filter_map(|name| self.tools.get(name)).flatten().cloned().collect();
        features(&Request { question: &line.request, has_history, tools: Some(&tools) })
    }

    /// Requests that need no conversation are trained with one too, so that a conversation alone is not a signal.
    fn examples(&self, lines: &[&Line]) -> Vec<Example> {
        let mut examples = Vec::new();
        for line in lines {
            let flow = FLOWS.iter().position(|flow| *flow == line.flow).expect("flows are checked when the set is read");
            let histories: &[bool] = if line.history { &[true] } else { &[false, true] };
            examples.extend(histories.iter().map(|has_history| Example { features: self.features(line, *has_history), flow }));
        }
        examples
    }

    pub fn train(&self) -> Classifier {
        train(&self.examples(&self.lines.iter().collect::<Vec<_>>()))
    }

    /// The number of left-out lines classified correctly over all folds, and their total.
    pub fn cross_validate(&self, folds: usize) -> (usize, usize) {
        let mut right = 0;
        for fold in 0..folds {
            let is_out = |at: usize| at % folds == fold;
            let kept: Vec<&Line> = self.lines.iter().enumerate().filter(|(at, _)| !is_out(*at)).map(|(_, line)| line).collect();
            let classifier = train(&self.examples(&kept));
            right += self.lines.iter().enumerate().filter(|(at, line)| is_out(*at) && self.is_right(&classifier, line)).count();
        }
        (right, self.lines.len())
    }

    pub fn is_right(&self, classifier: &Classifier, line: &Line) -> bool {
        let scores = classifier.scores(&self.features(line, line.history));
        let best = FLOWS.iter().zip(scores).max_by(|a, b| a.1.total_cmp(&b.1));
        best.is_some_and(|(flow, _)| *flow == line.flow)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MEASURED: [&str; 2] = ["crates/measure/src/eval/routes/dev.jsonl", "crates/measure/src/eval/routes/held.jsonl"];
    /// Share of common words from which two requests count as equal.
    const SAME_MIN: f64 = 0.8;

    fn words(text: &str) -> BTreeSet<String> {
        let spaced: String = text.to_lowercase().chars().flat_map(|c| if c > '\u{3000}' { vec![' ', c] } else { vec![c] }).collect();
        spaced.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn x2_nothing_that_is_measured_is_trained_on() {
        let set = TrainingSet::read().unwrap();
        let trained: Vec<(&str, BTreeSet<String>)> = set.lines.iter().map(|line| (line.request.as_str(), words(&line.request))).collect();
        for path in MEASURED {
            let text = std::fs::read_to_string(root().join(path)).unwrap();
            for line in text.lines() {
                let case: serde_json::Value = serde_json::from_str(line).unwrap();
                let measured = words(case["request"].as_str().unwrap());
                for (request, words) in &trained {
                    let common = measured.intersection(words).count() as f64 / measured.union(words).count().max(1) as f64;
                    assert!(common < SAME_MIN, "{} is nearly the training line {request:?}", case["id"]);
                }
            }
        }
    }

    #[test]
    fn x2_the_training_set_has_every_flow_in_several_languages_and_no_line_twice() {
        let set = TrainingSet::read().unwrap();
        for flow in FLOWS {
            let languages: BTreeSet<&str> = set.lines.iter().filter(|line| line.flow == flow).map(|line| line.language.as_str()).collect();
            assert!(["en", "de", "fr", "es", "zh"].iter().all(|language| languages.contains(language)), "{flow}: {languages:?}");
        }
        let requests: BTreeSet<(&str, bool)> = set.lines.iter().map(|line| (line.request.as_str(), line.history)).collect();
        assert_eq!(requests.len(), set.lines.len());
    }
}
