//! Numbers that no text contains: row counts, sums, and the rows a sentence refers to.
//!
//! A computed number confirms a claim only if the sentence names what it counts: the value of the counted rows, or the column that was
//! added up. The count of all rows needs no name, but a sentence that names a value does not refer to all rows. So a number is not
//! confirmed by chance.

use std::collections::HashSet;
use std::ops::Range;

use crate::check::{Options, Problem, ProblemKind};
use crate::claim::Claim;
use crate::fact::{self, Fact, FactKind};
use crate::fields;
use crate::judge::counted;
use crate::number::{Number, Unit, numbers};
use crate::span::{Form, Span};
use crate::spans::{Read, Spans};
use crate::words::{Scanner, Shape, Word};

/// A fact with the stems that a sentence must contain to refer to it.
pub(crate) struct Derived {
    kind: FactKind,
    number: Number,
    column: Vec<String>,
    /// Empty means all rows.
    filter: Vec<String>,
    /// For a filter on `false`: the sentence must negate it.
    is_denied: bool,
    is_filtered: bool,
}

/// One line of `field: value`.
pub(crate) struct Field {
    /// The words of its value.
    words: Range<usize>,
    name: String,
    stems: Vec<String>,
    pub(crate) is_count: bool,
}

/// The arguments of the tool call.
pub(crate) struct Label {
    pub(crate) stems: Vec<u32>,
    plains: HashSet<String>,
    pub(crate) numbers: Vec<Number>,
}

/// Maximum number of row spans that are searched.
const ROWS_MAX: usize = 200;
/// A longer cell is a text, not a name.
const CELL_WORDS_MAX: usize = 6;
/// Parts of a column's name that a sentence need not repeat.
const GENERIC: &[&str] = &["total", "number", "num", "count", "value", "amount", "of", "sum", "the", "in", "is", "has", "n"];
/// Fields whose single number is the result, whatever the sentence calls it.
const RESULTS: &[&str] = &["result", "value", "answer", "output", "stdout", "amount", "sum", "number"];

/// The last words of `MIN` and `MAX` that refer to a range.
const RANGES: usize = 4;
const SUM: &[&str] = &["total", "sum", "together", "altogether", "combined", "overall", "add", "adds", "all"];
const MIN: &[&str] =
    &["smallest", "lowest", "minimum", "min", "least", "fewest", "cheapest", "shortest", "earliest", "slowest", "between", "from", "range", "ranges"];
const MAX: &[&str] = &[
    "largest", "highest", "maximum", "max", "most", "biggest", "longest", "greatest", "top", "latest", "fastest", "between", "to", "range", "ranges",
];
const MEAN: &[&str] = &["average", "mean", "averages", "averaged", "avg"];

impl Derived {
    pub(crate) fn new(fact: &Fact, scanner: &mut Scanner) -> Derived {
        let mut stems = |text: &str| -> Vec<String> {
            let parts = fields::parts(text).join(" ");
            let words = scanner.words(&parts);
            let kept: Vec<String> = words.iter().filter(|word| !word.is_stop).map(|word| word.stem.clone()).collect();
            if kept.is_empty() { words.into_iter().map(|word| word.stem).collect() } else { kept }
        };
        let column: Vec<String> = fact.column.as_deref().map(&mut stems).unwrap_or_default();
        let named: Vec<String> = column.iter().filter(|stem| !GENERIC.contains(&stem.as_str())).cloned().collect();
        let (filter, is_denied) = match &fact.filter {
            None => (Vec::new(), false),
            Some(filter) => match filter.value.as_deref() {
                Some("true") | None => (stems(&filter.field), false),
                Some("false") => (stems(&filter.field), true),
                Some(value) => (stems(value), false),
            },
        };
        Derived {
            kind: fact.kind,
            number: Number::computed(fact.value),
            column: if named.is_empty() { column } else { named },
            filter,
            is_denied,
            is_filtered: fact.filter.is_some(),
        }
    }

