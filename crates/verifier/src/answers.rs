//! Whether passages state that a short answer is the answer to a question.
//!
//! ```text
//!   [CLS] passage passage … [SEP] question [SEP] answer [SEP]      at most 512 tokens
//!   a passage: PASSAGE title . text, with ANSWER_BEGIN and ANSWER_END around the answer wherever it is
//! ```
//!
//! The same text as in `lab/train/answers.py`: a change here needs a new training.

use encoder::builtin::ANSWERS_LAYERS;
use encoder::{POSITIONS_MAX, Scratch, Text, Weights, WeightsError};
use evidence::ShortAnswer;

use super::LoadError;
use super::net::Net;
use super::tokens::{CLS, SEP, Words};

const TOKENS_MAX: usize = 512;
const QUESTION_TOKENS_MAX: usize = 96;
const ANSWER_TOKENS_MAX: usize = 32;
const TITLE_TOKENS_MAX: usize = 24;
/// Of a longer text the part is read that has most of the question's and the answer's words.
const PASSAGE_TOKENS_MAX: usize = 160;
/// Distance between the beginnings of two parts.
const PART_STEP_TOKENS: usize = 16;
/// A shorter rest of a passage is left out.
const REST_TOKENS_MIN: usize = 24;

/// Word pieces that no text has.
const ANSWER_BEGIN: u32 = 1;
const ANSWER_END: u32 = 2;
const PASSAGE: u32 = 3;
const FULL_STOP: u32 = 1_012;

pub(crate) struct AnswerCheck<'b> {
    net: Net<'b>,
    slope: f32,
    constant: f32,
}

impl<'b> AnswerCheck<'b> {
    pub(crate) fn load(weights: &'b [u8], words: &'b [u8]) -> Result<Self, LoadError> {
        let tensors = Weights::read(weights)?;
        let numbers = tensors.floats("calibration")?;
        let [slope, constant] = *numbers.as_slice() else { return Err(WeightsError::Tensor("calibration".to_owned()).into()) };
        Ok(AnswerCheck { net: Net::load(&tensors, &Weights::read(words)?, ANSWERS_LAYERS)?, slope, constant })
    }

    pub(crate) fn logits(&self, words: &Words, answer: &ShortAnswer) -> [f32; 3] {
        self.net.forward(&[&text_of(words, answer)], &mut Scratch::default())[0]
    }

    pub(crate) fn probability(&self, words: &Words, answer: &ShortAnswer) -> f32 {
        // The head has the three outputs of the verifier's; right is the first, and the other two are one class.
        let [right, b, c] = self.logits(words, answer);
        let largest = b.max(c);
        let wrong = largest + ((b - largest).exp() + (c - largest).exp()).ln();
        1.0 / (1.0 + (-(self.slope * (right - wrong) + self.constant)).exp())
    }
}

fn text_of(words: &Words, answer: &ShortAnswer) -> Text {
    let passages = answer.passages.iter().map(|passage| (words.ids(&passage.title), words.ids(&passage.text)));
    assembled(words.ids(&answer.question), words.ids(&answer.answer), passages)
}

fn assembled(mut question: Vec<u32>, mut answer: Vec<u32>, passages: impl Iterator<Item = (Vec<u32>, Vec<u32>)>) -> Text {
    const { assert!(TOKENS_MAX <= POSITIONS_MAX && QUESTION_TOKENS_MAX + ANSWER_TOKENS_MAX + PASSAGE_TOKENS_MAX + 4 < TOKENS_MAX) };
    question.truncate(QUESTION_TOKENS_MAX);
    answer.truncate(ANSWER_TOKENS_MAX);
    let mut room = TOKENS_MAX - 4 - question.len() - answer.len();
    let mut ids = vec![CLS];
    for (title, text) in passages {
        let mut passage = marked(&title, part_of(&text, &question, &answer), &answer);
        if room < passage.len().min(REST_TOKENS_MIN) {
            break;
        }
        passage.truncate(room);
        room -= passage.len();
        ids.extend(passage);
    }
    ids.push(SEP);
    let second_start = ids.len();
    ids.extend(question);
    ids.push(SEP);
    ids.extend(answer);
    ids.push(SEP);
    Text { ids, second_start }
}

