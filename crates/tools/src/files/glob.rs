//! Path patterns: `*` and `?` within a folder, `**` across folders. All other characters are literal.

use regex::Regex;

pub(super) struct Glob {
    /// `None`: no wildcard, so any part of the path matches.
    whole: Option<Regex>,
    plain: String,
}

impl Glob {
    /// An error if the pattern is too long for a regular expression.
    pub(super) fn new(pattern: &str) -> Result<Glob, regex::Error> {
        let plain = pattern.to_lowercase();
        let whole = pattern.contains(['*', '?']).then(|| Regex::new(&expression(&plain))).transpose()?;
        Ok(Glob { whole, plain })
    }

    /// Time is linear in pattern and path.
    pub(super) fn fits(&self, path: &str) -> bool {
        let path = path.to_lowercase();
        match &self.whole {
            Some(whole) => whole.is_match(&path),
            None => path.contains(&self.plain),
        }
    }
}

fn expression(pattern: &str) -> String {
    let mut expression = String::from("(?s)^");
    // Without a slash it matches the file name in any folder.
    if !pattern.contains('/') {
        expression.push_str("(?:.*/)?");
    }
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let after_stars = rest.trim_start_matches('*');
        match (first, rest.len() - after_stars.len()) {
            ('*', 1) => expression.push_str("[^/]*"),
            // `a/**/b` also matches `a/b`: `**/` stands for any number of whole folders.
            ('*', _) => {
                rest = after_stars.strip_prefix('/').unwrap_or(after_stars);
                expression.push_str(if rest.is_empty() { ".*" } else { "(?:.*/)?" });
                continue;
            }
            ('?', _) => expression.push_str("[^/]"),
            _ => expression.push_str(&regex::escape(&rest[..first.len_utf8()])),
        }
        rest = &rest[first.len_utf8()..];
    }
    expression.push('$');
    expression
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
            ("caf?", "café", true),
            ("a[b].{c}*", "a[b].{c}d", true),
            ("a\\*", "a\\b", true),
        ];
        for (pattern, path, fits) in rows {
            assert_eq!(Glob::new(pattern).unwrap().fits(path), fits, "{pattern} {path}");
        }
        // A pattern with exponential backtracking in other implementations.
        assert!(!Glob::new(&"*a".repeat(100)).unwrap().fits(&"a".repeat(99)));
    }
}
