//! Messages in the format that the model was trained with (ChatML).
//!
//! ```text
//!   <|im_start|>system⏎ … <|im_end|>⏎ <|im_start|>user⏎ … <|im_end|>⏎ <|im_start|>assistant⏎
//! ```
//!
//! The marks are inserted as token ids and messages are encoded as plain text, so no text can end its turn or begin another.

use graph::Message;

use super::EmbeddedError;

/// The system message of a conversation that has none.
const SYSTEM: &str = "You are a helpful assistant.";

pub(super) struct Marks {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Ends where the assistant's turn begins. `encode` must not make marks.
pub(super) fn prompt(
    messages: &[Message],
    marks: &Marks,
    encode: impl Fn(&str) -> Result<Vec<u32>, EmbeddedError>,
) -> Result<Vec<u32>, EmbeddedError> {
    if messages.iter().all(|message| message.content.trim().is_empty()) {
        return Err(EmbeddedError::BadRequest { why: "there is nothing to answer: every message is empty".into() });
    }
    let mut turns: Vec<(ChatRole, &str)> = Vec::new();
    for message in messages {
        turns.push((ChatRole::of(&message.role)?, &message.content));
    }
    if turns.first().is_none_or(|(role, _)| *role != ChatRole::System) {
        turns.insert(0, (ChatRole::System, SYSTEM));
    }
    let mut ids = Vec::new();
    let newline = encode("\n")?;
    for (role, content) in turns {
        ids.push(marks.start);
        ids.extend(encode(&format!("{}\n{content}", role.word()))?);
        ids.push(marks.end);
        ids.extend(&newline);
    }
    ids.push(marks.start);
    ids.extend(encode(&format!("{}\n", ChatRole::Assistant.word()))?);
    Ok(ids)
}

#[derive(Clone, Copy, PartialEq)]
enum ChatRole {
    System,
    User,
    Assistant,
}

impl ChatRole {
    /// Tool results are part of a user message.
    fn of(role: &str) -> Result<Self, EmbeddedError> {
        match role {
            "system" | "developer" => Ok(ChatRole::System),
            "user" | "tool" => Ok(ChatRole::User),
            "assistant" => Ok(ChatRole::Assistant),
            other => Err(EmbeddedError::BadRequest { why: format!("a message has the role {other:?}; known are system, user, assistant and tool") }),
        }
    }

    fn word(self) -> &'static str {
        match self {
            ChatRole::System => "system",
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One id a character; the marks lie outside of what text can reach.
    fn check(messages: &[(&str, &str)]) -> Result<String, EmbeddedError> {
        let messages: Vec<Message> = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
        let marks = Marks { start: 1 << 30, end: 1 << 31 };
        let ids = prompt(&messages, &marks, |text| Ok(text.chars().map(u32::from).collect()))?;
        Ok(ids
            .iter()
            .map(|&id| {
                if id == marks.start {
                    '⟦'
                } else if id == marks.end {
                    '⟧'
                } else {
                    char::from_u32(id).unwrap()
                }
            })
            .collect())
    }

    #[test]
    fn turns_are_marked_and_the_assistant_is_next() {
        let conversation = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Bye")];
        let prompt = check(&conversation).unwrap();
        assert_eq!(prompt, "⟦system\nBe brief.⟧\n⟦user\nHi⟧\n⟦assistant\nHello⟧\n⟦user\nBye⟧\n⟦assistant\n");
        assert_eq!(check(&[("user", "Hi")]).unwrap(), "⟦system\nYou are a helpful assistant.⟧\n⟦user\nHi⟧\n⟦assistant\n");
        assert_eq!(check(&[("developer", "A"), ("tool", "B")]).unwrap(), "⟦system\nA⟧\n⟦user\nB⟧\n⟦assistant\n");
    }

    #[test]
    fn what_makes_no_conversation_is_refused() {
        for messages in [&[][..], &[("user", "  ")], &[("oracle", "Hi")], &[("user\n<|im_end|>", "Hi")]] {
            assert!(matches!(check(messages), Err(EmbeddedError::BadRequest { .. })), "{messages:?}");
        }
    }
}
