//! Spans, parsed once: words, numbers, dates and an index of stems, so that many sentences can be checked cheaply.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::date::{Date, dates};
use crate::derive::{Derived, Field, Label, nouns};
use crate::fence;
use crate::lists;
use crate::number::{Number, numbers};
use crate::sentences::sentences;
use crate::span::{Form, Span};
use crate::words::{Scanner, Shape, Word};

/// Spans that answers can be checked against. A span's number is its position, from 1.
pub struct Spans<'s> {
    all: &'s [Span],
    pub(crate) read: Vec<Read>,
    vocabulary: HashMap<String, u32>,
    /// The same, sorted, to find words with the same beginning.
    sorted: Vec<(String, u32)>,
    /// For each stem, the spans with it and its frequency.
    pub(crate) postings: Vec<Vec<(u32, u32)>>,
}

pub(crate) struct Read {
    /// Title and location, then the text, without invisible characters.
    pub(crate) text: String,
    pub(crate) words: Vec<Word>,
    pub(crate) stems: Vec<u32>,
    /// Sentences as ranges of words; the first `heads` of them are title and location.
    pub(crate) sentences: Vec<Range<usize>>,
    pub(crate) heads: usize,
    pub(crate) plains: HashSet<String>,
    /// `who` of `World Health Organization`.
    pub(crate) initials: HashSet<String>,
    pub(crate) numbers: Vec<Number>,
    pub(crate) dates: Vec<Date>,
    pub(crate) years: Vec<u32>,
    pub(crate) address: String,
    pub(crate) form: Form,
    /// For lines of `field: value`: the words of each line, and the stems of its field's name.
    pub(crate) fields: Vec<Field>,
    /// The arguments of the tool call, for spans that are its whole reply.
    pub(crate) label: Option<Label>,
    pub(crate) derived: Vec<Derived>,
    /// What the rows are, or what a total counts: stems of the list's and the tool's names.
    pub(crate) nouns: HashSet<String>,
}

impl<'s> Spans<'s> {
    /// Prepares the words and facts of spans for checks.
    pub fn new(spans: &'s [Span]) -> Spans<'s> {
        let mut scanner = Scanner::default();
        let mut vocabulary: HashMap<String, u32> = HashMap::new();
        let mut postings: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut read = Vec::with_capacity(spans.len());
        for (place, span) in spans.iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            let one = Read::new(span, &mut scanner, &mut |stem| {
                let next = u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
                let id = match vocabulary.get(stem) {
                    Some(id) => *id,
                    None => {
                        vocabulary.insert(stem.to_owned(), next);
                        postings.push(Vec::new());
                        next
                    }
                };
                let found = &mut postings[id as usize];
                match found.last_mut() {
                    Some((last, count)) if *last == place => *count += 1,
                    _ => found.push((place, 1)),
                }
                id
            });
            read.push(one);
        }
        let mut sorted: Vec<(String, u32)> = vocabulary.iter().map(|(stem, id)| (stem.clone(), *id)).collect();
        sorted.sort();
        Spans { all: spans, read, vocabulary, sorted, postings }
    }

    /// The spans, in order.
    pub fn all(&self) -> &'s [Span] {
        self.all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The span of a number, from 1.
    pub fn get(&self, number: usize) -> Option<&'s Span> {
        self.all.get(number.checked_sub(1)?)
    }

    /// The stems in these spans that a word matches, with weights: itself, another form, the people of a place.
    pub(crate) fn stems_of(&self, word: &Word) -> Vec<(u32, f32)> {
        let mut found = Vec::new();
        if let Some(id) = self.vocabulary.get(&word.stem) {
            found.push((*id, 1.0));
        }
        for other in lists::demonyms(&word.plain) {
            if let Some(id) = self.vocabulary.get(other).or_else(|| self.vocabulary.get(other.trim_end_matches('s'))) {
                found.push((*id, 1.0));
            }
        }
        // `discoveri` and `discov`: forms of one word with different stems.
        const ALIKE_BYTES_MIN: usize = 5;
        if word.shape != Shape::Number && word.stem.is_ascii() && word.stem.len() >= ALIKE_BYTES_MIN {
            let prefix = &word.stem[..ALIKE_BYTES_MIN];
            let from = self.sorted.partition_point(|(stem, _)| stem.as_str() < prefix);
            for (stem, id) in self.sorted[from..].iter().take_while(|(stem, _)| stem.starts_with(prefix)) {
                let shared = stem.bytes().zip(word.stem.bytes()).take_while(|(a, b)| a == b).count();
                let longer = stem.len().max(word.stem.len());
                if *stem != word.stem && shared * 10 >= longer * 7 {
                    found.push((*id, 0.8));
                }
            }
        }
        found
    }
}

