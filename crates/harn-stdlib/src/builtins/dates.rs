//! Dates. A time is a number of Unix seconds, or a dict that holds one under `timestamp`.

use harn_value::{Dict, Value, View};
use harn_vm::{Error, Result, builtins};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::args::{Given, MaybeText, printed};
use crate::state::now_ms;

builtins! {
    /// Dates.
    pub(crate) static DATES: "dates";

    /// Gives the current time in UTC.
    ///
    /// The dict is `{year, month, day, hour, minute, second, weekday, timestamp, iso8601}`; weekday 0 is
    /// Sunday.
    ///
    /// ```harn
    /// mock_time(1774794600123)
    /// println(date_now().iso8601) // -> 2026-03-29T14:30:00.123Z
    /// println([date_now().year, date_now().weekday]) // -> [2026, 0]
    /// ```
    Clock fn date_now(cx) -> "dict" {
        let ms = now_ms(cx);
        let mut dict = fields(&zoned("date_now", &Value::float(ms as f64 / 1000.0), TimeZone::UTC)?);
        dict.insert("iso8601", iso_millis(ms));
        dict
    }

    /// Gives the current time in UTC as text.
    ///
    /// ```harn
    /// mock_time(0)
    /// println(date_now_iso()) // -> 1970-01-01T00:00:00.000Z
    /// ```
    Clock fn date_now_iso(cx) -> "string" {
        iso_millis(now_ms(cx))
    }

    /// Gives the current time in UTC as text: another name of `date_now_iso`.
    ///
    /// ```harn
    /// mock_time(1500)
    /// println(date_iso()) // -> 1970-01-01T00:00:01.500Z
    /// ```
    Clock fn date_iso(cx) -> "string" {
        iso_millis(now_ms(cx))
    }

    /// Reads a date as Unix seconds.
    ///
    /// It takes RFC 3339 with an offset, dates with and without a time (as UTC), and any text in which
    /// at least three groups of digits are year, month, day and so on.
    ///
    /// ```harn
    /// println([date_parse("2024-01-15"), date_parse("2024-01-15T10:30:00.5+01:00")]) // -> [1705276800, 1705311000.5]
    /// println(date_parse("on 2024/1/15 at 3")) // -> 1705287600
    /// println(try { date_parse("2024-02-31") }) // -> Result.Err(Invalid date: 2024-02-31)
    /// ```
    Pure fn date_parse(cx, s: MaybeText) -> "int | float" {
        seconds(parse(s.0.as_deref().unwrap_or_default()).map_err(Error::thrown)?)
    }

    /// Formats a time with strftime codes, in UTC unless a time zone is given.
    ///
    /// ```harn
    /// println(date_format(0)) // -> 1970-01-01 00:00:00
    /// println(date_format(1705276800, "%a %d %b %Y %H:%M %Z", "Europe/Berlin")) // -> Mon 15 Jan 2024 01:00 CET
    /// ```
    Pure fn date_format(cx, time: Given, format: MaybeText as "string?", zone: Value as "string?") -> "string" {
        let zone = if zone.is_nil() { TimeZone::UTC } else { time_zone("date_format", &zone)? };
        let time = zoned("date_format", &given("date_format", time)?, zone)?;
        let format = format.0.filter(|f| f.as_str() != "nil");
        let format = format.as_deref().unwrap_or("%Y-%m-%d %H:%M:%S");
        match jiff::fmt::strtime::format(nine_digits(format), &time) {
            Ok(text) => text,
            Err(_) => return Err(Error::thrown(format!("date_format: invalid format '{format}'"))),
        }
    }

    /// Gives a time in a time zone: the fields of `date_now`, `offset_seconds` and `zone`.
    ///
    /// ```harn
    /// let d = date_in_zone(1705276800, "Asia/Tokyo")
    /// println([d.hour, d.offset_seconds, d.iso8601]) // -> [9, 32400, 2024-01-15T09:00:00+09:00]
    /// ```
    Pure fn date_in_zone(cx, time: Given, zone: Given as "string") -> "dict" {
        let zone = zone.0.ok_or_else(|| Error::thrown("date_in_zone: missing timezone argument"))?;
        let tz = time_zone("date_in_zone", &zone)?;
        let time = zoned("date_in_zone", &given("date_in_zone", time)?, tz)?;
        let mut dict = fields(&time);
        dict.insert("offset_seconds", i64::from(time.offset().seconds()));
        dict.insert("zone", printed(&zone));
        dict
    }

    /// Writes a time as RFC 3339 in a time zone.
    ///
    /// ```harn
    /// println(date_to_zone(0.5, "UTC")) // -> 1970-01-01T00:00:00.500+00:00
    /// ```
    Pure fn date_to_zone(cx, time: Given, zone: Given as "string") -> "string" {
        let zone = zone.0.ok_or_else(|| Error::thrown("date_to_zone: missing timezone argument"))?;
        let tz = time_zone("date_to_zone", &zone)?;
        rfc3339(&zoned("date_to_zone", &given("date_to_zone", time)?, tz)?)
    }

    /// Makes a time of `{year, month, day, hour?, minute?, second?}`, in UTC unless a zone is given.
    ///
    /// A local time that occurs twice is taken as the earlier one.
    ///
    /// ```harn
    /// println(date_from_components({year: 2024, month: 1, day: 15}, "Asia/Tokyo")) // -> 1705244400
    /// ```
    Pure fn date_from_components(cx, parts: Value as "!{year?: any, month?: any, day?: any, hour?: any, minute?: any, second?: any, weekday?: any, timestamp?: any, iso8601?: any, offset_seconds?: any, zone?: any}", zone: Value as "string?") -> "any" {
        let Some(parts) = parts.to_dict() else {
            let text = format!("date_from_components: expected dict, got {}", parts.type_name());
            return Err(Error::thrown(text));
        };
        let tz = if zone.is_nil() { TimeZone::UTC } else { time_zone("date_from_components", &zone)? };
        let local = from_parts(&parts).map_err(|text| Error::thrown(format!("date_from_components: {text}")))?;
        let ambiguous = tz.to_ambiguous_timestamp(local);
        if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
            return Err(Error::thrown("date_from_components: local time does not exist in that timezone"));
        }
        seconds(ambiguous.earlier().map_err(|_| out_of_range("date_from_components"))?)
    }

    /// Adds a duration to a time.
    ///
    /// ```harn
    /// println(date_add(0, 1m)) // -> 60
    /// ```
    Pure fn date_add(cx, time: Given, duration: Given as "duration") -> "any" {
        let time = timestamp("date_add", &given("date_add", time)?)?;
        let Some(duration) = duration.0 else {
            return Err(Error::thrown("date_add: missing duration argument"));
        };
        let Some(ms) = duration.as_duration() else {
            let text = format!("date_add: expected duration, got {}", duration.type_name());
            return Err(Error::thrown(text));
        };
        seconds(time.checked_add(SignedDuration::from_millis(ms)).map_err(|_| out_of_range("date_add"))?)
    }

    /// Gives the duration from time `b` to time `a`.
    ///
    /// ```harn
    /// println([date_diff(90, 30), date_diff(0, 1.5)]) // -> [1m, -1500ms]
    /// ```
    Pure fn date_diff(cx, a: Given, b: Given) -> "duration" {
        let a = timestamp("date_diff", &given("date_diff", a)?)?;
        let b = timestamp("date_diff", &given("date_diff", b)?)?;
        Value::duration(a.as_millisecond() - b.as_millisecond())
    }

    /// Names the day of the week.
    ///
    /// ```harn
    /// println(weekday_name(0)) // -> Thursday
    /// ```
    Pure fn weekday_name(cx, time: Given, zone: Value as "string?") -> "string" {
        name_of("weekday_name", "%A", time, &zone)?
    }

    /// Names the month.
    ///
    /// ```harn
    /// println(month_name(0)) // -> January
    /// ```
    Pure fn month_name(cx, time: Given, zone: Value as "string?") -> "string" {
        name_of("month_name", "%B", time, &zone)?
    }
}