    fn is_filter_named(&self, clause: &Clause<'_>) -> bool {
        self.is_filtered && !self.filter.is_empty() && self.filter.iter().all(|stem| clause.has(stem)) && (!self.is_denied || clause.is_negated())
    }
}

impl Field {
    /// The lines of a text starting at `from`.
    pub(crate) fn read(text: &str, from: usize, words: &[Word], scanner: &mut Scanner) -> Vec<Field> {
        let mut found: Vec<Field> = Vec::new();
        let mut at = from;
        for line in text[from..].split_inclusive('\n') {
            let (begin, end) = (at, at + line.len());
            at = end;
            let Some((name, _)) = line.split_once(": ").filter(|(name, _)| !name.contains(' ') || name.len() <= 40) else { continue };
            let value = begin + name.len() + 1;
            let first = words.partition_point(|word| word.range.start < value);
            let last = words.partition_point(|word| word.range.start < end);
            let parts = fields::parts(name);
            let stems = scanner.words(&parts.join(" ")).into_iter().map(|word| word.stem).collect();
            found.push(Field { words: first..last, name: name.to_owned(), stems, is_count: fields::is_count(name) });
        }
        found
    }
}

impl Label {
    pub(crate) fn new(task: &str, scanner: &mut Scanner, note: &mut dyn FnMut(&str) -> u32) -> Label {
        // `stories.search_stories` in words.
        let (tool, asked) = task.split_once(" (").unwrap_or((task, ""));
        let text = format!("{} {}", fields::parts(tool).join(" "), asked.trim_end_matches(')'));
        let words = scanner.words(&text);
        let stems = words.iter().filter(|word| word.is_content()).map(|word| note(&word.stem)).collect();
        let plains = words.iter().flat_map(|word| [word.plain.clone(), word.stem.clone()]).collect();
        Label { stems, plains, numbers: numbers(&text, &words) }
    }

    pub(crate) fn has(&self, word: &Word) -> bool {
        self.plains.contains(&word.plain) || self.plains.contains(&word.stem)
    }
}

/// Names of a span's rows: from the list's and the tool's name.
pub(crate) fn nouns(span: &Span, scanner: &mut Scanner) -> HashSet<String> {
    let list = span.place.as_deref().filter(|_| span.form == Form::Derived).and_then(|place| place.rsplit('.').next()).unwrap_or_default();
    let tool = span.task.as_deref().unwrap_or(&span.source).split(" (").next().unwrap_or_default();
    let text = format!("{} {}", fields::parts(list).join(" "), fields::parts(tool).join(" "));
    scanner.words(&text).into_iter().filter(|word| word.is_content()).map(|word| word.stem).collect()
}

/// The part of a sentence around a number.
struct Clause<'c> {
    words: &'c [Word],
    range: Range<usize>,
}

impl Clause<'_> {
    fn has(&self, stem: &str) -> bool {
        self.words.iter().any(|word| word.stem == stem)
    }

    fn has_any(&self, plains: &[&str]) -> bool {
        self.words.iter().any(|word| plains.contains(&word.plain.as_str()))
    }

    fn is_negated(&self) -> bool {
        self.words.iter().any(|word| matches!(word.plain.as_str(), "not" | "no" | "never" | "without") || word.plain.ends_with("n't"))
    }
}

/// Delimited by commas and the like; `and`, `of which` and similar words delimit if a number follows.
fn clause<'c>(claim: &'c Claim, number: &Number) -> Clause<'c> {
    let words = &claim.words;
    let is_number = |at: usize| claim.numbers.iter().any(|other| other.words.start == at);
    let divides = |at: usize| {
        let joins = at > 0 && matches!(words[at - 1].plain.as_str(), "and" | "but" | "while" | "whereas");
        words[at].breaks || joins && (is_number(at) || words.get(at + 1).is_some() && is_number(at + 1))
    };
    let mut from = number.words.start;
    while from > 0 && !divides(from) {
        from -= 1;
    }
    let mut to = number.words.end.min(words.len());
    while to < words.len() && !divides(to) {
        to += 1;
    }
    // `done: 5` and `Total (points): 61`: a bare number belongs to the preceding words.
    let is_bare = |range: Range<usize>| !words[range].iter().any(Word::is_content);
    while from > 0 && is_bare(from..to) {
        from -= 1;
        while from > 0 && !divides(from) {
            from -= 1;
        }
    }
    Clause { words: &words[from..to], range: from..to }
}