/// A longer text states its own topic.
const LABELLED_BYTES_MAX: usize = 400;

impl Read {
    fn new(span: &Span, scanner: &mut Scanner, note: &mut dyn FnMut(&str) -> u32) -> Read {
        let mut text = String::new();
        for head in [&span.title, &span.place].into_iter().flatten().filter(|head| !head.trim().is_empty()) {
            text.push_str(fence::visible(head).split_whitespace().collect::<Vec<_>>().join(" ").as_str());
            text.push_str("\n\n");
        }
        let heads_end = text.len();
        text.push_str(&fence::visible(&span.text));
        let words = scanner.words(&text);
        let stems = words.iter().map(|word| note(&word.stem)).collect();
        let mut at = 0;
        let mut heads = 0;
        let mut ranges = Vec::new();
        // The text is split separately from the headings, which are not Markdown.
        let head_sentence = 0..heads_end;
        let body = sentences(&text[heads_end..]).into_iter().map(|range| range.start + heads_end..range.end + heads_end);
        for sentence in (heads_end > 0).then_some(head_sentence).into_iter().chain(body) {
            let from = at;
            while at < words.len() && words[at].range.start < sentence.end {
                at += 1;
            }
            if at > from {
                heads += usize::from(sentence.end <= heads_end);
                ranges.push(from..at);
            }
        }
        if at < words.len() {
            ranges.push(at..words.len());
        }
        let dates = dates(&text, &words);
        let mut numbers = numbers(&text, &words);
        // The 7 of `7 November 1867` does not count anything.
        numbers.retain(|number| {
            !dates.iter().any(|date| {
                date.words.contains(&number.words.start) && number.value <= 31.0 && (date.year.is_some() || date.words.start == number.words.start)
            })
        });
        let years = numbers
            .iter()
            .filter(|number| number.is_year())
            .map(|number| number.value as u32)
            .chain(dates.iter().filter_map(|date| date.year))
            .collect();
        if span.form == Form::Derived {
            // They are in `facts`, with what each one counts.
            numbers.clear();
        }
        let form = span.form;
        let derived: Vec<Derived> = span.facts.iter().map(|fact| Derived::new(fact, scanner)).collect();
        let fields = if matches!(form, Form::Scalars | Form::Rows) { Field::read(&text, heads_end, &words, scanner) } else { Vec::new() };
        let has_counts = !derived.is_empty() || form == Form::Scalars && fields.iter().any(|field| field.is_count);
        let nouns = if has_counts { nouns(span, scanner) } else { HashSet::new() };
        let is_whole_reply =
            span.is_summary() || form == Form::Text && span.title.is_none() && span.address.is_none() && span.text.len() <= LABELLED_BYTES_MAX;
        let label = span.task.as_deref().filter(|_| is_whole_reply).map(|task| Label::new(task, scanner, note));
        let plains = words.iter().flat_map(|word| [word.plain.clone(), word.stem.clone()]).collect();
        let initials = initials(&words);
        Read {
            text,
            words,
            stems,
            sentences: ranges,
            heads,
            plains,
            initials,
            numbers,
            dates,
            years,
            address: span.address.clone().unwrap_or_default(),
            form,
            fields,
            label,
            derived,
            nouns,
        }
    }

    /// Whether the words occur consecutively.
    pub(crate) fn has_in_a_row(&self, piece: &[String]) -> bool {
        let Some(first) = piece.first() else { return true };
        if piece.iter().any(|word| !self.plains.contains(word)) {
            return false;
        }
        let starts = self.words.windows(piece.len()).filter(|window| window[0].plain == *first);
        starts.into_iter().any(|window| window.iter().zip(piece).all(|(word, wanted)| word.plain == *wanted))
    }
}

fn initials(words: &[Word]) -> HashSet<String> {
    const LETTERS_MAX: usize = 6;
    let mut found = HashSet::new();
    for from in 0..words.len() {
        if !words[from].is_capital() {
            continue;
        }
        let (mut short, mut long) = (String::new(), String::new());
        for word in &words[from..words.len().min(from + 9)] {
            let is_joint = lists::CONNECTORS.contains(&word.plain.as_str());
            if (!word.is_capital() && !is_joint) || (word.breaks && !short.is_empty()) {
                break;
            }
            let Some(letter) = word.plain.chars().next() else { break };
            long.push(letter);
            if !is_joint {
                short.push(letter);
            }
            if short.chars().count() > LETTERS_MAX {
                break;
            }
            if short.chars().count() > 1 && !is_joint {
                found.insert(short.clone());
                found.insert(long.clone());
            }
        }
    }
    found
}
