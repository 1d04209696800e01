//! Token after token: sampled from the network's output within a grammar, until the text ends, reaches its limit or is cancelled.
//!
//! ```text
//!   ┌─> read what is pending ─> logits ─> allowed by the grammar ─> choose ─> send ─┐
//!   └───────── the token, and those the grammar leaves no choice about ─────────────┘
//! ```
//!
//! A forced token costs a fraction of a chosen one, because it is read in the same pass as the token before it. So a schema
//! makes answers faster, not slower.

use std::time::Instant;

use llguidance::Matcher;

use super::net::{Kv, Net};
use super::vocabulary::Vocabulary;
use super::{EmbeddedError, Finish, Timing};
use models::utf8::Utf8;

/// The prompt is read in pieces of this many tokens, so that a cancelled call is noticed, and attention's memory stays small.
const PIECE_TOKENS: usize = 256;

/// The limits of the choice at a temperature above zero, as the makers of the model recommend.
const CHOICES_MAX: usize = 20;
const CHOICES_SHARE: f32 = 0.8;

pub(super) struct DecodeRequest<'a> {
    pub(super) prompt: &'a [u32],
    pub(super) grammar: Option<Matcher>,
    pub(super) tokens_max: usize,
    /// Zero takes the likeliest token, always.
    pub(super) temperature: f32,
}

pub(super) struct Decoded {
    pub(super) text: String,
    /// All generated tokens; the last may not be in `kv`.
    pub(super) tokens: Vec<u32>,
    pub(super) forced: usize,
    pub(super) finish: Finish,
    pub(super) timing: Timing,
}

