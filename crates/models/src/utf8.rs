//! Text from tokens. A character may be spread over several tokens, so its bytes are kept until it is complete.

/// Assembles text from the bytes of tokens.
#[derive(Default)]
pub struct Utf8 {
    text: String,
    waiting: Vec<u8>,
}

impl Utf8 {
    /// The characters that these bytes complete; empty if none is complete yet.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        let returned = self.text.len();
        self.waiting.extend_from_slice(bytes);
        loop {
            match std::str::from_utf8(&self.waiting) {
                Ok(whole) => {
                    self.text.push_str(whole);
                    self.waiting.clear();
                    break;
                }
                Err(error) => {
                    let (whole, rest) = self.waiting.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(whole));
                    match error.error_len() {
                        None => {
                            self.waiting = rest.to_vec();
                            break;
                        }
                        Some(broken) => {
                            self.text.push(char::REPLACEMENT_CHARACTER);
                            self.waiting = rest[broken..].to_vec();
                        }
                    }
                }
            }
        }
        &self.text[returned..]
    }

    /// The whole text. Bytes of an incomplete last character become U+FFFD, which is passed to `send` too.
    pub fn finish(mut self, send: &mut dyn FnMut(&str)) -> String {
        if !self.waiting.is_empty() {
            let rest = String::from_utf8_lossy(&self.waiting).into_owned();
            send(&rest);
            self.text.push_str(&rest);
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8;

    fn check(pieces: &[&[u8]], expected: &[&str], text: &str) {
        let mut utf8 = Utf8::default();
        let received: Vec<String> = pieces.iter().map(|piece| utf8.push(piece).to_owned()).collect();
        assert_eq!(received, expected, "{pieces:?}");
        assert_eq!(utf8.finish(&mut |_| ()), text);
    }

    #[test]
    fn characters_are_returned_whole() {
        check(&[b"a", "é".as_bytes()], &["a", "é"], "aé");
        check(&[&[0xf0, 0x9f], &[0x98], &[0x80, b'!']], &["", "", "😀!"], "😀!");
        check(&[&[0xff], b"b"], &["\u{fffd}", "b"], "\u{fffd}b");
        check(&[b"c", &[0xc3]], &["c", ""], "c\u{fffd}");
    }
}