/// Whether a fact of this span is what the sentence states with this number.
pub(crate) fn confirms(claim: &Claim, number: &Number, read: &Read) -> bool {
    !read.derived.is_empty() && {
        let clause = clause(claim, number);
        read.derived.iter().any(|fact| fits(claim, number, &clause, fact, read))
    }
}

fn fits(claim: &Claim, number: &Number, clause: &Clause<'_>, fact: &Derived, read: &Read) -> bool {
    if !number.is_borne_out_by(&fact.number) {
        return false;
    }
    if fact.kind != FactKind::Count {
        let is_named = fact.column.iter().all(|stem| claim.words.iter().any(|word| word.stem == *stem));
        // `On average, it was 21.75`: a single number belongs to the whole sentence.
        let whole = Clause { words: &claim.words, range: 0..claim.words.len() };
        let of = if claim.numbers.len() == 1 { &whole } else { clause };
        let is_kind = match fact.kind {
            FactKind::Sum => of.has_any(SUM) || ![MIN, MAX, MEAN].iter().any(|words| of.has_any(words)),
            FactKind::Min => of.has_any(MIN),
            FactKind::Max => of.has_any(MAX),
            FactKind::Mean => of.has_any(MEAN),
            FactKind::Count => true,
        };
        if !is_named || !is_kind {
            return false;
        }
    }
    if fact.is_filtered { fact.is_filter_named(clause) } else { means_all(claim, number, clause, read) }
}

/// Whether the clause refers to all rows: it names no value that only some have, or another number of it counts those.
fn means_all(claim: &Claim, number: &Number, clause: &Clause<'_>, read: &Read) -> bool {
    let named: Vec<&Derived> = read.derived.iter().filter(|fact| fact.kind == FactKind::Count && fact.is_filter_named(clause)).collect();
    // All rows have the values that the tool was asked for.
    let named: Vec<&Derived> = named
        .into_iter()
        .filter(|fact| !read.label.as_ref().is_some_and(|label| fact.filter.iter().all(|stem| label.plains.contains(stem))))
        .collect();
    let is_of =
        number.words.start > 0 && claim.words[..number.words.start].iter().rev().take(2).any(|word| matches!(word.plain.as_str(), "of" | "among"));
    let is_explained = || {
        let others = claim.numbers.iter().filter(|other| other.words.start != number.words.start && clause.range.contains(&other.words.start));
        others.into_iter().any(|other| named.iter().any(|fact| other.is_borne_out_by(&fact.number)))
    };
    named.is_empty() || is_of || is_explained()
}

/// Bit mask of the claim's numbers that a fact confirms.
pub(crate) fn confirmed_numbers(claim: &Claim, reads: &[&Read]) -> u64 {
    let is_borne = |number: &Number| reads.iter().any(|read| confirms(claim, number, read));
    claim.numbers.iter().take(64).enumerate().filter(|(_, number)| is_borne(number)).fold(0, |bits, (bit, _)| bits | (1 << bit))
}

/// Whether part of the claim is in the tool's reply, and not only in its arguments.
pub(crate) fn is_anchored(claim: &Claim, read: &Read) -> bool {
    let Some(label) = &read.label else { return false };
    let has_number =
        claim.numbers.iter().any(|number| read.numbers.iter().any(|given| number.is_borne_out_by(given)) || confirms(claim, number, read));
    let has_date = claim.dates.iter().any(|date| read.dates.iter().any(|given| date.is_borne_out_by(given, &read.years)));
    let has_value = || {
        let values = read.fields.iter().flat_map(|field| read.words[field.words.clone()].iter());
        let stems: HashSet<&str> = values.filter(|word| word.is_content()).map(|word| word.stem.as_str()).collect();
        claim.content.iter().any(|(index, _)| stems.contains(claim.words[*index].stem.as_str()) && !label.has(&claim.words[*index]))
    };
    has_number || has_date || read.form == Form::Scalars && has_value()
}

