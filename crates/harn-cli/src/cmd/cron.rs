//! Schedules: multiples of an interval since 1970, or the five fields of `cron` (minute, hour, day of the month, month,
//! day of the week) in UTC.

/// Minutes per day.
const DAY: i64 = 24 * 60;

/// Number of days that are searched. Any combination of 29 February and a day of the week occurs within 40 years.
const DAYS: i64 = 366 * 41;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// The multiples of this number of milliseconds.
    Interval(i64),
    Calendar(Calendar),
}

impl Schedule {
    /// Parses an interval such as `5m`, five fields, or `@hourly`, `@daily`, `@weekly` or `@monthly`.
    ///
    /// # Errors
    /// The problem and the expected form.
    pub(crate) fn parse(text: &str) -> Result<Schedule, String> {
        let Ok(interval) = crate::args::parse_time(text.trim()) else {
            return Calendar::parse(text).map(Schedule::Calendar);
        };
        let ms = i64::try_from(interval.as_millis()).ok().filter(|ms| ms % 1_000 == 0 && *ms > 0);
        let ms = ms.filter(|ms| *ms <= 366 * 86_400_000);
        ms.map(Schedule::Interval)
            .ok_or_else(|| format!("expected an interval of whole seconds, from 1s to 366d, got '{text}'"))
    }

    /// Returns the first time after `ms`. Both are in milliseconds since 1970.
    pub(crate) fn after(&self, ms: i64) -> Option<i64> {
        match self {
            Schedule::Interval(interval) => (ms.div_euclid(*interval) + 1).checked_mul(*interval),
            Schedule::Calendar(calendar) => calendar.after(ms),
        }
    }
}

/// A schedule of five `cron` fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both kinds of days are restricted. Then a day matches if either kind matches.
    either: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Calendar {
    /// Parses five fields, or `@hourly`, `@daily`, `@weekly` or `@monthly`.
    ///
    /// # Errors
    /// The problem and the expected form.
    fn parse(text: &str) -> Result<Calendar, String> {
        let plain = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            other => other,
        };
        let fields: Vec<&str> = plain.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "expected a cron schedule with five fields (minute hour day month weekday) such as \"0 3 * * *\", an interval such as 5m, or @hourly, @daily, @weekly or @monthly, got '{text}'"
            ));
        };
        let mut weekdays = set("weekday", weekday, 0, 7, &WEEKDAYS)?;
        // Sunday is both 0 and 7.
        weekdays |= weekdays >> 7 & 1;
        let schedule = Calendar {
            minutes: set("minute", minute, 0, 59, &[])?,
            hours: set("hour", hour, 0, 23, &[])?,
            days: set("day", day, 1, 31, &[])?,
            months: set("month", month, 1, 12, &MONTHS)?,
            weekdays,
            either: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        match schedule.after(0) {
            Some(_) => Ok(schedule),
            None => Err(format!("schedule '{text}' never occurs: no month has such a day")),
        }
    }

    /// Returns the first time after `ms`. Both are in milliseconds since 1970.
    fn after(&self, ms: i64) -> Option<i64> {
        let minute = ms.div_euclid(60_000) + 1;
        let today = minute.div_euclid(DAY);
        (today..today + DAYS).filter(|day| self.has_day(*day)).find_map(|day| {
            let first = if day == today { minute.rem_euclid(DAY) } else { 0 };
            let found = (first..DAY).find(|minute| {
                self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
            });
            found.map(|minute| (day * DAY + minute) * 60_000)
        })
    }

    /// Whether the schedule includes a day, given as days since 1970-01-01.
    fn has_day(&self, day: i64) -> bool {
        let Ok(at) = jiff::Timestamp::from_second(day * DAY * 60) else { return false };
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        let in_month = self.days >> date.day() & 1 == 1;
        let fits = if self.either { weekday || in_month } else { weekday && in_month };
        fits && self.months >> date.month() & 1 == 1
    }
}

/// Parses a field to a bit set of its numbers.
fn set(what: &str, field: &str, low: u32, high: u32, names: &[&str]) -> Result<u64, String> {
    let mut bits = 0;
    for part in field.split(',') {
        let wrong = || {
            format!(
                "invalid {what} '{part}': expected numbers from {low} to {high}, *, a-b, */n or lists of them"
            )
        };
        let number = |text: &str| {
            let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
            let number = match named {
                // Months start at 1, days of the week at 0.
                Some(at) => u32::try_from(at).ok().map(|at| at + low),
                None => text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit())),
            };
            number.filter(|number| (low..=high).contains(number)).ok_or_else(wrong)
        };
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step =
                    step.parse::<u32>().ok().filter(|step| (1..=high).contains(step)).ok_or_else(wrong)?;
                (range, Some(step))
            }
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((first, last)) => (number(first)?, number(last)?),
            None => {
                let only = number(range)?;
                (only, if step.is_some() { high } else { only })
            }
        };
        if first > last {
            return Err(wrong());
        }
        for number in (first..=last).step_by(step.unwrap_or(1) as usize) {
            bits |= 1 << number;
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    fn next(schedule: &str, after: &str) -> String {
        let at: jiff::Timestamp = after.parse().expect("a time");
        let next = Schedule::parse(schedule).expect("a schedule").after(at.as_millisecond());
        let next = next.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        next.map_or("never".to_owned(), |at| at.to_string())
    }

    #[test]
    fn the_next_time_is_the_first_that_fits() {
        for (schedule, after, wanted) in [
            ("0 3 * * *", "2026-03-01T02:59:59Z", "2026-03-01T03:00:00Z"),
            ("0 3 * * *", "2026-03-01T03:00:00Z", "2026-03-02T03:00:00Z"),
            ("*/15 * * * *", "2026-03-01T03:44:01Z", "2026-03-01T03:45:00Z"),
            ("*/15 * * * *", "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"),
            ("30 8-17/3 * * mon-fri", "2026-11-20T17:31:00Z", "2026-11-23T08:30:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z"),
            ("0 0 * * 7", "2026-11-23T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("5,10 1 1 jan,JUL *", "2026-01-01T01:05:00Z", "2026-01-01T01:10:00Z"),
            ("@weekly", "2026-11-23T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("@monthly", "2026-11-23T00:00:00Z", "2026-12-01T00:00:00Z"),
            ("5m", "2026-11-23T00:04:59Z", "2026-11-23T00:05:00Z"),
            ("5m", "2026-11-23T00:05:00Z", "2026-11-23T00:10:00Z"),
            ("1s", "2026-11-23T00:00:00.5Z", "2026-11-23T00:00:01Z"),
            ("1d", "2026-11-23T12:00:00Z", "2026-11-24T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "a * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "0 0 31 2 *",
            "+5 * * * *",
            "1,, * * * *",
            "0s",
            "500ms",
            "367d",
        ] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
