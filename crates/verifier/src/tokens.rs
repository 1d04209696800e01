//! A claim and its evidence as tokens, in windows that the model can see at once.

use encoder::{POSITIONS_MAX, Text, WORDS};
use tokenizers::Tokenizer;

use crate::LoadError;

pub(crate) const CLS: u32 = 101;
pub(crate) const SEP: u32 = 102;
/// Tokens of a window with its claim, as in training.
const WINDOW_TOKENS: usize = 352;
/// Tokens that a window shares with the one before, so that a sentence on the border is whole in one of them.
const OVERLAP_TOKENS: usize = 64;
/// A longer claim is cut off; its sentences are judged one by one anyway.
const CLAIM_TOKENS_MAX: usize = 120;
/// Windows of one pair; evidence beyond them is not read.
const WINDOWS_MAX: usize = 32;

pub(crate) struct Words {
    tokenizer: Tokenizer,
}

impl Words {
    pub(crate) fn load(tokenizer: &[u8]) -> Result<Self, LoadError> {
        let wrong = |error: tokenizers::Error| LoadError::Tokenizer(error.to_string());
        let mut tokenizer = Tokenizer::from_bytes(tokenizer).map_err(wrong)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(wrong)?;
        if tokenizer.get_vocab_size(true) != WORDS {
            return Err(LoadError::Tokenizer("it does not have the words of the model".to_owned()));
        }
        Ok(Words { tokenizer })
    }

    /// `[CLS] part of the evidence [SEP] claim [SEP]`, at least one.
    pub(crate) fn windows(&self, evidence: &str, claim: &str) -> Vec<Text> {
        const { assert!(WINDOW_TOKENS <= POSITIONS_MAX && CLAIM_TOKENS_MAX + OVERLAP_TOKENS + 3 < WINDOW_TOKENS) };
        let mut claim = self.ids(claim);
        claim.truncate(CLAIM_TOKENS_MAX);
        let evidence = self.ids(evidence);
        let room = WINDOW_TOKENS - claim.len() - 3;
        let mut windows = Vec::new();
        let mut start = 0;
        loop {
            let end = (start + room).min(evidence.len());
            let mut ids = Vec::with_capacity(end - start + claim.len() + 3);
            ids.push(CLS);
            ids.extend_from_slice(&evidence[start..end]);
            ids.push(SEP);
            let second_start = ids.len();
            ids.extend_from_slice(&claim);
            ids.push(SEP);
            windows.push(Text { ids, second_start });
            if end == evidence.len() || windows.len() == WINDOWS_MAX {
                return windows;
            }
            start = end - OVERLAP_TOKENS;
        }
    }

    pub(crate) fn ids(&self, text: &str) -> Vec<u32> {
        // A tokenizer of words and letters has an id for any text; without one there is nothing to judge.
        self.tokenizer.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }
}