/// The tools' counts, where the claim counts the same things differently.
pub(crate) fn miscounted(claim: &Claim, number: &Number, reads: &[&Read], spans: &Spans<'_>) -> Option<String> {
    if !matches!(number.unit, Unit::None | Unit::Money(_) | Unit::Measure(_)) || number.is_year() || claim.words[number.words.start].joined {
        return None;
    }
    let clause = clause(claim, number);
    let noun = counted(&claim.words, &number.words);
    let is_stated = |read: &Read| read.numbers.iter().any(|given| counted(&read.words, &given.words) == noun && number.is_borne_out_by(given));
    if noun.is_some() && reads.iter().any(|read| read.form == Form::Text && is_stated(read)) {
        return None;
    }
    let mut given: Vec<String> = Vec::new();
    let mut is_right = false;
    let can_count = number.unit == Unit::None && number.value.fract() == 0.0;
    for read in spans.read.iter().filter(|read| can_count && !read.nouns.is_empty()) {
        let counts_noun = noun.is_some_and(|noun| read.nouns.contains(noun));
        let names_rows = counts_noun || claim.words.iter().any(|word| read.nouns.contains(&word.stem));
        let named: Vec<&Derived> = read.derived.iter().filter(|fact| fact.kind == FactKind::Count && fact.is_filter_named(&clause)).collect();
        if names_rows && !named.is_empty() && !means_all(claim, number, &clause, read) {
            // `5 stories are done`, `5 of them are done`: the count of exactly those.
            is_right |= named.iter().any(|fact| number.is_borne_out_by(&fact.number)) || column_is_named(claim, number, &clause, read);
            given.extend(named.iter().map(|fact| fact::shown(fact.number.value)));
        } else if counts_noun {
            is_right |= read.derived.iter().any(|fact| fits(claim, number, &clause, fact, read));
            let all = read.derived.iter().filter(|fact| fact.kind == FactKind::Count && !fact.is_filtered);
            given.extend(all.map(|fact| fact::shown(fact.number.value)));
            for field in read.fields.iter().filter(|field| field.is_count) {
                let totals = read.numbers.iter().filter(|total| field.words.contains(&total.words.start));
                for total in totals {
                    is_right |= number.is_borne_out_by(total);
                    given.push(fact::shown(total.value));
                }
            }
        }
    }
    given.dedup();
    if given.is_empty() {
        given = misaggregated(claim, number, &clause, spans)?;
    }
    (!is_right && !given.is_empty()).then(|| format!("the tools give {}", given.into_iter().take(4).collect::<Vec<_>>().join(", ")))
}

/// The extreme, mean or sum of a column, where the clause states a different number for it.
fn misaggregated(claim: &Claim, number: &Number, clause: &Clause<'_>, spans: &Spans<'_>) -> Option<Vec<String>> {
    // Unambiguous words.
    let strong = |kind: FactKind| {
        let words = match kind {
            FactKind::Min => &MIN[..MIN.len() - RANGES],
            FactKind::Max => &MAX[..MAX.len() - RANGES],
            FactKind::Mean => MEAN,
            FactKind::Sum => &SUM[..SUM.len() - 1],
            FactKind::Count => return false,
        };
        clause.has_any(words)
    };
    let mut given = Vec::new();
    for read in &spans.read {
        let is_meant = |fact: &&Derived| {
            strong(fact.kind) && (!fact.is_filtered || fact.is_filter_named(clause)) && fact.column.iter().all(|stem| clause.has(stem))
        };
        if read.derived.iter().any(|fact| fits(claim, number, clause, fact, read)) {
            return None;
        }
        given.extend(read.derived.iter().filter(is_meant).map(|fact| fact::shown(fact.number.value)));
    }
    Some(given)
}

fn column_is_named(claim: &Claim, number: &Number, clause: &Clause<'_>, read: &Read) -> bool {
    read.derived.iter().any(|fact| fact.kind != FactKind::Count && fits(claim, number, clause, fact, read))
        || read.numbers.iter().any(|given| number.is_borne_out_by(given))
}

