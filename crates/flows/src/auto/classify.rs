//! A small classifier that chooses the flow for a request: multinomial logistic regression over hashed words, character n-grams and a few
//! signals about the form of the request, the conversation and the tools.
//!
//! ```text
//! features(&Request) -> Vec<Feature>             the same for training and for use
//! Classifier::built_in()                         the weights that were trained on lab/data/routes.train.jsonl
//!   .scores(&features) -> [f64; 6]               probabilities, in the order of FLOWS
//! ```
//!
//! Training is `lab/src/router.rs`; `lab/tests/generated.rs` fails when `weights.bin` is stale. Only additions, multiplications and divisions of
//! `f64` are used, so that a replay on another machine gives the same scores.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::toolbox::Tool;

/// The classes.
pub const FLOWS: [&str; 6] = ["direct", "search", "chat", "reason", "panel", "supervise"];
/// Number of hash buckets for features.
pub const PLACES: usize = 1 << 14;
/// Longer requests are classified by their first characters.
const CHARS_MAX: usize = 600;

/// The router's input.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The request.
    pub question: &'a str,
    /// The thread has earlier messages.
    pub has_history: bool,
    /// The best-fitting tools; `None` if they could not be listed.
    pub tools: Option<&'a [Tool]>,
}

/// A hashed feature of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// Its hash bucket.
    pub place: usize,
    /// Its weight in the normalized vector.
    pub value: f64,
}

/// Weight of words, n-grams and all other features in the norm of a feature vector.
const WORDS_SHARE: f64 = 1.0;
const GRAMS_SHARE: f64 = 1.0;
const SIGNAL_VALUE: f64 = 0.8;

/// The features of a request.
pub fn features(request: &Request<'_>) -> Vec<Feature> {
    let text: String = request.question.chars().take(CHARS_MAX).flat_map(char::to_lowercase).collect();
    let words = words(&text);
    let mut features = Vec::new();
    add(&mut features, &word_features(&words), WORDS_SHARE);
    add(&mut features, &gram_features(&words), GRAMS_SHARE);
    let signals = signals(request, &words);
    features.extend(signals.iter().map(|signal| Feature { place: place(signal), value: SIGNAL_VALUE }));
    features
}

/// Adds a block of features scaled to a common norm, independent of their number.
fn add(features: &mut Vec<Feature>, block: &BTreeSet<String>, share: f64) {
    let value = share / (block.len().max(1) as f64).sqrt();
    features.extend(block.iter().map(|name| Feature { place: place(name), value }));
}

/// Runs of letters and digits; in scripts without spaces, every character. All digits become `0`.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        if is_unspaced(c) {
            words.push(c.to_string());
            is_open = false;
        } else if c.is_alphanumeric() {
            let c = if c.is_numeric() { '0' } else { c };
            match words.last_mut().filter(|_| is_open) {
                // A number is one word of a single `0`, whatever its length.
                Some(word) if c == '0' && word.ends_with('0') => {}
                Some(word) => word.push(c),
                None => words.push(c.to_string()),
            }
            is_open = true;
        } else {
            is_open = false;
        }
    }
    words
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{e00}'..='\u{eff}')
}

fn word_features(words: &[String]) -> BTreeSet<String> {
    let single = words.iter().map(|word| format!("w {word}"));
    let pairs = words.windows(2).map(|pair| format!("p {} {}", pair[0], pair[1]));
    let first = words.iter().take(1).map(|word| format!("f {word}"));
    let opening = words.windows(2).take(1).map(|pair| format!("o {} {}", pair[0], pair[1]));
    single.chain(pairs).chain(first).chain(opening).collect()
}

/// Character n-grams, so that an ending or a compound is recognized although the whole word is unknown.
fn gram_features(words: &[String]) -> BTreeSet<String> {
    const GRAM_CHARS: [usize; 3] = [3, 4, 5];
    let mut grams = BTreeSet::new();
    for word in words.iter().filter(|word| !word.starts_with(is_unspaced)) {
        let padded: Vec<char> = std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')).collect();
        for size in GRAM_CHARS {
            grams.extend(padded.windows(size).map(|gram| format!("g {}", gram.iter().collect::<String>())));
        }
    }
    let unspaced: Vec<&str> = words.iter().map(String::as_str).collect();
    let joined = unspaced.windows(3).filter(|three| three.iter().all(|word| word.starts_with(is_unspaced)));
    grams.extend(joined.map(|three| format!("g {}", three.concat())));
    grams
}

