//! Detects whether a text is English, by its letters and most frequent words.

/// Words that are frequent in other languages with Latin letters and rare in English.
const FOREIGN: &[&str] = &[
    "der", "die", "das", "und", "ist", "nicht", "ein", "eine", "wurde", "mit", "von", "den", "dem", "auf", "für", "im", "zu", "sich", "auch", "le",
    "la", "les", "des", "et", "est", "une", "dans", "pour", "qui", "que", "du", "sur", "par", "pas", "el", "los", "las", "una", "del", "y", "en",
    "por", "con", "para", "es", "se", "il", "che", "di", "della", "per", "non", "sono", "nel", "gli", "o", "os", "da", "do", "em", "um", "uma",
    "não", "het", "een", "van", "en", "niet", "zijn", "och", "att", "är", "som", "på", "w", "na", "jest", "nie", "się",
];
/// Words of which nearly every English sentence has one.
const ENGLISH: &[&str] = &[
    "the", "of", "and", "to", "in", "is", "was", "are", "were", "a", "an", "for", "on", "with", "by", "at", "from", "that", "it", "as", "has", "had",
    "have", "be", "not", "its", "his", "her", "their", "this", "he", "she", "they", "or", "than", "which", "who", "but", "more", "first", "been",
    "will", "can", "all", "no", "over", "about", "into", "you", "we", "i",
];

/// Texts without any frequent word (names, figures) count as English.
pub(crate) fn is_english(text: &str) -> bool {
    let (mut latin, mut other) = (0_usize, 0_usize);
    for letter in text.chars().filter(|letter| letter.is_alphabetic()) {
        // Basic Latin to Latin Extended Additional; Greek letters occur in English formulas, but rarely.
        if letter < '\u{250}' || ('\u{1e00}'..='\u{1eff}').contains(&letter) { latin += 1 } else { other += 1 }
    }
    if other > latin {
        return false;
    }
    let (mut english, mut foreign) = (0_usize, 0_usize);
    for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        english += usize::from(ENGLISH.contains(&word.as_str()));
        foreign += usize::from(FOREIGN.contains(&word.as_str()));
    }
    foreign < 2 || foreign <= english
}

#[cfg(test)]
mod tests {
    use super::is_english;

    #[test]
    fn languages_are_distinguished() {
        for text in [
            "Arsenal beat Tottenham 3–1.",
            "Le Monde and La Repubblica were sold in the same year.",
            "Alpha (α) and β decay differ.",
            "",
            "Los Angeles, La Paz, El Paso and the Rio Grande are in America.",
        ] {
            assert!(is_english(text), "{text}");
        }
        for text in [
            "La tour a été construite par les ouvriers et elle est haute.",
            "El puente fue construido por los romanos en el siglo I.",
            "O rio corre para o mar e não volta.",
            "Η γέφυρα είναι μεγάλη.",
            "Il ponte è stato costruito nel secolo scorso e non è alto.",
        ] {
            assert!(!is_english(text), "{text}");
        }
    }
}