/// A number that rows or scalars contain, but in a field that the sentence does not name although others could be meant.
pub(crate) fn misnamed(claim: &Claim, reads: &[&Read], place: &str) -> Option<Problem> {
    let has = |stem: &String| claim.words.iter().any(|word| word.stem == *stem);
    // The 15 of `OR-15` is part of a name.
    let is_alone = |number: &&Number| number.unit == Unit::None && !number.is_year() && !claim.words[number.words.start].joined;
    for number in claim.numbers.iter().filter(is_alone) {
        let is_listed = |read: &&Read| {
            read.fields.is_empty() && (read.numbers.iter().any(|given| number.is_borne_out_by(given)) || confirms(claim, number, read))
        };
        if reads.iter().any(is_listed) {
            continue;
        }
        let mut unnamed: Option<&str> = None;
        let mut is_named = false;
        for read in reads {
            let numeric = read.fields.iter().filter(|field| read.numbers.iter().any(|given| field.words.contains(&given.words.start))).count();
            let gives = |field: &Field| read.numbers.iter().any(|given| field.words.contains(&given.words.start) && number.is_borne_out_by(given));
            for field in read.fields.iter().filter(|field| gives(field)) {
                let is_prose = read.words[field.words.clone()].iter().filter(|word| word.shape != Shape::Number).count() > 2;
                let is_result = field.stems.iter().any(|stem| RESULTS.contains(&stem.as_str()));
                is_named |= numeric < 2 || field.is_count || is_result || is_prose || field.stems.iter().any(has);
                unnamed = unnamed.or(Some(&field.name));
            }
        }
        if let Some(name) = unnamed.filter(|_| !is_named) {
            let words = format!("{place} gives the number {} for “{name}”, which the sentence does not name", fact::shown(number.value));
            return Some(Problem { kind: ProblemKind::Swapped, words, what: String::new() });
        }
    }
    None
}

/// A name or a number of one row attributed to another: each item that only rows contain must share a row with a neighbour in the sentence.
pub(crate) fn crossed(claim: &Claim, text: &str, reads: &[&Read], spans: &Spans<'_>) -> Option<Problem> {
    // All rows, not only the cited ones: a number of one row is wrong for another, wherever that is.
    let rows: Vec<(&Read, Range<usize>)> = spans.read.iter().filter(|read| read.form == Form::Rows).take(ROWS_MAX).flat_map(rows_of).collect();
    if rows.len() < 2 || !reads.iter().any(|read| read.form == Form::Rows) {
        return None;
    }
    // The first word of each item that only some rows contain, with those rows and columns.
    let mut items: Vec<(usize, Vec<(usize, &str)>)> = Vec::new();
    let mut add = |at: usize, row: usize, name: &'_ str| {
        let name = rows[row].0.fields.iter().map(|field| field.name.as_str()).find(|known| *known == name).unwrap_or_default();
        match items.iter_mut().find(|(known, _)| *known == at) {
            Some((_, places)) => places.push((row, name)),
            None => items.push((at, vec![(row, name)])),
        }
    };
    for (row, (read, fields)) in rows.iter().enumerate() {
        for field in &read.fields[fields.clone()] {
            let value = &read.words[field.words.clone()];
            let is_word = value.len() <= CELL_WORDS_MAX && value.iter().any(|word| word.is_content() || word.joined);
            for at in 0..claim.words.len().saturating_sub(value.len().max(1) - 1) {
                if is_word && value.iter().zip(&claim.words[at..]).all(|(cell, word)| cell.plain == word.plain) {
                    add(at, row, &field.name);
                }
            }
            for number in claim.numbers.iter().filter(|number| !is_word && !reads.iter().any(|read| confirms(claim, number, read))) {
                let is_given = read.numbers.iter().any(|given| field.words.contains(&given.words.start) && number.is_borne_out_by(given));
                if is_given {
                    add(number.words.start, row, &field.name);
                }
            }
        }
    }
    items.retain(|(at, places)| {
        let is_elsewhere = reads.iter().any(|read| read.form == Form::Text && read.plains.contains(&claim.words[*at].plain));
        // A value of every row does not distinguish rows.
        let in_rows: HashSet<usize> = places.iter().map(|(row, _)| *row).collect();
        !is_elsewhere && in_rows.len() < rows.len()
    });
    items.sort_by_key(|(at, _)| *at);
    for (index, (at, places)) in items.iter().enumerate() {
        // The nearest item of another column on either side.
        let is_other = |other: &&(usize, Vec<(usize, &str)>)| !other.1.iter().any(|(_, name)| places.iter().any(|(_, own)| own == name));
        let neighbours: Vec<&(usize, Vec<(usize, &str)>)> =
            items[..index].iter().rev().find(is_other).into_iter().chain(items[index + 1..].iter().find(is_other)).collect();
        let shares = |other: &&(usize, Vec<(usize, &str)>)| other.1.iter().any(|(row, _)| places.iter().any(|(own, _)| own == row));
        if let Some((other, _)) = neighbours.first().filter(|_| !neighbours.iter().any(shares)) {
            let raw = |at: usize| &text[claim.words[at].range.clone()];
            let words = format!("no row has both {} and {}", raw(*at), raw(*other));
            return Some(Problem { kind: ProblemKind::Swapped, words, what: raw(*at).to_owned() });
        }
    }
    None
}