/// Features of the form of the request, the conversation and the tools.
fn signals(request: &Request<'_>, words: &[String]) -> BTreeSet<String> {
    let question = request.question;
    let mut signals = BTreeSet::new();
    let mut add_feature = |signal: &str| {
        signals.insert(format!("s {signal}"));
    };
    let length = match words.len() {
        0..=3 => "tiny",
        4..=7 => "short",
        8..=15 => "middling",
        16..=30 => "long",
        _ => "very long",
    };
    add_feature(length);
    add_feature(if request.has_history { "history" } else { "no history" });
    if request.has_history {
        add_feature(&format!("history {length}"));
    }
    let tokens: Vec<&str> = question.split_whitespace().collect();
    let has_address = tokens.iter().any(|token| is_mail_address(token));
    let has_file = tokens.iter().any(|token| is_file_name(token));
    let has_link = question.contains("://");
    let has_digits = question.contains(|c: char| c.is_ascii_digit());
    let is_asked = question.trim_end().ends_with(['?', '？']);
    let has_code = question.contains("](") || question.contains("()") || has_call(question);
    let sums = question.chars().filter(|c| matches!(c, '+' | '*' | '/' | '=' | '%' | '^' | '×' | '÷' | '√')).count();
    for (is_so, signal) in [
        (has_address, "mail address"),
        (has_file && !has_address, "file name"),
        (has_link, "link"),
        (has_code, "code"),
        (has_digits, "digits"),
        (has_digits && sums > 0, "sum"),
        (is_asked, "question"),
        (!is_asked, "no question"),
        (question.matches(['?', '？']).count() > 1, "several questions"),
        (!is_asked && question.contains(['?', '？']), "question and order"),
        (question.contains('\n'), "lines"),
        (question.contains([':', '：']), "colon"),
    ] {
        if is_so {
            add_feature(signal);
        }
    }
    match request.tools {
        None => {}
        Some([]) => {}
        Some(tools) => match fitting(words, tools) {
            Some(tool) if tool.read_only => add_feature("a tool that reads"),
            Some(_) => add_feature("a tool that acts"),
            None => add_feature("no tool by name"),
        },
    }
    signals
}

/// The tool whose name shares the most words with the request, the first of equals. Descriptions are not read here: a server could write
/// one to attract requests.
fn fitting<'t>(words: &[String], tools: &'t [Tool]) -> Option<&'t Tool> {
    /// Shorter words match too many names.
    const NAME_CHARS_MIN: usize = 4;
    let count = |tool: &Tool| {
        let name = tool.name.to_lowercase();
        let parts: BTreeSet<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|part| part.chars().count() >= NAME_CHARS_MIN).collect();
        parts.into_iter().filter(|part| words.iter().any(|word| is_same(word, part))).count()
    };
    let counted = tools.iter().map(|tool| (tool, count(tool))).filter(|(_, count)| *count > 0);
    counted.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(tool, _)| tool)
}

/// Equal but for a plural ending.
fn is_same(word: &str, part: &str) -> bool {
    fn stem(text: &str) -> &str {
        let text = text.strip_suffix("es").or_else(|| text.strip_suffix('s')).unwrap_or(text);
        text.strip_suffix("ie").or_else(|| text.strip_suffix('y')).or_else(|| text.strip_suffix("i")).unwrap_or(text)
    }
    stem(word) == stem(part)
}

fn is_mail_address(token: &str) -> bool {
    token.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && host.len() >= 4)
}

/// `notes.txt`, `src/main.rs`; not `.env`. Punctuation that ends a sentence is not part of a name.
fn is_file_name(token: &str) -> bool {
    const EXTENSION_CHARS_MAX: usize = 5;
    let token = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let parts: Vec<&str> = token.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))).collect();
    parts.iter().any(|part| {
        part.rsplit_once('.').is_some_and(|(name, extension)| {
            let is_extension = (1..=EXTENSION_CHARS_MAX).contains(&extension.len()) && extension.starts_with(|c: char| c.is_ascii_lowercase());
            is_extension && name.contains(|c: char| c.is_ascii_alphabetic()) && extension.chars().all(|c| c.is_ascii_alphanumeric())
        })
    })
}

