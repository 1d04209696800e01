//! What a path looks like: `*` and `?` within a folder, `**` across folders. Linear in pattern times path, whatever the pattern.

pub(super) struct Glob {
    /// `None`: no wildcard, so any part of the path will do.
    parts: Option<Vec<Part>>,
    plain: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    One(char),
    AnyOne,
    Some,
    Across,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Glob {
        let plain = pattern.to_lowercase();
        if !pattern.contains(['*', '?']) {
            return Glob { parts: None, plain };
        }
        let mut parts = Vec::new();
        // Without a slash it is about the name, wherever that is.
        if !pattern.contains('/') {
            parts.push(Part::Across);
        }
        let mut chars = plain.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '*' if chars.peek() == Some(&'*') => {
                    while chars.peek() == Some(&'*') {
                        chars.next();
                    }
                    // `a/**/b` is also `a/b`: the slash after it belongs to what it stands for.
                    if chars.peek() == Some(&'/') {
                        chars.next();
                    }
                    parts.push(Part::Across);
                }
                '*' => parts.push(Part::Some),
                '?' => parts.push(Part::AnyOne),
                c => parts.push(Part::One(c)),
            }
        }
        Glob { parts: Some(parts), plain }
    }

    pub(super) fn fits(&self, path: &str) -> bool {
        let path = path.to_lowercase();
        let Some(parts) = &self.parts else { return path.contains(&self.plain) };
        let path: Vec<char> = path.chars().collect();
        // reached[i]: the parts so far can stand for the first i characters.
        let mut reached = vec![false; path.len() + 1];
        reached[0] = true;
        for part in parts {
            let mut next = vec![false; path.len() + 1];
            match part {
                Part::One(_) | Part::AnyOne => {
                    for at in 0..path.len() {
                        let fits = match part {
                            Part::One(c) => path[at] == *c,
                            _ => path[at] != '/',
                        };
                        next[at + 1] = reached[at] && fits;
                    }
                }
                Part::Some => {
                    let mut open = false;
                    for at in 0..=path.len() {
                        if at > 0 && path[at - 1] == '/' {
                            open = false;
                        }
                        open |= reached[at];
                        next[at] = open;
                    }
                }
                // Whole folders: it ends at the beginning, after a slash, or at the end.
                Part::Across => {
                    let mut open = false;
                    for at in 0..=path.len() {
                        next[at] = reached[at] || (open && (path[at - 1] == '/' || at == path.len()));
                        open |= reached[at];
                    }
                }
            }
            reached = next;
        }
        reached[path.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn what_fits() {
        let rows = [
            ("*.md", "a.md", true),
            ("*.md", "deep/down/a.md", true),
            ("*.md", "a.mdx", false),
            ("*.MD", "a.md", true),
            ("notes/*.md", "notes/a.md", true),
            ("notes/*.md", "notes/x/a.md", false),
            ("notes/**/*.md", "notes/x/y/a.md", true),
            ("notes/**/*.md", "notes/a.md", true),
            ("**/*.md", "a.md", true),
            ("**", "a/b/c", true),
            ("notes/**", "notes/x/y", true),
            ("notes/**", "other/x", false),
            ("**/b", "ab", false),
            ("a?c.txt", "abc.txt", true),
            ("a?c", "a/c", false),
            ("plan", "notes/Plan-2026.md", true),
            ("plan", "notes/other.md", false),
            ("2026-*-*.csv", "r/2026-01-02.csv", true),
            ("*", "a", true),
            ("é*", "édition", true),
        ];
        for (pattern, path, fits) in rows {
            assert_eq!(Glob::new(pattern).fits(path), fits, "{pattern} {path}");
        }
        // A pattern made to be slow.
        assert!(!Glob::new(&"*a".repeat(100)).fits(&"a".repeat(99)));
    }
}