/// `kv` holds a prefix of the prompt, and afterwards the prompt and the generated tokens. Each piece of text is passed to `on_text`.
pub(super) fn decode(
    net: &Net,
    vocabulary: &Vocabulary,
    kv: &mut Kv,
    request: DecodeRequest<'_>,
    on_text: &mut dyn FnMut(&str),
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Decoded, EmbeddedError> {
    let DecodeRequest { prompt, mut grammar, tokens_max, temperature } = request;
    let mut dice = SamplingRng::new(prompt);
    let mut utf8 = Utf8::default();
    let mut tokens_out = Vec::new();
    let mut forced = 0;
    let mut pending =
        prompt.get(kv.len()..).filter(|rest| !rest.is_empty()).ok_or_else(|| EmbeddedError::bug("nothing of the prompt is left to read"))?.to_vec();
    let started = Instant::now();
    let mut first_token = None;
    let finish = loop {
        // Before the first pass too: what every answer begins with is read together with the prompt.
        if let Some(grammar) = &mut grammar {
            let tokens = grammar.consume_ff_tokens();
            forced += tokens.len();
            for &token in &tokens {
                on_text(utf8.push(vocabulary.token_text(token)));
            }
            tokens_out.extend(&tokens);
            pending.extend(tokens);
            if let Some(why) = grammar.get_error() {
                return Err(EmbeddedError::BadSchema { why });
            }
            if grammar.is_stopped() {
                break Finish::Stop;
            }
        }
        if tokens_out.len() >= tokens_max {
            break Finish::Length;
        }
        let logits = read(net, kv, &pending, is_cancelled)?;
        first_token.get_or_insert_with(Instant::now);
        let token = match &mut grammar {
            None => dice.choose(logits.iter().copied().enumerate(), temperature),
            Some(grammar) => {
                let mask = grammar.compute_mask().map_err(|error| EmbeddedError::BadSchema { why: error.to_string() })?;
                let mut allowed = Vec::new();
                mask.iter_set_entries(|at| allowed.extend(logits.get(at).map(|&logit| (at, logit))));
                dice.choose(allowed.into_iter(), temperature)
            }
        };
        let token = token.ok_or_else(|| EmbeddedError::damaged("the network's output is not a number"))?;
        if vocabulary.ends(token) {
            // A grammar allows this only where an answer may end.
            break Finish::Stop;
        }
        if let Some(grammar) = &mut grammar {
            grammar.consume_token(token).map_err(|error| EmbeddedError::BadSchema { why: error.to_string() })?;
        }
        tokens_out.push(token);
        on_text(utf8.push(vocabulary.token_text(token)));
        pending = vec![token];
    };
    let text = utf8.finish(on_text);
    let now = Instant::now();
    let first_token = first_token.unwrap_or(now);
    let timing = Timing { prompt: first_token - started, answer: now - first_token, ..Timing::default() };
    Ok(Decoded { text, tokens: tokens_out, forced, finish, timing })
}

fn read(net: &Net, kv: &mut Kv, tokens: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, EmbeddedError> {
    let mut logits = Vec::new();
    let mut pieces = tokens.chunks(PIECE_TOKENS).peekable();
    while let Some(piece) = pieces.next() {
        if is_cancelled() {
            return Err(EmbeddedError::Cancelled);
        }
        logits = net.forward(kv, piece, pieces.peek().is_none())?;
    }
    Ok(logits)
}

/// Chance that comes from the prompt: the same request is answered the same way.
struct SamplingRng(u64);

impl SamplingRng {
    fn new(prompt: &[u32]) -> Self {
        SamplingRng(prompt.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &token| (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn choose(&mut self, logits: impl Iterator<Item = (usize, f32)>, temperature: f32) -> Option<u32> {
        let logits = logits.filter(|(_, logit)| logit.is_finite());
        let by_logit = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if temperature.is_nan() || temperature <= 0.0 {
            return logits.min_by(by_logit).map(|(token, _)| token as u32);
        }
        let mut choices: Vec<(usize, f32)> = logits.collect();
        if choices.len() > CHOICES_MAX {
            choices.select_nth_unstable_by(CHOICES_MAX, by_logit);
            choices.truncate(CHOICES_MAX);
        }
        choices.sort_by(by_logit);
        let best = choices.first()?.1;
        let weights: Vec<f32> = choices.iter().map(|(_, logit)| ((logit - best) / temperature).exp()).collect();
        let enough = weights.iter().sum::<f32>() * CHOICES_SHARE;
        let mut sum = 0.0;
        let is_needed = |weight: &&f32| {
            let before = sum;
            sum += **weight;
            before < enough
        };
        let count = weights.iter().take_while(is_needed).count().max(1);
        let mut left = self.throw() * weights[..count].iter().sum::<f32>();
        let chosen = weights[..count].iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        choices.get(chosen.unwrap_or(count - 1)).map(|(token, _)| *token as u32)
    }

    /// Between 0 and 1 (SplitMix64).
    fn throw(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::SamplingRng;

    fn choose(logits: &[f32], temperature: f32, seed: u32) -> Option<u32> {
        SamplingRng::new(&[seed]).choose(logits.iter().copied().enumerate(), temperature)
    }

    #[test]
    fn cold_is_the_likeliest_and_the_first_of_equals() {
        assert_eq!(choose(&[1.0, 3.0, 2.0, 3.0], 0.0, 1), Some(1));
        assert_eq!(choose(&[f32::NAN, 1.0], 0.0, 1), Some(1));
        assert_eq!(choose(&[f32::NAN], 0.0, 1), None);
        assert_eq!(choose(&[], 1.0, 1), None);
    }

    #[test]
    fn warm_is_varied_but_repeatable_and_leaves_out_the_unlikely() {
        let logits: Vec<f32> = (0..100).map(|i| if i < 4 { 2.0 } else { -9.0 }).collect();
        let chosen: Vec<u32> = (0..200).filter_map(|seed| choose(&logits, 1.0, seed)).collect();
        assert_eq!(chosen, (0..200).filter_map(|seed| choose(&logits, 1.0, seed)).collect::<Vec<_>>());
        assert!(chosen.iter().all(|&token| token < 4));
        assert!((0..4).all(|token| chosen.contains(&token)), "{chosen:?}");
    }
}