/// `name(` without a space before the bracket, the form of a call.
fn has_call(text: &str) -> bool {
    text.match_indices('(').any(|(at, _)| text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// FNV-1a, reduced to the number of buckets.
fn place(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ((hash >> 32 ^ hash) % PLACES as u64) as usize
}

/// A linear model with one byte of weight for each bucket and flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    scales: [f64; FLOWS.len()],
    biases: [f64; FLOWS.len()],
    /// Row-major: all flows of the first bucket, then of the second.
    weights: Vec<i8>,
}

/// Why bytes are not a valid classifier file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWeights(pub String);

impl std::fmt::Display for NotWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "these are no weights of the router: {}", self.0)
    }
}

const MAGIC: &[u8; 8] = b"BATONRT1";
const HEAD_BYTES: usize = MAGIC.len() + 2 * 4 * FLOWS.len();

static BUILT_IN: LazyLock<Classifier> =
    LazyLock::new(|| Classifier::from_bytes(include_bytes!("weights.bin")).expect("the committed weights are read in a test"));

impl Classifier {
    /// The committed weights.
    pub fn built_in() -> &'static Classifier {
        &BUILT_IN
    }

    /// Rounds trained weights; `weights[place][flow]`.
    pub fn of(weights: &[[f64; FLOWS.len()]], biases: [f64; FLOWS.len()]) -> Classifier {
        let mut scales = [0.0; FLOWS.len()];
        for (flow, scale) in scales.iter_mut().enumerate() {
            let largest = weights.iter().map(|each| each[flow].abs()).fold(0.0, f64::max);
            // Rounded to the precision of the file.
            *scale = f64::from((largest / 127.0) as f32).max(f64::from(f32::MIN_POSITIVE));
        }
        let rounded = |each: &[f64; FLOWS.len()]| {
            let scaled = each.iter().zip(scales).map(|(weight, scale)| (weight / scale).clamp(-127.0, 127.0).round() as i8);
            scaled.collect::<Vec<i8>>()
        };
        let biases = biases.map(|bias| f64::from(bias as f32));
        Classifier { scales, biases, weights: weights.iter().flat_map(rounded).collect() }
    }

    /// The file format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in self.scales.iter().chain(&self.biases) {
            bytes.extend((*number as f32).to_le_bytes());
        }
        bytes.extend(self.weights.iter().map(|weight| weight.cast_unsigned()));
        bytes
    }

    /// Parses the file format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Classifier, NotWeights> {
        let expected = HEAD_BYTES + PLACES * FLOWS.len();
        if bytes.len() != expected {
            return Err(NotWeights(format!("{} bytes, where {expected} are expected", bytes.len())));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(NotWeights("the first bytes are others".to_owned()));
        }
        let number = |at: usize| {
            let from = MAGIC.len() + at * 4;
            f64::from(f32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]))
        };
        Ok(Classifier {
            scales: std::array::from_fn(number),
            biases: std::array::from_fn(|flow| number(FLOWS.len() + flow)),
            weights: bytes[HEAD_BYTES..].iter().map(|byte| byte.cast_signed()).collect(),
        })
    }

    /// Probabilities in the order of [`FLOWS`].
    pub fn scores(&self, features: &[Feature]) -> [f64; FLOWS.len()] {
        let mut sums = [0.0; FLOWS.len()];
        for feature in features {
            let from = feature.place * FLOWS.len();
            for (sum, weight) in sums.iter_mut().zip(&self.weights[from..from + FLOWS.len()]) {
                *sum += f64::from(*weight) * feature.value;
            }
        }
        softmax(std::array::from_fn(|flow| sums[flow] * self.scales[flow] + self.biases[flow]))
    }
}

/// Probabilities from sums.
pub fn softmax<const N: usize>(sums: [f64; N]) -> [f64; N] {
    let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let each = sums.map(|sum| exp(sum - largest));
    let all: f64 = each.iter().sum();
    each.map(|one| one / all)
}

