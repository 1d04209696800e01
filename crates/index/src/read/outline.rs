//! The headings above a block: shared by all blocks under them, and bounded in depth and length.

use std::sync::Arc;

/// From the outermost heading to the innermost. Cheap to clone.
pub(crate) type HeadingPath = Arc<[String]>;

pub(super) const DEPTH_MAX: usize = 12;
pub(super) const HEADING_BYTES_MAX: usize = 300;

/// The headings at the current position.
#[derive(Default)]
pub(super) struct Outline {
    open: Vec<(u32, String)>,
    path: HeadingPath,
}

impl Outline {
    /// Beyond `DEPTH_MAX` a heading replaces the innermost one.
    pub(super) fn enter(&mut self, level: u32, heading: String) {
        self.open.retain(|(outer, _)| *outer < level);
        self.open.truncate(DEPTH_MAX - 1);
        self.open.push((level, cut_heading(heading)));
        self.path = self.open.iter().map(|(_, heading)| heading.clone()).collect();
    }

    pub(super) fn path(&self) -> HeadingPath {
        self.path.clone()
    }
}

/// A heading of at most `HEADING_BYTES_MAX` bytes, with an ellipsis where it was cut.
pub(super) fn cut_heading(mut heading: String) -> String {
    const ELLIPSIS: char = '…';
    if heading.len() > HEADING_BYTES_MAX {
        let end = heading.floor_char_boundary(HEADING_BYTES_MAX - ELLIPSIS.len_utf8());
        heading.truncate(end);
        heading.push(ELLIPSIS);
        heading.shrink_to_fit();
    }
    heading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shared_and_bounded() {
        let mut outline = Outline::default();
        for level in 0..1_000 {
            outline.enter(level, "ü".repeat(10_000));
        }
        outline.enter(1_000, "last".into());
        let path = outline.path();
        assert_eq!((path.len(), path.last().map(String::as_str)), (DEPTH_MAX, Some("last")));
        assert!(path.iter().all(|heading| heading.len() <= HEADING_BYTES_MAX));
        assert!(Arc::ptr_eq(&path, &outline.path()));
        outline.enter(1, "second".into());
        assert_eq!(outline.path().len(), 2);
    }
}
