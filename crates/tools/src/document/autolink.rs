//! Turns web addresses in plain text into links.

use super::page::Inline;

const SCHEMES: [&str; 2] = ["https://", "http://"];

/// A text with its addresses as links.
pub(super) fn linked(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let mut rest = text;
    while let Some(start) = SCHEMES.iter().filter_map(|scheme| rest.find(scheme)).min() {
        let end = rest[start..].find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`')).map_or(rest.len(), |end| start + end);
        // Punctuation that ends the sentence is not part of the address.
        let address = rest[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '*', '_']);
        let is_bare = SCHEMES.iter().any(|scheme| address.len() <= scheme.len() && scheme.starts_with(address));
        let stop = start + if is_bare { end - start } else { address.len() };
        if is_bare {
            inlines.push(Inline::text(&rest[..stop]));
        } else {
            if start > 0 {
                inlines.push(Inline::text(&rest[..start]));
            }
            inlines.push(Inline::Link { to: address.to_owned(), inside: vec![Inline::text(address)] });
        }
        rest = &rest[stop..];
    }
    if !rest.is_empty() {
        inlines.push(Inline::text(rest));
    }
    inlines
}

/// Links are not nested.
pub(super) fn unlinked(inlines: Vec<Inline>) -> Vec<Inline> {
    inlines
        .into_iter()
        .flat_map(|inline| match inline {
            Inline::Link { inside, .. } => inside,
            other => vec![other],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_links_without_the_end_of_the_sentence() {
        let pieces = |text: &str| {
            let words = |inline: Inline| match inline {
                Inline::Link { to, .. } => format!("<{to}>"),
                Inline::Text { text } => text,
                other => format!("{other:?}"),
            };
            linked(text).into_iter().map(words).collect::<Vec<_>>().join("|")
        };
        assert_eq!(pieces("no address"), "no address");
        assert_eq!(pieces("See https://a.example/x?y=1, (http://b.example)."), "See |<https://a.example/x?y=1>|, (|<http://b.example>|).");
        assert_eq!(pieces("https:// alone"), "https://| alone");
    }
}
