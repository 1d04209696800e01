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

#[cfg(test)]
mod tests {
    use super::rfc3339;

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
    }
}
