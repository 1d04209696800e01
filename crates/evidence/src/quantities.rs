//! Words for quantities: months, numbers and ordinals, magnitudes, units, money. English.

const MONTHS: [&str; 12] = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];

/// 1 to 12, of a whole name or its first three letters (`Sept` too).
pub(crate) fn month(plain: &str) -> Option<u32> {
    if !(3..=9).contains(&plain.len()) {
        return None;
    }
    let index = MONTHS
        .iter()
        .position(|month| *month == plain || (plain.len() == 3 && month.starts_with(plain)) || (plain == "sept" && *month == "september"))?;
    u32::try_from(index + 1).ok()
}

/// The value of a number written as a word.
pub(crate) fn number_word(plain: &str) -> Option<f64> {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let small = SMALL.iter().position(|word| *word == plain).map(|index| index as f64);
    small.or_else(|| TENS.iter().position(|word| *word == plain).map(|index| (index as f64 + 2.0) * 10.0))
}

/// `second`, `third` … `twentieth`; `first` is too often idiomatic.
pub(crate) fn ordinal_word(plain: &str) -> Option<f64> {
    const WORDS: [&str; 20] = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
        "eighteenth",
        "nineteenth",
        "twentieth",
    ];
    WORDS.iter().position(|word| *word == plain).map(|index| index as f64 + 1.0)
}

pub(crate) fn magnitude(plain: &str) -> Option<f64> {
    Some(match plain {
        "dozen" | "dozens" => 12.0,
        "score" => 20.0,
        "hundred" | "hundreds" => 1e2,
        "thousand" | "thousands" => 1e3,
        "million" | "millions" | "mn" => 1e6,
        "billion" | "billions" | "bn" => 1e9,
        "trillion" | "trillions" | "tn" => 1e12,
        _ => return None,
    })
}

/// Suffixes of digits without a space; `221B` and `5G` are identifiers.
pub(crate) fn is_number_suffix(tail: &str) -> bool {
    let is_one_letter_unit = matches!(tail, "m" | "g" | "h" | "W" | "V" | "l" | "t" | "s" | "k" | "K" | "M" | "x");
    is_one_letter_unit || matches!(tail, "st" | "nd" | "rd" | "th" | "am" | "pm" | "bn") || (tail.len() > 1 && unit(tail).is_some())
}

/// A unit: its dimension and its factor to the base unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) kind: u16,
    pub(crate) factor: f64,
}

