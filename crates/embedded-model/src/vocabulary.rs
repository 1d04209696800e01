//! Tokens: text to ids, ids to bytes, and the few that steer a conversation.
//!
//! There are two tokenizers because `<|im_end|>` in a user's text must stay text. Text of users and documents goes through
//! [`Vocabulary::encode`], which never makes a control token; control tokens are only ever put in by number.

use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use tokenizers::{NormalizerWrapper, Tokenizer};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::EmbeddedError;
use super::gguf::Gguf;

pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    /// The text of each token, as bytes: a character may be spread over several. That of control tokens is empty.
    texts: Vec<Vec<u8>>,
    pub(super) turn_start: u32,
    pub(super) turn_end: u32,
    ends: Vec<u32>,
    trie: Arc<Env>,
}

impl Vocabulary {
    pub(super) fn load(gguf: &Gguf) -> Result<Self, EmbeddedError> {
        let tokens: Vec<&str> = gguf
            .list("tokenizer.ggml.tokens")?
            .iter()
            .map(|token| token.to_string().map(String::as_str).map_err(EmbeddedError::damaged))
            .collect::<Result<_, _>>()?;
        let kinds: Vec<Kind> = gguf.list("tokenizer.ggml.token_type")?.iter().map(Kind::of).collect();
        if tokens.len() != kinds.len() || tokens.is_empty() {
            return Err(EmbeddedError::damaged(format!("it lists {} tokens and {} kinds of them", tokens.len(), kinds.len())));
        }
        let mut tokenizer = <Tokenizer as TokenizerFromGguf>::from_gguf(gguf.content()).map_err(EmbeddedError::damaged)?;
        tokenizer.set_encode_special_tokens(true);
        let id = |text: &str| {
            let at = tokens.iter().zip(&kinds).position(|(token, kind)| *token == text && *kind != Kind::Normal);
            at.map(|at| at as u32).ok_or_else(|| EmbeddedError::damaged(format!("its vocabulary has no {text}")))
        };
        let (turn_start, turn_end) = (id("<|im_start|>")?, id("<|im_end|>")?);
        let ends = std::iter::once(turn_end).chain(id("<|endoftext|>").ok()).collect();
        let unmap = byte_map();
        let plain = |token: &str| token.chars().map(|c| unmap(c).ok_or(())).collect::<Result<Vec<u8>, ()>>().unwrap_or_else(|()| token.into());
        let entries = tokens.iter().zip(&kinds).map(|(token, kind)| match kind {
            Kind::Normal => (plain(token), plain(token)),
            Kind::Control => (Vec::new(), marked(token)),
            Kind::Defined => (token.as_bytes().to_vec(), marked(token)),
            Kind::Unused => (Vec::new(), Vec::new()),
        });
        let (texts, for_trie): (Vec<_>, Vec<_>) = entries.unzip();
        let trie = TokTrie::from(&TokRxInfo::new(tokens.len() as u32, turn_end), &for_trie);
        let mut verbatim = tokenizer.clone();
        verbatim.with_normalizer(None::<NormalizerWrapper>).map_err(EmbeddedError::damaged)?;
        let trie = Arc::new(Env { trie, tokenizer: verbatim });
        Ok(Vocabulary { tokenizer, texts, turn_start, turn_end, ends, trie })
    }

    /// As plain text, also where it looks like a control token.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, EmbeddedError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| EmbeddedError::bug(format!("a text has no tokens: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    pub(super) fn token_text(&self, token: u32) -> &[u8] {
        self.texts.get(token as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn for_grammars(&self) -> TokEnv {
        self.trie.clone()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Normal,
    Control,
    Defined,
    Unused,
}

impl Kind {
    /// By the numbers of the GGUF specification.
    fn of(value: &Value) -> Self {
        let number = value.to_i32().map(i64::from).or_else(|_| value.to_u64().map(|n| i64::try_from(n).unwrap_or(-1)));
        match number {
            Ok(1) => Kind::Normal,
            Ok(3) => Kind::Control,
            Ok(4) => Kind::Defined,
            _ => Kind::Unused,
        }
    }
}

/// How `toktrie` distinguishes a control token from text that looks like one.
fn marked(token: &str) -> Vec<u8> {
    [&[TokTrie::SPECIAL_TOKEN_MARKER], token.as_bytes()].concat()
}

/// GPT-2 writes every byte as a printable character: those that are printable stay, the others move up past 255, in order.
fn byte_map() -> impl Fn(char) -> Option<u8> {
    let stays = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let moved: Vec<u8> = (0..=u8::MAX).filter(|&byte| !stays(byte)).collect();
    move |c| match u32::from(c) {
        code @ 0..256 => u8::try_from(code).ok().filter(|&byte| stays(byte)),
        code => moved.get(code as usize - 256).copied(),
    }
}

struct Env {
    trie: TokTrie,
    /// Without Unicode normalization: a grammar's bytes must be decoded as they are.
    tokenizer: Tokenizer,
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.tokenizer
                .encode_fast(text, false)
                .map_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()), |encoding| encoding.get_ids().to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::byte_map;

    #[test]
    fn every_byte_has_its_character() {
        let unmap = byte_map();
        let bytes: std::collections::BTreeSet<u8> = (0..512).filter_map(char::from_u32).filter_map(unmap).collect();
        assert_eq!(bytes.len(), 256);
        let unmap = byte_map();
        assert_eq!("Ġa".chars().map(|c| unmap(c).unwrap()).collect::<Vec<_>>(), b" a");
        assert_eq!("Ċ".chars().map(|c| unmap(c).unwrap()).collect::<Vec<_>>(), b"\n");
    }
}
