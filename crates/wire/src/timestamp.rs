//! Times as text, as RFC 3339 has them.

use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, OffsetDateTime, Time};

/// `2026-11-16T09:44:00.123Z`
pub fn shown(ms: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&Rfc3339).unwrap_or_default()
}

/// Milliseconds since 1970 of a time with its offset; without one it is UTC.
pub fn parse(text: &str) -> Option<i64> {
    let (date, rest) = text.trim().split_once(['T', ' '])?;
    let (clock, offset_minutes) = match rest.find(['Z', 'z', '+', '-']) {
        None => (rest, 0),
        Some(at) if rest[at..].eq_ignore_ascii_case("z") => (&rest[..at], 0),
        Some(at) => {
            let (hours, minutes) = rest[at + 1..].split_once(':').unwrap_or((&rest[at + 1..], "0"));
            let minutes = i64::from(hours.parse::<u8>().ok()?) * 60 + i64::from(minutes.parse::<u8>().ok()?);
            (&rest[..at], if rest[at..].starts_with('-') { -minutes } else { minutes })
        }
    };
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<u16>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<u8>().ok()?, parts.next()?.parse::<u8>().ok()?);
    let seconds = parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok())?;
    let date = Date::from_calendar_date(i32::from(year), u8::try_from(month).ok()?.try_into().ok()?, u8::try_from(day).ok()?).ok()?;
    let time = Time::from_hms(hour, minute, 0).ok()?;
    let seconds = Duration::checked_seconds_f64(seconds.clamp(0.0, 60.0))?;
    let at = OffsetDateTime::new_utc(date, time).checked_add(seconds)?.checked_sub(Duration::minutes(offset_minutes))?;
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_offset() {
        assert_eq!(parse("1970-01-01T01:00:00.250+01:00"), Some(250));
        assert_eq!(parse("1970-01-02 00:00:00"), Some(86_400_000));
        assert_eq!((parse("soon"), parse("2026-13-01T00:00:00Z")), (None, None));
        for far in ["1970-01-01T00:00:00+999999999999999999:00", "1970-01-01T00:00:NaNZ"] {
            assert_eq!(parse(far), None, "{far}");
        }
        // Whether years beyond four digits exist depends on a feature of `time`; either way they are no panic.
        for edge in ["0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"] {
            assert!(parse(edge).is_none_or(|ms| ms.abs() > 62_167_219_200_000), "{edge}");
        }
        assert_eq!(shown(250), "1970-01-01T00:00:00.25Z");
    }
}
