//! Schedules in the five fields of cron, in a time zone, and times as text.
//!
//! Where clocks are set forward or back: a schedule for every hour (`*`) goes by real time, so that it neither pauses nor doubles. One for certain hours is due
//! once for each time of day: of an hour that comes twice, at its first; of one that is left out, as much later as the clocks were set.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
pub(crate) use wire::timestamp::{parse, shown};

/// A zone by its IANA name (`Europe/Berlin`), or by its offset as Python's fixed zones have it (`UTC+05:30`); UTC without a name.
pub(super) fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let name = match name.map(str::trim) {
        None | Some("" | "Z" | "z") => return Ok(TimeZone::UTC),
        Some(name) => name,
    };
    let shown: String = name.chars().take(100).collect();
    if let Some(offset) = name.strip_prefix("UTC").filter(|offset| !offset.is_empty()) {
        return fixed(offset).ok_or_else(|| format!("{shown:?} is no offset: write it as UTC+05:30"));
    }
    TimeZone::get(name).map_err(|_| format!("there is no time zone {shown:?}; name one of the IANA database, such as Europe/Berlin"))
}

fn fixed(offset: &str) -> Option<TimeZone> {
    let (sign, clock) = offset.strip_prefix('+').map(|clock| (1, clock)).or_else(|| offset.strip_prefix('-').map(|clock| (-1, clock)))?;
    let (hours, minutes) = clock.split_once(':').unwrap_or((clock, "0"));
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok().filter(|minutes| *minutes < 60)?);
    let seconds = sign * (i32::from(hours) * 60 + i32::from(minutes)) * 60;
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

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
    /// It is due in every hour.
    every_hour: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The 29th of February comes within this.
const DAYS_MAX: i64 = 8 * 366;
const MINUTE_MS: i64 = 60_000;

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
            every_hour: hours == "*",
        };
        match schedule.after(0, &TimeZone::UTC) {
            Some(_) => Ok(schedule),
            None => Err("this schedule names a day that no calendar has".to_owned()),
        }
    }

    /// The first time after this one, in milliseconds since 1970.
    pub(super) fn after(&self, ms: i64, zone: &TimeZone) -> Option<i64> {
        let first = Timestamp::from_millisecond(ms.div_euclid(MINUTE_MS).checked_add(1)?.checked_mul(MINUTE_MS)?).ok()?;
        let mut date = zone.to_datetime(first).date();
        for _ in 0..DAYS_MAX {
            let tomorrow = date.tomorrow().ok()?;
            if self.has_day(date) {
                let due = if self.every_hour { self.by_the_minute(date, tomorrow, first, zone) } else { self.by_the_clock(date, first, zone) };
                if let Some(due) = due {
                    return Some(due.as_millisecond());
                }
            }
            date = tomorrow;
        }
        None
    }

    /// The first minute of a day, in real time, from `first` on.
    fn by_the_minute(&self, date: Date, tomorrow: Date, first: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (begins, ends) = (instant(date.at(0, 0, 0, 0), zone)?, instant(tomorrow.at(0, 0, 0, 0), zone)?);
        let mut at = begins.max(first).as_millisecond();
        // Zones of long ago have offsets with seconds.
        let past_minute = i64::from(zone.to_datetime(Timestamp::from_millisecond(at).ok()?).second()) * 1_000;
        at += (MINUTE_MS - past_minute) % MINUTE_MS;
        while at < ends.as_millisecond() {
            let due = Timestamp::from_millisecond(at).ok()?;
            if has(self.minutes, zone.to_datetime(due).minute()) {
                return Some(due);
            }
            at += MINUTE_MS;
        }
        None
    }

    /// The earliest time of a day that is not before `first`. Those of an hour that is left out come later than those that follow it.
    fn by_the_clock(&self, date: Date, first: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let hours = (0..24_i8).filter(|hour| has(self.hours, *hour));
        let times = hours.flat_map(|hour| (0..60_i8).filter(|minute| has(self.minutes, *minute)).map(move |minute| date.at(hour, minute, 0, 0)));
        times.filter_map(|time| instant(time, zone)).filter(|due| *due >= first).min()
    }

    fn has_day(&self, date: Date) -> bool {
        let (of_month, of_week) = (has(self.days, date.day()), has(self.weekdays, date.weekday().to_sunday_zero_offset()));
        has(self.months, date.month()) && if self.either_day { of_month || of_week } else { of_month && of_week }
    }
}

