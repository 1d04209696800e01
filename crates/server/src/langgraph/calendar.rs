//! Schedules in the five fields of cron, in UTC, and times as text.

use time::{Date, OffsetDateTime, Time};
pub(crate) use wire::timestamp::{parse, shown};

/// Minute, hour, day of the month, month, day of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With both kinds of days restricted, one of them is enough.
    either_day: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The 29th of February comes within this.
const DAYS_MAX: i64 = 8 * 366;

impl Schedule {
    pub(super) fn parse(text: &str) -> Result<Schedule, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("a schedule has five fields, minute hour day month weekday, not {}", fields.len()));
        };
        let mut weekday_bits = field(weekdays, "weekday", 0, 7, &WEEKDAYS, 0)?;
        // Sunday is 0 and 7.
        weekday_bits = (weekday_bits | (weekday_bits >> 7)) & 0x7f;
        let schedule = Schedule {
            minutes: field(minutes, "minute", 0, 59, &[], 0)?,
            hours: field(hours, "hour", 0, 23, &[], 0)?,
            days: field(days, "day", 1, 31, &[], 0)?,
            months: field(months, "month", 1, 12, &MONTHS, 1)?,
            weekdays: weekday_bits,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        match schedule.after(0) {
            Some(_) => Ok(schedule),
            None => Err("this schedule names a day that no calendar has".to_owned()),
        }
    }

    /// The first time after this one, in milliseconds since 1970.
    pub(super) fn after(&self, ms: i64) -> Option<i64> {
        let now = OffsetDateTime::from_unix_timestamp(ms.div_euclid(60_000).checked_add(1)?.checked_mul(60)?).ok()?;
        let mut date = now.date();
        let mut first = u32::from(now.hour()) * 60 + u32::from(now.minute());
        for _ in 0..DAYS_MAX {
            if self.has_day(date) {
                let minute = (first..24 * 60).find(|at| self.hours >> (at / 60) & 1 == 1 && self.minutes >> (at % 60) & 1 == 1);
                if let Some(minute) = minute {
                    let midnight = OffsetDateTime::new_utc(date, Time::MIDNIGHT).unix_timestamp();
                    return Some((midnight + i64::from(minute) * 60) * 1_000);
                }
            }
            (date, first) = (date.next_day()?, 0);
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |bits: u64, at: u8| bits >> at & 1 == 1;
        let (of_month, of_week) = (has(self.days, date.day()), has(self.weekdays, date.weekday().number_days_from_sunday()));
        has(self.months, u8::from(date.month())) && if self.either_day { of_month || of_week } else { of_month && of_week }
    }
}

/// `*`, `5`, `1-5`, `*/15`, `1-30/2`, and lists of these.
fn field(text: &str, name: &str, least: u32, most: u32, names: &[&str], first_name: u32) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no {name}: numbers from {least} to {most}, `*`, ranges `1-5`, steps `*/15`, lists `1,2`");
    let number = |text: &str| {
        let by_name = names.iter().position(|name| text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name)) && text.len() == 3);
        let number = match by_name {
            Some(at) => u32::try_from(at).ok().map(|at| at + first_name),
            None => text.parse::<u32>().ok(),
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0).ok_or_else(wrong)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(wrong());
        }
        (from..=to).step_by(step).for_each(|at| bits |= 1_u64 << at);
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_say_when_they_are_due_next() {
        let monday = parse("2026-11-16T09:44:30Z").unwrap();
        for (schedule, next) in [
            ("* * * * *", "2026-11-16T09:45:00Z"),
            ("*/15 * * * *", "2026-11-16T09:45:00Z"),
            ("30 8 * * *", "2026-11-17T08:30:00Z"),
            ("0 12 * * mon-fri", "2026-11-16T12:00:00Z"),
            ("0 0 1 1 *", "2027-01-01T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-11-20T00:00:00Z"),
            ("@hourly", "2026-11-16T10:00:00Z"),
            ("0 0 * * 7", "2026-11-22T00:00:00Z"),
        ] {
            assert_eq!(shown(Schedule::parse(schedule).unwrap().after(monday).unwrap()), next, "{schedule}");
        }
        for wrong in ["", "* * * *", "60 * * * *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "0 0 31 2 *"] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
