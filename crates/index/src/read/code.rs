//! Source code: a block for each definition with its leading comments, under the names of enclosing definitions.
//!
//! Definitions are recognised by the first words of a line, the same way for all languages, so nothing is parsed and rare languages work
//! almost as well as common ones. Text before the first definition is a block as well.

use super::{Block, Document, Outline};
use crate::passage::Location;

pub(super) const ENDINGS: [&str; 50] = [
    "bash", "c", "cc", "clj", "cpp", "cs", "css", "cxx", "dart", "el", "erl", "ex", "exs", "fs", "go", "groovy", "h", "hpp", "hs", "java", "jl",
    "js", "jsx", "kt", "kts", "lua", "m", "mjs", "ml", "nim", "php", "pl", "proto", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh", "sql",
    "svelte", "swift", "ts", "tsx", "vb", "vue", "zig", "zsh",
];

/// Words that may precede a definition.
const BEFORE: [&str; 22] = [
    "pub",
    "pub(crate)",
    "pub(super)",
    "export",
    "default",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "abstract",
    "final",
    "unsafe",
    "extern",
    "virtual",
    "override",
    "const",
    "inline",
    "sealed",
    "local",
    "open",
];
/// Words that begin a definition; its name follows.
const DEFINES: [&str; 25] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "impl",
    "interface",
    "func",
    "function",
    "type",
    "module",
    "mod",
    "namespace",
    "object",
    "record",
    "protocol",
    "union",
    "macro_rules!",
    "defmodule",
    "message",
    "service",
    "fun",
    "sub",
    "extension",
];

pub(super) fn read(text: &str) -> Document {
    let lines: Vec<&str> = text.lines().collect();
    let mut document = Document::default();
    let mut outline = Outline::default();
    let mut start = 0;
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = defined(line) {
            let begin = definition_start(&lines, at).max(start);
            push(&mut document, &outline, &lines, start, begin);
            outline.enter(indent(line), name);
            start = begin;
        } else if start < at
            && line.trim().is_empty()
            && lines.get(at + 1).is_some_and(|next| !next.trim().is_empty() && indent(next) == 0 && !closes(next))
        {
            // Unindented after a blank line: outside the previous definition.
            push(&mut document, &outline, &lines, start, at);
            start = at;
            outline = Outline::default();
        }
    }
    push(&mut document, &outline, &lines, start, lines.len());
    document
}

fn push(document: &mut Document, outline: &Outline, lines: &[&str], start: usize, end: usize) {
    let is_blank = |line: &&str| line.trim().is_empty();
    let block = &lines[start..end];
    let skipped = block.iter().take_while(|line| is_blank(line)).count();
    let trailing = block.iter().rev().take_while(|line| is_blank(line)).count();
    if skipped + trailing >= block.len() {
        return;
    }
    let (first, last) = (start + skipped, end - trailing);
    let text = lines[first..last].iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    document.push(Block { headings: outline.path(), text, place: Some(Location::Lines(first as u32 + 1, last as u32)), links: Vec::new() });
}

/// Comments, attributes and decorators directly above a definition belong to it.
fn definition_start(lines: &[&str], at: usize) -> usize {
    let mut first = at;
    while first > 0 {
        let line = lines[first - 1].trim_start();
        let belongs = ["//", "#", "/*", "*", "--", ";;", "@", "\"\"\""].iter().any(|mark| line.starts_with(mark)) && !line.starts_with("#include");
        if !belongs {
            break;
        }
        first -= 1;
    }
    first
}

fn defined(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| BEFORE.contains(word));
    let word = words.next()?;
    if !DEFINES.contains(&word) && !word.starts_with("impl<") {
        return None;
    }
    // In `impl<T> Trait for Type` and `func (r *T) name` something precedes the name.
    let rest = line[line.find(word)? + word.len()..].trim_start();
    let rest = if word.starts_with("impl") {
        let head = rest.split(['{', ';']).next().unwrap_or(rest);
        head.rsplit(" for ").next().unwrap_or(head)
    } else if word == "func" && rest.starts_with('(') {
        rest.split_once(')')?.1
    } else {
        rest
    };
    let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '$')).collect();
    let name = name.trim_end_matches([':', '.']).to_owned();
    (!name.is_empty() && name.len() < 100).then_some(name)
}

fn closes(line: &str) -> bool {
    line.starts_with(['}', ')', ']']) || line.trim() == "end"
}

fn indent(line: &str) -> u32 {
    line.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, expected: &[(&str, u32, u32)]) {
        let found: Vec<(String, Location)> = read(code).blocks.iter().map(|block| (block.headings.join("/"), block.place.unwrap())).collect();
        let expected: Vec<(String, Location)> = expected.iter().map(|(path, from, to)| ((*path).into(), Location::Lines(*from, *to))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn rust() {
        let code = "//! About.\nuse std::fs;\n\n/// A run.\n#[derive(Debug)]\npub struct Run {\n    id: u32,\n}\n\nimpl<T> Walk for Run {\n    // why\n    pub(crate) fn next(&self) {\n        go();\n    }\n}\n\nconst A: u32 = 1;\n";
        check(code, &[("", 1, 2), ("Run", 4, 8), ("Run", 10, 10), ("Run/next", 11, 15), ("", 17, 17)]);
    }

    #[test]
    fn python() {
        let code = "import os\n\n@cached\ndef first(a):\n    return a\n\nclass Second(Base):\n    \"\"\"Doc.\"\"\"\n\n    async def third(self):\n        pass\n\nmain()\n";
        check(code, &[("", 1, 1), ("first", 3, 5), ("Second", 7, 8), ("Second/third", 10, 11), ("", 13, 13)]);
    }

    #[test]
    fn names_in_many_languages() {
        let cases = [
            ("func (r *Run) Next() error {", Some("Next")),
            ("export default async function load(url) {", Some("load")),
            ("public static class Outer {", Some("Outer")),
            ("impl fmt::Display for Place {", Some("Place")),
            ("message Ask {", Some("Ask")),
            ("defmodule My.App do", Some("My.App")),
            ("return type", None),
            ("let fn_name = 1;", None),
            ("fn", None),
        ];
        for (line, expected) in cases {
            assert_eq!(defined(line).as_deref(), expected, "{line}");
        }
    }
}