/// The passage with the answer marked.
fn marked(title: &[u32], text: &[u32], answer: &[u32]) -> Vec<u32> {
    let mut plain: Vec<u32> = title.iter().copied().take(TITLE_TOKENS_MAX).collect();
    plain.extend((!title.is_empty()).then_some(FULL_STOP));
    plain.extend(text);
    let mut passage = vec![PASSAGE];
    let mut from = 0;
    for place in places_of(answer, &plain) {
        passage.extend(&plain[from..place]);
        passage.push(ANSWER_BEGIN);
        passage.extend(answer);
        passage.push(ANSWER_END);
        from = place + answer.len();
    }
    passage.extend(&plain[from..]);
    passage
}

/// Where the answer is, from left to right without overlap.
fn places_of(answer: &[u32], ids: &[u32]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while !answer.is_empty() && at + answer.len() <= ids.len() {
        if ids[at..].starts_with(answer) {
            found.push(at);
            at += answer.len();
        } else {
            at += 1;
        }
    }
    found
}

/// The part of a long text with most distinct words of question and answer; one with the whole answer before others, and the first of equals.
fn part_of<'t>(text: &'t [u32], question: &[u32], answer: &[u32]) -> &'t [u32] {
    if text.len() <= PASSAGE_TOKENS_MAX {
        return text;
    }
    let mut wanted: Vec<u32> = question.iter().chain(answer).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let places = places_of(answer, text);
    let last = text.len() - PASSAGE_TOKENS_MAX;
    let mut best = (0, 0);
    for start in (0..last).step_by(PART_STEP_TOKENS).chain([last]) {
        let part = &text[start..start + PASSAGE_TOKENS_MAX];
        let has_answer = places.iter().any(|place| start <= *place && place + answer.len() <= start + PASSAGE_TOKENS_MAX);
        let score = wanted.iter().filter(|id| part.contains(id)).count() + if has_answer { answer.len() + 2 } else { 0 };
        if score > best.0 {
            best = (score, start);
        }
    }
    &text[best.1..best.1 + PASSAGE_TOKENS_MAX]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_come_first_and_the_answer_is_marked_in_them() {
        let passages = [(vec![50], vec![60, 61, 7, 8, 62, 7]), (vec![], vec![7, 8])];
        let text = assembled(vec![40, 41], vec![7, 8], passages.into_iter());
        let first = [PASSAGE, 50, FULL_STOP, 60, 61, ANSWER_BEGIN, 7, 8, ANSWER_END, 62, 7];
        let second = [PASSAGE, ANSWER_BEGIN, 7, 8, ANSWER_END];
        assert_eq!(text.ids, [&[CLS][..], &first, &second, &[SEP, 40, 41, SEP, 7, 8, SEP]].concat());
        assert_eq!(text.second_start, text.ids.len() - 6);
    }

    #[test]
    fn of_long_texts_the_part_with_the_answer_is_read_and_all_fits() {
        let mut long: Vec<u32> = vec![9; 1_000];
        long[700] = 7;
        long[300] = 40;
        assert!(part_of(&long, &[40], &[7]).contains(&7));
        assert!(part_of(&long, &[40], &[5]).contains(&40));
        let text = assembled(vec![40; 300], vec![7; 300], std::iter::repeat_n((vec![1; 90], long), 20));
        // Two passages, and a rest that is too short for a part of the third.
        let second = QUESTION_TOKENS_MAX + ANSWER_TOKENS_MAX + 2;
        assert_eq!(text.second_start, 2 + 2 * (TITLE_TOKENS_MAX + PASSAGE_TOKENS_MAX + 2));
        assert_eq!(text.ids.len(), text.second_start + second);
        assert!(text.ids.len() <= TOKENS_MAX && text.ids.len() + REST_TOKENS_MIN > TOKENS_MAX);
        assert_eq!(assembled(vec![], vec![], std::iter::empty()).ids, [CLS, SEP, SEP, SEP]);
    }
}
