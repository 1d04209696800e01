//! Follow-up questions ("And in 2020?") and their full form.
//!
//! Models are shown the conversation. A search, a tool list, a choice of passages, a lookup of similar requests or an agent that receives
//! one question is not; they get [`in_full`], the question preceded by those it follows up on.
//!
//! Questions are joined and not rewritten, because a rewrite would cost an extra model call each time. The word lists are English; in other
//! languages only a question of very few words is treated as a follow-up.

use graph::Message;

use crate::prompt;

/// The question preceded by those it follows up on; unchanged if it is self-contained.
pub fn in_full(question: &str, history: &[Message]) -> String {
    let mut asked: Vec<&str> = Vec::new();
    let mut before =
        history.iter().rev().filter(|message| message.role == "user").map(|message| message.content.trim()).filter(|text| !text.is_empty());
    let mut last = question;
    while asked.len() < BEFORE_MAX && is_follow_up(last) {
        let Some(earlier) = before.next() else { break };
        // A repeated question adds no context.
        if earlier != last {
            asked.push(earlier);
        }
        last = earlier;
    }
    if asked.is_empty() {
        return question.to_owned();
    }
    let earlier = prompt::clipped(&asked.into_iter().rev().collect::<Vec<_>>().join(" "), BEFORE_TOKENS_MAX);
    format!("{earlier} {question}")
}

/// Whether it is too short or refers back, so that it is not self-contained.
pub fn is_follow_up(question: &str) -> bool {
    let words: Vec<String> = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let has_number = words.iter().any(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    if question.ends_with('?') && words.len() <= SHORT_WORDS_MAX + usize::from(has_number) {
        return true;
    }
    if words.len() > WORDS_MAX {
        return false;
    }
    let text = format!("{} ", words.join(" "));
    let points = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let opens = OPENINGS.iter().any(|opening| text.starts_with(&format!("{opening} ")));
    opens || points(&POINTERS) || (words.len() <= SHORT_POINTERS_WORDS_MAX && points(&SHORT_POINTERS))
}

/// Maximum number of earlier questions that are joined.
const BEFORE_MAX: usize = 3;
const BEFORE_TOKENS_MAX: usize = 200;
/// A question of at most this many words is not self-contained; one more is allowed if it has a number.
const SHORT_WORDS_MAX: usize = 2;
/// A longer question is treated as self-contained.
const WORDS_MAX: usize = 12;

const OPENINGS: [&str; 14] =
    ["and", "but", "or", "so", "also", "then", "what about", "how about", "what else", "who else", "where else", "why not", "same for", "instead"];
const POINTERS: [&str; 16] =
    ["it", "its", "he", "him", "his", "she", "her", "hers", "they", "them", "their", "theirs", "these", "those", "former", "latter"];
/// In a longer question these words seldom refer to anything outside it.
const SHORT_POINTERS: [&str; 7] = ["this", "that", "there", "then", "one", "same", "above"];
const SHORT_POINTERS_WORDS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: &[&str], expected: &str) {
        let (question, before) = asked.split_last().unwrap();
        let turn = |text: &&str| [prompt::user(*text), prompt::message("assistant", "And so on.")];
        let history: Vec<Message> = before.iter().flat_map(turn).collect();
        assert_eq!(in_full(question, &history), expected, "{asked:?}");
    }

    #[test]
    fn a_question_is_joined_with_those_it_leans_on() {
        check(&["Who won the cup in 2019?", "And in 2020?"], "Who won the cup in 2019? And in 2020?");
        check(&["Who won the cup in 2019?", "What about the year after?"], "Who won the cup in 2019? What about the year after?");
        check(&["Who wrote the novel Emma?", "When was she born?"], "Who wrote the novel Emma? When was she born?");
        check(&["Who wrote the novel Emma?", "What does that mean?"], "Who wrote the novel Emma? What does that mean?");
        check(&["Who wrote the novel Emma?", "Why?"], "Who wrote the novel Emma? Why?");
        check(&["Who won the cup in 2019?", "In 2020?"], "Who won the cup in 2019? In 2020?");
        check(&["Wer gewann den Pokal 2019?", "Und 2020?"], "Wer gewann den Pokal 2019? Und 2020?");
    }

    #[test]
    fn a_chain_is_followed_to_the_question_that_stands_alone_but_not_for_ever() {
        check(
            &["Old news of the day?", "Who won the cup in 2019?", "And in 2020?", "And in 2021?"],
            "Who won the cup in 2019? And in 2020? And in 2021?",
        );
        check(&["Who won the cup?", "a?", "b?", "c?", "d?"], "a? b? c? d?");
        check(&["Who won the cup in 2019?", "Why?", "Why?"], "Who won the cup in 2019? Why?");
    }

    #[test]
    fn what_stands_alone_stays_alone() {
        check(&["Who won the cup in 2019?", "What is a write-ahead log?"], "What is a write-ahead log?");
        check(&["And in 2020?"], "And in 2020?");
        check(&["Who won the cup in 2019?", "What is CRISPR?"], "What is CRISPR?");
        check(&["Who won the cup in 2019?", "Latest trends"], "Latest trends");
        check(&["Who won the cup in 2019?", "Is there a way to sort a list?"], "Is there a way to sort a list?");
        let long = "Explain how it is that a database which writes a log ahead of its pages survives a crash";
        check(&["Who won the cup in 2019?", long], long);
        let endless = "word ".repeat(5_000);
        let history = [prompt::user(endless)];
        assert!(evidence::tokens(&in_full("Why?", &history)) < 250);
    }
}