pub(crate) fn unit(raw: &str) -> Option<Measure> {
    const LENGTH: u16 = 1;
    const MASS: u16 = 2;
    const TIME: u16 = 3;
    const LONG_TIME: u16 = 4;
    const BYTES: u16 = 5;
    const POWER: u16 = 6;
    const VOLUME: u16 = 7;
    const HERTZ: u16 = 8;
    const CELSIUS: u16 = 9;
    const FAHRENHEIT: u16 = 10;
    const KELVIN: u16 = 11;
    const ENERGY: u16 = 12;
    const VOLT: u16 = 13;
    const BEFORE_CHRIST: u16 = 14;
    const AFTER_CHRIST: u16 = 15;
    let lower = raw.to_lowercase();
    let (kind, factor) = match lower.as_str() {
        "nm" | "nanometres" | "nanometers" => (LENGTH, 1e-9),
        "µm" | "μm" | "micrometres" | "micrometers" | "microns" => (LENGTH, 1e-6),
        "mm" | "millimetre" | "millimetres" | "millimeter" | "millimeters" => (LENGTH, 1e-3),
        "cm" | "centimetre" | "centimetres" | "centimeter" | "centimeters" => (LENGTH, 1e-2),
        "m" | "metre" | "metres" | "meter" | "meters" => (LENGTH, 1.0),
        "km" | "kilometre" | "kilometres" | "kilometer" | "kilometers" => (LENGTH, 1e3),
        "mile" | "miles" | "mi" => (LENGTH, 1609.344),
        "foot" | "feet" | "ft" => (LENGTH, 0.3048),
        "inch" | "inches" => (LENGTH, 0.0254),
        "yard" | "yards" => (LENGTH, 0.9144),
        "mg" | "milligram" | "milligrams" => (MASS, 1e-3),
        "g" | "gram" | "grams" | "gramme" | "grammes" => (MASS, 1.0),
        "kg" | "kilo" | "kilos" | "kilogram" | "kilograms" => (MASS, 1e3),
        "tonne" | "tonnes" | "t" => (MASS, 1e6),
        "lb" | "lbs" => (MASS, 453.592_37),
        "oz" | "ounce" | "ounces" => (MASS, 28.349_5),
        "ns" | "nanosecond" | "nanoseconds" => (TIME, 1e-9),
        "µs" | "μs" | "us" | "microsecond" | "microseconds" => (TIME, 1e-6),
        "ms" | "millisecond" | "milliseconds" => (TIME, 1e-3),
        "s" | "sec" | "secs" | "second" | "seconds" => (TIME, 1.0),
        "min" | "mins" | "minute" | "minutes" => (TIME, 60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => (TIME, 3600.0),
        "day" | "days" => (TIME, 86_400.0),
        "week" | "weeks" => (TIME, 604_800.0),
        "month" | "months" => (LONG_TIME, 1.0),
        "year" | "years" | "yr" | "yrs" => (LONG_TIME, 12.0),
        "decade" | "decades" => (LONG_TIME, 120.0),
        "century" | "centuries" => (LONG_TIME, 1200.0),
        "byte" | "bytes" => (BYTES, 1.0),
        "kb" | "kib" | "kilobyte" | "kilobytes" => (BYTES, 1e3),
        "mb" | "mib" | "megabyte" | "megabytes" => (BYTES, 1e6),
        "gb" | "gib" | "gigabyte" | "gigabytes" => (BYTES, 1e9),
        "tb" | "tib" | "terabyte" | "terabytes" => (BYTES, 1e12),
        "w" | "watt" | "watts" => (POWER, 1.0),
        "kw" | "kilowatt" | "kilowatts" => (POWER, 1e3),
        "mw" | "megawatt" | "megawatts" => (POWER, 1e6),
        "gw" | "gigawatt" | "gigawatts" => (POWER, 1e9),
        "ml" | "millilitre" | "millilitres" | "milliliters" => (VOLUME, 1e-3),
        "l" | "litre" | "litres" | "liter" | "liters" => (VOLUME, 1.0),
        "hz" | "hertz" => (HERTZ, 1.0),
        "khz" => (HERTZ, 1e3),
        "mhz" => (HERTZ, 1e6),
        "ghz" => (HERTZ, 1e9),
        "celsius" => (CELSIUS, 1.0),
        "fahrenheit" => (FAHRENHEIT, 1.0),
        "kelvin" => (KELVIN, 1.0),
        "kwh" => (ENERGY, 1.0),
        "mwh" => (ENERGY, 1e3),
        "gwh" => (ENERGY, 1e6),
        "v" | "volt" | "volts" => (VOLT, 1.0),
        "mph" => (0x100 * TIME + LENGTH, 1609.344 / 3600.0),
        "kph" => (0x100 * TIME + LENGTH, 1e3 / 3600.0),
        "bc" | "bce" => (BEFORE_CHRIST, 1.0),
        "ad" | "ce" => (AFTER_CHRIST, 1.0),
        _ => return None,
    };
    Some(Measure { kind, factor })
}

pub(crate) const CELSIUS_KIND: u16 = 9;
pub(crate) const FAHRENHEIT_KIND: u16 = 10;

pub(crate) fn money(plain: &str) -> Option<&'static str> {
    Some(match plain {
        "dollar" | "dollars" | "usd" => "$",
        "euro" | "euros" | "eur" => "€",
        "sterling" | "gbp" => "£",
        "yen" | "jpy" => "¥",
        "rupee" | "rupees" | "inr" => "₹",
        _ => return None,
    })
}
