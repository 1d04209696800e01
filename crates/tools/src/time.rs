//! Date formats of evidence.

use ::time::format_description::well_known::Rfc3339;
use ::time::{Date, Month, OffsetDateTime};

/// Seconds since 1970 as RFC 3339; `None` for earlier times.
pub(crate) fn rfc3339(seconds: i64) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok().filter(|_| seconds >= 0)?;
    time.format(&Rfc3339).ok()
}

/// Days since 1970 of a date such as `2026-11-15`; `None` for an invalid date.
pub(crate) fn days_since_1970(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u8>().ok()?, parts.next()?.parse().ok()?);
    if parts.next().is_some() || !(1..=9_999).contains(&year) {
        return None;
    }
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    Some(i64::from(date.to_julian_day() - OffsetDateTime::UNIX_EPOCH.to_julian_day()))
}

#[cfg(test)]
mod tests {
    use super::{days_since_1970, rfc3339};

    #[test]
    fn days_are_the_calendars() {
        let rows = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in rows {
            assert_eq!(rfc3339(seconds).as_deref(), Some(text));
        }
        assert_eq!(rfc3339(-1), None);
        // Both conversions agree for every day of several leap and common years.
        for day in 0..60_000 {
            let date = rfc3339(day * 86_400).unwrap();
            assert_eq!(days_since_1970(&date[..10]), Some(day), "{date}");
        }
        for wrong in ["2026-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-1", "x-1-1", "2026-01-01-01", "0000-01-01"] {
            assert_eq!(days_since_1970(wrong), None, "{wrong}");
        }
    }
}