/// `2026-04-01T10:00:00.123Z` for milliseconds since the epoch.
pub fn iso_millis(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => format!("{time:.3}"),
        // Outside of the calendar only a mocked clock can be.
        Err(_) => format!("{ms}ms"),
    }
}

/// The time of the program's clock, which a program may have mocked, as `2026-04-01T10:00:00.123Z`.
pub fn timestamp_now(cx: &harn_vm::Cx) -> String {
    iso_millis(now_ms(cx))
}

fn given(name: &str, time: Given) -> Result<Value> {
    time.0.ok_or_else(|| Error::thrown(format!("{name}: missing timestamp argument")))
}

fn out_of_range(name: &str) -> Error {
    Error::thrown(format!("{name}: timestamp out of range"))
}

fn timestamp(name: &str, time: &Value) -> Result<Timestamp> {
    if let Some(dict) = time.as_dict()
        && let Some(inner) = dict.get_str("timestamp").filter(|inner| inner.as_number().is_some())
    {
        return timestamp(name, inner);
    }
    let parsed = match time.view() {
        View::Int(seconds) => Timestamp::from_second(seconds),
        View::Float(seconds) if !seconds.is_finite() => {
            return Err(Error::thrown(format!("{name}: timestamp must be finite")));
        }
        // A float has no more than microseconds at today's dates.
        View::Float(seconds) if seconds.abs() < 1e12 => {
            Timestamp::from_microsecond((seconds * 1e6).round() as i64)
        }
        View::Float(_) => return Err(out_of_range(name)),
        _ => {
            let got = time.type_name();
            return Err(Error::thrown(format!("{name}: expected timestamp number or date dict, got {got}")));
        }
    };
    parsed.map_err(|_| out_of_range(name))
}

fn time_zone(name: &str, zone: &Value) -> Result<TimeZone> {
    let zone = printed(zone);
    TimeZone::get(&zone).map_err(|_| Error::thrown(format!("{name}: unknown timezone '{zone}'")))
}

