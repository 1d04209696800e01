//! Selects a font for each character, and measures text.

use std::collections::BTreeSet;
use std::sync::Arc;

use krilla::text::{GlyphId, KrillaGlyph};
use rustybuzz::{Face, UnicodeBuffer};

use crate::document::DocumentError;

/// Built-in fonts by their index.
const SERIF: [usize; 4] = [0, 1, 2, 3];
const MONO: [usize; 4] = [16, 13, 15, 14];
/// Maximum number of system fonts as fallback; each may have tens of megabytes.
const SYSTEM_FONTS_MAX: usize = 8;

pub(super) struct Fonts {
    files: Vec<(Arc<Vec<u8>>, u32)>,
}

/// The same, parsed for measuring.
pub(super) struct Faces<'a> {
    faces: Vec<Face<'a>>,
}

impl Fonts {
    /// The built-in fonts, and the system fonts needed for the rest. Also the characters that none of them has.
    pub(super) fn for_text(used: &BTreeSet<char>) -> Result<(Self, BTreeSet<char>), DocumentError> {
        let files = typst_assets::fonts().map(|data| (Arc::new(data.to_vec()), 0)).collect();
        let mut fonts = Self { files };
        let faces = fonts.faces()?;
        let mut missing: BTreeSet<char> = used.iter().copied().filter(|c| faces.having(*c, 0).is_none()).collect();
        if !missing.is_empty() {
            // Scanning system fonts is slow, and seldom needed.
            let mut system = fontdb::Database::new();
            system.load_system_fonts();
            for info in system.faces() {
                if missing.is_empty() || fonts.files.len() >= MONO[0] + 1 + SYSTEM_FONTS_MAX {
                    break;
                }
                let found = system.with_face_data(info.id, |data, index| {
                    let face = Face::from_slice(data, index)?;
                    // Colour bitmaps have no outline to draw.
                    let has = |c: &char| face.glyph_index(*c).is_some_and(|glyph| face.glyph_bounding_box(glyph).is_some());
                    let found: Vec<char> = missing.iter().copied().filter(has).collect();
                    (!found.is_empty()).then(|| (Arc::new(data.to_vec()), index, found))
                });
                if let Some(Some((data, index, found))) = found {
                    fonts.files.push((data, index));
                    missing.retain(|c| !found.contains(c));
                }
            }
        }
        Ok((fonts, missing))
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (Arc<Vec<u8>>, u32)> {
        self.files.iter().cloned()
    }

    pub(super) fn faces(&self) -> Result<Faces<'_>, DocumentError> {
        let faces: Option<Vec<_>> = self.files.iter().map(|(data, index)| Face::from_slice(data, *index)).collect();
        Ok(Faces { faces: faces.ok_or_else(|| DocumentError::Broken("a font cannot be read".into()))? })
    }
}

impl Faces<'_> {
    /// The face for a style: bold counts one, italic two.
    pub(super) fn styled(&self, mono: bool, bold: bool, italic: bool) -> usize {
        let place = usize::from(bold) + 2 * usize::from(italic);
        if mono { MONO[place] } else { SERIF[place] }
    }

    /// The preferred face if it has the character, or another that does.
    pub(super) fn having(&self, c: char, requested: usize) -> Option<usize> {
        std::iter::once(requested).chain(0..self.faces.len()).find(|face| self.faces[*face].glyph_index(c).is_some())
    }

    /// The glyphs of a text in a single face, and their width, both for size one.
    pub(super) fn shape(&self, face: usize, text: &str) -> (Vec<KrillaGlyph>, f32) {
        let face = &self.faces[face];
        let unit = face.units_per_em() as f32;
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(text);
        buffer.guess_segment_properties();
        let shaped = rustybuzz::shape(face, &[], buffer);
        let starts: BTreeSet<usize> = shaped.glyph_infos().iter().map(|info| info.cluster as usize).collect();
        let mut width = 0.0;
        let mut glyphs = Vec::with_capacity(shaped.len());
        for (info, position) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()) {
            let start = info.cluster as usize;
            let end = starts.range(start + 1..).next().copied().unwrap_or(text.len());
            width += position.x_advance as f32 / unit;
            let em = |units: i32| units as f32 / unit;
            glyphs.push(KrillaGlyph::new(
                GlyphId::new(info.glyph_id),
                em(position.x_advance),
                em(position.x_offset),
                em(position.y_offset),
                em(position.y_advance),
                start..end,
                None,
            ));
        }
        (glyphs, width)
    }
}