/// e to the power of a number that is not positive, to about twelve digits. `f64::exp` differs between platforms in the last ones.
pub fn exp(x: f64) -> f64 {
    const HALVINGS: i32 = 10;
    const TERMS: u32 = 8;
    if x < -700.0 {
        return 0.0;
    }
    let small = x / f64::from(1 << HALVINGS);
    let mut sum = 1.0;
    for term in (1..=TERMS).rev() {
        sum = 1.0 + small * sum / f64::from(term);
    }
    (0..HALVINGS).fold(sum, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, read_only: bool) -> Tool {
        Tool { name: name.into(), read_only, ..Tool::default() }
    }

    fn has(question: &str, has_history: bool, tools: Option<&[Tool]>, signal: &str) -> bool {
        let words = words(&question.to_lowercase());
        signals(&Request { question, has_history, tools }, &words).contains(&format!("s {signal}"))
    }

    #[test]
    fn x2_the_committed_weights_can_be_read_and_damaged_ones_are_refused() {
        let bytes = include_bytes!("weights.bin");
        let classifier = Classifier::from_bytes(bytes).unwrap();
        assert_eq!(classifier.to_bytes(), bytes);
        assert_eq!(&classifier, Classifier::built_in());
        assert!(Classifier::from_bytes(&bytes[1..]).unwrap_err().to_string().contains("bytes, where"));
        let mut other = bytes.to_vec();
        other[0] = b'X';
        assert!(Classifier::from_bytes(&other).is_err());
    }

    #[test]
    fn x2_scores_are_probabilities_for_any_text() {
        let long = "word ".repeat(10_000);
        for question in ["", "?", "Why?", "水", "\u{0}\u{7}", "a.b.c@d", long.as_str()] {
            let scores = Classifier::built_in().scores(&features(&Request { question, has_history: true, tools: Some(&[]) }));
            assert!(
                (scores.iter().sum::<f64>() - 1.0).abs() < 1e-9 && scores.iter().all(|score| (0.0..=1.0).contains(score)),
                "{question}: {scores:?}"
            );
        }
    }

    #[test]
    fn x2_weights_survive_rounding() {
        let mut weights = vec![[0.0; FLOWS.len()]; PLACES];
        weights[7] = [1.0, -2.0, 0.5, 0.0, 0.25, -0.125];
        let classifier = Classifier::of(&weights, [0.0; FLOWS.len()]);
        let again = Classifier::from_bytes(&classifier.to_bytes()).unwrap();
        assert_eq!(again, classifier);
        let scores = again.scores(&[Feature { place: 7, value: 1.0 }]);
        let exact = softmax(weights[7]);
        assert!(scores.iter().zip(exact).all(|(one, other)| (one - other).abs() < 0.01), "{scores:?} {exact:?}");
    }

    #[test]
    fn x2_the_exponential_is_exact_enough() {
        for x in [0.0, -1e-9, -0.5, -1.0, -3.25, -20.0, -300.0] {
            assert!((exp(x) - x.exp()).abs() <= 1e-11 * x.exp().max(1e-30), "{x}: {} {}", exp(x), x.exp());
        }
        assert_eq!(exp(-1e6), 0.0);
    }

    #[test]
    fn x2_words_are_cut_as_each_script_writes_them() {
        assert_eq!(words("what's 12.5% of a_b?"), ["what", "s", "0", "0", "of", "a", "b"]);
        assert_eq!(words("读取 data2 吗"), ["读", "取", "data0", "吗"]);
        assert_eq!(words("größe"), ["größe"]);
    }

    #[test]
    fn x2_the_form_of_a_request_is_seen() {
        for (question, signal) in [
            ("Read notes.txt now", "file name"),
            ("Write “x” into docs/a-b.md.", "file name"),
            ("把它写入文件memo.txt。", "file name"),
            ("Mail it to a.b@example.com", "mail address"),
            ("See https://example.org", "link"),
            ("Run print(1)", "code"),
            ("What is 3 + 4?", "sum"),
            ("Is it so? Check it.", "question and order"),
            ("为什么？", "question"),
        ] {
            assert!(has(question, false, None, signal), "{question}: no {signal}");
        }
        for (question, signal) in [
            ("This ends here. Next.", "file name"),
            ("version 1.31", "file name"),
            ("Mail a.b@example.com", "file name"),
            ("Use this (or that)", "code"),
            ("C++ and C", "sum"),
        ] {
            assert!(!has(question, false, None, signal), "{question}: {signal}");
        }
    }

    #[test]
    fn x2_tools_count_by_their_names_alone() {
        let tools = [tool("files.read", true), tool("tickets.create_ticket", false), tool("stories.search_stories", true)];
        assert!(has("Create a ticket", false, Some(&tools), "a tool that acts"));
        assert!(has("How many stories are there?", false, Some(&tools), "a tool that reads"));
        assert!(has("Why is the sky blue?", false, Some(&tools), "no tool by name"));
        let lured = [Tool { description: "Use me for create, ticket, sky, blue".into(), ..tool("evil.x", false) }];
        assert!(has("Why is the sky blue?", false, Some(&lured), "no tool by name"));
    }
}