fn has(bits: u64, at: i8) -> bool {
    bits >> at & 1 == 1
}

/// When it is that time there: the first time of two, and later where the clocks leave it out.
fn instant(time: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(time).compatible().ok()
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
    fn schedules_have_their_next_due_time() {
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
            assert_eq!(shown(Schedule::parse(schedule).unwrap().after(monday, &TimeZone::UTC).unwrap()), next, "{schedule}");
        }
        for wrong in ["", "* * * *", "60 * * * *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "0 0 31 2 *"] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// In Berlin clocks go from 2:00 to 3:00 on 2027-03-28 and from 3:00 to 2:00 on 2027-10-31, both at 1:00 UTC.
    #[test]
    fn schedules_follow_the_clocks_of_their_zone() {
        let times = |schedule: &str, zone_name: &str, from: &str| {
            let (schedule, zone) = (Schedule::parse(schedule).unwrap(), zone(Some(zone_name)).unwrap());
            let next = |ms: &i64| schedule.after(*ms, &zone);
            let all = std::iter::successors(next(&parse(from).unwrap()), next).take(3).map(|ms| shown(ms)[5..16].to_owned());
            all.collect::<Vec<_>>().join(" ")
        };
        for (schedule, zone, from, wanted) in [
            ("0 9 * * *", "Europe/Berlin", "2027-03-26T12:00:00Z", "03-27T08:00 03-28T07:00 03-29T07:00"),
            ("0 9 * * mon", "America/New_York", "2026-11-18T00:00:00Z", "11-23T14:00 11-30T14:00 12-07T14:00"),
            // 2:30 is left out, and comes as 3:30.
            ("30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00Z", "03-27T01:30 03-28T01:30 03-29T00:30"),
            // 2:30 comes twice, and is due once.
            ("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z", "10-31T00:30 11-01T01:30 11-02T01:30"),
            ("0 2,3 * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", "03-28T01:00 03-29T00:00 03-29T01:00"),
            // Every hour goes by real time.
            ("15 * * * *", "Europe/Berlin", "2027-10-30T23:30:00Z", "10-31T00:15 10-31T01:15 10-31T02:15"),
            ("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:45:00Z", "03-28T01:00 03-28T01:30 03-28T02:00"),
            ("30 0 1 * *", "Asia/Kolkata", "2027-01-15T00:00:00Z", "01-31T19:00 02-28T19:00 03-31T19:00"),
            ("0 6 * * *", "UTC+05:30", "2027-01-01T12:00:00Z", "01-02T00:30 01-03T00:30 01-04T00:30"),
            ("0 6 * * *", "UTC-3", "2027-01-01T12:00:00Z", "01-02T09:00 01-03T09:00 01-04T09:00"),
            // A day that Samoa left out.
            ("0 12 * * *", "Pacific/Apia", "2011-12-28T12:00:00Z", "12-28T22:00 12-29T22:00 12-30T22:00"),
        ] {
            assert_eq!(times(schedule, zone, from), wanted, "{schedule} in {zone}");
        }
        for utc in [None, Some(""), Some("UTC"), Some("Etc/UTC"), Some("Z"), Some("GMT")] {
            assert_eq!(Schedule::parse("0 0 1 1 *").unwrap().after(0, &zone(utc).unwrap()).map(shown).unwrap(), "1971-01-01T00:00:00Z", "{utc:?}");
        }
        for wrong in ["Mars/Olympus", "UTC+99:00", "UTC+a", "UTC+1:99", "../../etc/passwd"] {
            let why = zone(Some(wrong)).unwrap_err();
            assert!(why.contains(wrong), "{why}");
        }
    }
}