/// The rows of a span: several short ones may share it.
fn rows_of(read: &Read) -> Vec<(&Read, Range<usize>)> {
    let mut rows = Vec::new();
    let mut from = 0;
    for at in 1..=read.fields.len() {
        let is_end = at == read.fields.len() || read.fields[from..at].iter().any(|field| field.name == read.fields[at].name);
        if is_end {
            rows.push((read, from..at));
            from = at;
        }
    }
    rows
}

/// Whether a number is the sum or difference of one of the writer's and one of the sources'.
pub(crate) fn is_calculated(claim: &Claim, number: &Number, reads: &[&Read], options: &Options<'_>) -> bool {
    let Some(text) = options.calculated_from else { return false };
    let words = Scanner::default().words(text);
    let own = claim.numbers.iter().filter(|other| other.words.start != number.words.start).cloned();
    let years = claim.dates.iter().filter_map(|date| date.year).map(|year| Number::computed(f64::from(year)));
    let had: Vec<Number> = own.chain(years).chain(numbers(text, &words)).collect();
    let read_years = reads.iter().flat_map(|read| read.years.iter()).map(|year| Number::computed(f64::from(*year)));
    let given: Vec<Number> = reads.iter().flat_map(|read| read.numbers.iter().cloned()).chain(read_years).collect();
    let is = |value: f64| {
        let mut result = Number::computed((value * 1e9).round() / 1e9);
        result.unit = number.unit;
        number.is_borne_out_by(&result)
    };
    // `ten times as many`, `half of them`, `12 percent more`
    let is_ratio = |a: f64, b: f64| match number.unit {
        Unit::Times | Unit::Fraction => b != 0.0 && is(a / b),
        Unit::Percent => b != 0.0 && (is(a / b * 100.0) || is((a / b - 1.0).abs() * 100.0)),
        _ => false,
    };
    let pairs = had.iter().flat_map(|a| given.iter().map(move |b| (a.value, b.value)));
    // Products and quotients match by chance far more often, so both numbers must be the writer's and the sources'.
    let is_given = |one: &&Number| given.iter().any(|other| one.is_borne_out_by(other));
    let stated: Vec<f64> = had.iter().filter(is_given).map(|one| one.value).collect();
    let is_product = |a: f64, b: f64| is(a * b) || b != 0.0 && is(a / b);
    if stated.iter().enumerate().any(|(at, a)| stated[at + 1..].iter().any(|b| is_product(*a, *b) || is_product(*b, *a))) {
        return true;
    }
    pairs.into_iter().any(|(a, b)| is((a - b).abs()) || is(a + b) || is_ratio(a, b) || is_ratio(b, a))
}
