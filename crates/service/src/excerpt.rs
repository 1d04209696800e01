//! Locates a passage in its document.

use graph::UserId;
use index::Folders;
use wire::api;

/// Lines (pages, paragraphs) shown before and after a passage.
const AROUND: u32 = 120;

/// The document around a passage, and the passage's position in it. `None` if there is no such document that the user may read.
pub(crate) fn of(folders: &Folders, user: &UserId, address: &str, title: &str, place: Option<&str>, text: &str) -> Option<api::Excerpt> {
    let (from, to) = place.and_then(numbers).unwrap_or((1, u32::MAX));
    let mut line = from.saturating_sub(AROUND).max(1);
    let mut read = folders.read_for(Some(user.as_str()), address, Some(line), Some(to.saturating_add(AROUND))).ok()?;
    let mut found = find(&read.text, text);
    if found.is_none() && read.is_cut {
        // Long lines: the text before leaves no room for the passage itself.
        line = from;
        read = folders.read_for(Some(user.as_str()), address, Some(line), Some(to.saturating_add(AROUND))).ok()?;
        found = find(&read.text, text);
    }
    // Indexed text may differ from the file: Markdown markup is removed. Then the lines themselves are shown.
    let (start, end) = found.unwrap_or_else(|| lines(&read.text, from.saturating_sub(line), to.saturating_sub(line)));
    let units = |bytes: usize| read.text[..bytes].encode_utf16().count();
    let (start, end) = (units(start), units(end));
    Some(api::Excerpt { path: read.file, title: title.to_owned(), start, end, line, text: read.text })
}

/// `Recovery > Leases, lines 12-20` is from 12 to 20.
fn numbers(place: &str) -> Option<(u32, u32)> {
    let last = place.rsplit(", ").next()?;
    let (word, numbers) = last.split_once(' ')?;
    if !matches!(word, "line" | "lines" | "page" | "pages" | "paragraph" | "paragraphs") {
        return None;
    }
    let (from, to) = numbers.split_once('-').unwrap_or((numbers, numbers));
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

/// The byte range of a text in another, ignoring white space.
fn find(document: &str, text: &str) -> Option<(usize, usize)> {
    if let Some(start) = document.find(text) {
        return Some((start, start + text.len()));
    }
    let dense: Vec<(usize, char)> = document.char_indices().filter(|(_, c)| !c.is_whitespace()).collect();
    let wanted: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    if wanted.is_empty() || wanted.len() > dense.len() {
        return None;
    }
    let start = dense.windows(wanted.len()).position(|window| window.iter().zip(&wanted).all(|((_, c), wanted)| c == wanted))?;
    let (last, c) = dense[start + wanted.len() - 1];
    Some((dense[start].0, last + c.len_utf8()))
}

/// From one line to another, counted from 0, inclusive.
fn lines(document: &str, from: u32, to: u32) -> (usize, usize) {
    let mut at = 0;
    let (mut start, mut end) = (None, 0);
    for (number, line) in document.split('\n').enumerate() {
        if number >= from as usize {
            start.get_or_insert(at);
        }
        if number <= to as usize {
            end = at + line.len();
        }
        at += line.len() + 1;
    }
    let start = start.unwrap_or(0);
    (start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_found_whatever_its_spaces() {
        let document = "# Title\n\nOne two\n  three.\nFour.\n";
        let at = |text: &str| find(document, text).map(|(start, end)| &document[start..end]);
        assert_eq!(at("Four."), Some("Four."));
        assert_eq!(at("One two three."), Some("One two\n  three."));
        assert_eq!(at("Five."), None);
        assert_eq!(numbers("A > B, lines 12-20"), Some((12, 20)));
        assert_eq!((numbers("page 4"), numbers("A, b"), numbers("Recovery")), (Some((4, 4)), None, None));
        let (start, end) = lines(document, 2, 3);
        assert_eq!(&document[start..end], "One two\n  three.");
        assert_eq!(lines("", 4, 9), (0, 0));
    }
}