fn zoned(name: &str, time: &Value, zone: TimeZone) -> Result<Zoned> {
    Ok(timestamp(name, time)?.to_zoned(zone))
}

/// Whole seconds as int, others as float.
fn seconds(time: Timestamp) -> Value {
    match time.subsec_nanosecond() {
        0 => Value::int(time.as_second()),
        _ => Value::float(time.as_microsecond() as f64 / 1e6),
    }
}

fn fields(time: &Zoned) -> Dict {
    let mut dict = Dict::new();
    dict.insert("year", i64::from(time.year()));
    dict.insert("month", i64::from(time.month()));
    dict.insert("day", i64::from(time.day()));
    dict.insert("hour", i64::from(time.hour()));
    dict.insert("minute", i64::from(time.minute()));
    dict.insert("second", i64::from(time.second()));
    dict.insert("weekday", i64::from(time.weekday().to_sunday_zero_offset()));
    dict.insert("timestamp", time.timestamp().as_microsecond() as f64 / 1e6);
    dict.insert("iso8601", rfc3339(time));
    dict
}

/// RFC 3339 with offset, and a fraction of 3, 6 or 9 digits where there is one.
fn rfc3339(time: &Zoned) -> String {
    let nanos = time.subsec_nanosecond();
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => format!(".{:06}", nanos / 1000),
        _ => format!(".{nanos:09}"),
    };
    format!("{}{fraction}{}", time.strftime("%Y-%m-%dT%H:%M:%S"), time.strftime("%:z"))
}

/// `%f` means all nine digits.
fn nine_digits(format: &str) -> String {
    let mut out = String::with_capacity(format.len() + 1);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '%' {
            match chars.next() {
                Some('f') => out.push_str("9f"),
                Some(code) => out.push(code),
                None => {}
            }
        }
    }
    out
}

fn name_of(name: &str, format: &str, time: Given, zone: &Value) -> Result<String> {
    let zone = if zone.is_nil() { TimeZone::UTC } else { time_zone(name, zone)? };
    Ok(zoned(name, &given(name, time)?, zone)?.strftime(format).to_string())
}

fn parse(text: &str) -> std::result::Result<Timestamp, String> {
    let cannot = || match text.char_indices().nth(200) {
        Some((end, _)) => format!("Cannot parse date: {}...", &text[..end]),
        None => format!("Cannot parse date: {text}"),
    };
    let trimmed = text.trim();
    // Formats allow leap seconds, but Unix seconds have none.
    let second = text.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).nth(5);
    if let Some("60") = second {
        return Err("Invalid second: 60 (must be 0-59)".to_owned());
    }
    if let Ok(time) = trimmed.parse::<Timestamp>() {
        return Ok(time);
    }
    if !trimmed.ends_with(['Z', 'z'])
        && let Ok(time) = trimmed.parse::<DateTime>()
    {
        return time.to_zoned(TimeZone::UTC).map(|time| time.timestamp()).map_err(|_| cannot());
    }
    let groups = text.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty());
    let numbers: Option<Vec<i64>> = groups.map(|group| group.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() >= 3).ok_or_else(cannot)?;
    let part = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let time = civil([part(0), part(1), part(2), part(3), part(4), part(5)])?;
    time.to_zoned(TimeZone::UTC).map(|time| time.timestamp()).map_err(|_| cannot())
}

/// A date and time of year, month, day, hour, minute, second.
fn civil(parts: [i64; 6]) -> std::result::Result<DateTime, String> {
    let [year, month, day, hour, minute, second] = parts;
    let ranged = |value: i64, name: &str, min: i8, max: i8| match i8::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("Invalid {name}: {value} (must be {min}-{max})")),
    };
    let (month_, day_) = (ranged(month, "month", 1, 12)?, ranged(day, "day", 1, 31)?);
    let hour = ranged(hour, "hour", 0, 23)?;
    let minute = ranged(minute, "minute", 0, 59)?;
    let second = ranged(second, "second", 0, 59)?;
    let year_ = i16::try_from(year).ok().filter(|year| (-9999..=9999).contains(year));
    let year_ = year_.ok_or_else(|| format!("Invalid year: {year}"))?;
    let date = Date::new(year_, month_, day_);
    Ok(date.map_err(|_| format!("Invalid date: {year:04}-{month:02}-{day:02}"))?.at(hour, minute, second, 0))
}

fn from_parts(parts: &Dict) -> std::result::Result<DateTime, String> {
    let part = |name: &str, default: Option<i64>| match parts.get_str(name).filter(|v| !v.is_nil()) {
        Some(value) => {
            value.as_int().ok_or_else(|| format!("{name} must be an integer, got {}", value.type_name()))
        }
        None => default.ok_or_else(|| format!("missing {name}")),
    };
    civil([
        part("year", None)?,
        part("month", None)?,
        part("day", None)?,
        part("hour", Some(0))?,
        part("minute", Some(0))?,
        part("second", Some(0))?,
    ])
}
