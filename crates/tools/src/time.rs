//! Dates as evidence carries them.

/// Seconds since 1970 as RFC 3339, by the civil calendar.
pub(crate) fn rfc3339(seconds: i64) -> Option<String> {
    let seconds = u64::try_from(seconds).ok()?;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Counted from March, so that the day that leaps is the last of its year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60))
}

/// The days of a date such as `2026-11-15`, counted from 1970; nothing for a day that is in no calendar.
pub(crate) fn days_since_1970(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=length).contains(&day) || !(1..=9_999).contains(&year) {
        return None;
    }
    let (shifted_year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = shifted_year / 400;
    let year_of_era = shifted_year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month_from_march + 2) / 5 + day - 1;
    Some(era * 146_097 + day_of_era - 719_468)
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
        // Both ways give the same day, for every day of a few leap years and none.
        for day in 0..60_000 {
            let date = rfc3339(day * 86_400).unwrap();
            assert_eq!(days_since_1970(&date[..10]), Some(day), "{date}");
        }
        for wrong in ["2026-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-1", "x-1-1", "2026-01-01-01", "0000-01-01"] {
            assert_eq!(days_since_1970(wrong), None, "{wrong}");
        }
    }
}
