//! The difference of two texts, line by line.

/// A line of either text or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'t> {
    Same(&'t str),
    Left(&'t str),
    Right(&'t str),
}

/// Longer texts are compared by their first lines.
const LINES_MAX: usize = 2_000;

/// By the longest common subsequence of lines.
pub(crate) fn diff<'t>(left: &'t str, right: &'t str) -> Vec<Line<'t>> {
    let (a, b): (Vec<&str>, Vec<&str>) = (left.lines().take(LINES_MAX).collect(), right.lines().take(LINES_MAX).collect());
    let width = b.len() + 1;
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] =
                if a[i] == b[j] { lengths[(i + 1) * width + j + 1] + 1 } else { lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]) };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            found.push(Line::Same(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j >= b.len() || (i < a.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
            found.push(Line::Left(a[i]));
            i += 1;
        } else {
            found.push(Line::Right(b[j]));
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_only_left_or_only_right() {
        let diff = |left: &str, right: &str| -> String {
            let sign = |line: &Line<'_>| match line {
                Line::Same(text) => format!(" {text}"),
                Line::Left(text) => format!("-{text}"),
                Line::Right(text) => format!("+{text}"),
            };
            diff(left, right).iter().map(sign).collect::<Vec<_>>().join("|")
        };
        assert_eq!(diff("a\nb\nc", "a\nx\nc"), " a|-b|+x| c");
        assert_eq!(diff("a", "a\nb"), " a|+b");
        assert_eq!(diff("a\nb\nc\nd", "b\nd"), "-a| b|-c| d");
        assert_eq!(diff("", ""), "");
    }
}
