//! Text as Postgres can hold it: U+0000 is not allowed there, so it is written as two other characters.

use std::borrow::Cow;

/// A code point that Unicode reserves for internal use.
const ESCAPE: char = '\u{FFFFE}';

/// Nearly all text is stored as it is.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => encoded.extend([ESCAPE, '0']),
            ESCAPE => encoded.extend([ESCAPE, '1']),
            _ => encoded.push(letter),
        }
    }
    Cow::Owned(encoded)
}

pub(crate) fn decode(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut decoded = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => match letters.next() {
                Some('0') => decoded.push('\0'),
                // What is cut off here was cut off in a preview.
                Some(_) => decoded.push(ESCAPE),
                None => {}
            },
            _ => decoded.push(letter),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_decoded_as_it_was_encoded() {
        for text in ["", "plain", "a\0b", "\0\0", "\u{FFFFE}", "\u{FFFFE}0\0", "é\0ü"] {
            let encoded = encode(text).into_owned();
            assert!(!encoded.contains('\0'));
            assert_eq!(decode(encoded), text);
        }
    }
}
