//! Dates. A time is a number of Unix seconds, or a dict with this number under `timestamp`.

use harn_value::{Dict, Value, View, steps};
use harn_vm::{Error, Result, builtins};
use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::args::{Given, MaybeText, printed};
use crate::state::now_ms;

builtins! {
    /// Dates.
    pub(crate) static DATES: "dates";

    /// Returns the current time in UTC.
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
        let mut dict = fields(&local("date_now", &Value::float(ms as f64 / 1000.0), TimeZone::UTC)?);
        dict.insert("iso8601", iso_millis(ms));
        dict
    }

    /// Returns the current time in UTC as a string.
    ///
    /// ```harn
    /// mock_time(0)
    /// println(date_now_iso()) // -> 1970-01-01T00:00:00.000Z
    /// ```
    Clock fn date_now_iso(cx) -> "string" {
        iso_millis(now_ms(cx))
    }

    /// Returns the current time in UTC as a string; an alias of `date_now_iso`.
    ///
    /// ```harn
    /// mock_time(1500)
    /// println(date_iso()) // -> 1970-01-01T00:00:01.500Z
    /// ```
    Clock fn date_iso(cx) -> "string" {
        iso_millis(now_ms(cx))
    }

    /// Parses a date to Unix seconds.
    ///
    /// Accepts RFC 3339 with an offset or with a zone in brackets, such as `2024-01-15T10:30[Europe/Berlin]`, dates
    /// with and without a time (in UTC), and any string whose groups of digits (at least three) are year, month, day
    /// and so on.
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
    /// A time is, here and in the other functions, a number of Unix seconds, or a dict with a `timestamp`, such as the
    /// result of `date_now`; the last supported year is 9999. `%s` is the number of whole seconds, `%f` the fraction
    /// with nine digits and `%3f` with three; the fraction is never negative, even before 1970.
    ///
    /// ```harn
    /// println(date_format(0)) // -> 1970-01-01 00:00:00
    /// println(date_format(1705276800, "%a %d %b %Y %H:%M %Z", "Europe/Berlin")) // -> Mon 15 Jan 2024 01:00 CET
    /// ```
    Pure fn date_format(cx, time: Given, format: MaybeText as "string?", zone: Value as "string?") -> "string" {
        let zone = if zone.is_nil() { TimeZone::UTC } else { time_zone("date_format", &zone)? };
        let time = local("date_format", &given("date_format", time)?, zone)?;
        let format = format.0.filter(|f| f.as_str() != "nil");
        let format = format.as_deref().unwrap_or("%Y-%m-%d %H:%M:%S");
        time.format(format).ok_or_else(|| Error::thrown(format!("date_format: invalid format '{format}'")))?
    }

    /// Converts a time to a time zone: returns the fields of `date_now`, `offset_seconds` and
    /// `zone`.
    ///
    /// ```harn
    /// let d = date_in_zone(1705276800, "Asia/Tokyo")
    /// println([d.hour, d.offset_seconds, d.iso8601]) // -> [9, 32400, 2024-01-15T09:00:00+09:00]
    /// ```
    Pure fn date_in_zone(cx, time: Given, zone: Given as "string") -> "dict" {
        let zone = zone.0.ok_or_else(|| Error::thrown("date_in_zone: missing timezone argument"))?;
        let tz = time_zone("date_in_zone", &zone)?;
        let time = local("date_in_zone", &given("date_in_zone", time)?, tz)?;
        let mut dict = fields(&time);
        dict.insert("offset_seconds", i64::from(time.offset.seconds()));
        dict.insert("zone", printed(&zone));
        dict
    }

    /// Formats a time as RFC 3339 in a time zone.
    ///
    /// ```harn
    /// println(date_to_zone(0.5, "UTC")) // -> 1970-01-01T00:00:00.500+00:00
    /// ```
    Pure fn date_to_zone(cx, time: Given, zone: Given as "string") -> "string" {
        let zone = zone.0.ok_or_else(|| Error::thrown("date_to_zone: missing timezone argument"))?;
        let tz = time_zone("date_to_zone", &zone)?;
        rfc3339(&local("date_to_zone", &given("date_to_zone", time)?, tz)?)
    }

    /// Returns the time of `{year, month, day, hour?, minute?, second?}`, in UTC unless a zone is
    /// given.
    ///
    /// A local time that occurs twice is interpreted as the earlier one.
    ///
    /// ```harn
    /// println(date_from_components({year: 2024, month: 1, day: 15}, "Asia/Tokyo")) // -> 1705244400
    /// ```
    Pure fn date_from_components(cx, parts: Value as "!{year?: any, month?: any, day?: any, hour?: any, minute?: any, second?: any, weekday?: any, timestamp?: any, iso8601?: any, offset_seconds?: any, zone?: any}", zone: Value as "string?") -> "any" {
        let Some(parts) = parts.to_dict() else {
            let text = format!("date_from_components: expected dict, got {}", parts.type_name());
            return Err(Error::thrown(text));
        };
        let tz = match zone.is_nil() {
            false => time_zone("date_from_components", &zone)?,
            true => own_zone(&parts)?,
        };
        let local = from_parts(&parts).map_err(|text| Error::thrown(format!("date_from_components: {text}")))?;
        let offset = match tz.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Gap { .. } => {
                return Err(Error::thrown("date_from_components: local time does not exist in that timezone"));
            }
        };
        seconds(moment_of(local, offset).ok_or_else(|| out_of_range("date_from_components"))?)
    }

    /// Adds a duration to a time.
    ///
    /// The time is a number of Unix seconds, or a dict with a `timestamp`; for year, month and day, use
    /// `date_from_components`.
    ///
    /// ```harn
    /// println(date_add(0, 1m)) // -> 60
    /// ```
    Pure fn date_add(cx, time: Given, duration: Given as "duration") -> "any" {
        let time = moment("date_add", &given("date_add", time)?)?;
        let Some(duration) = duration.0 else {
            return Err(Error::thrown("date_add: missing duration argument"));
        };
        let Some(ms) = duration.as_duration() else {
            let text = format!("date_add: expected duration, got {}", duration.type_name());
            return Err(Error::thrown(text));
        };
        let sum = time.checked_add(SignedDuration::from_millis(ms)).filter(is_dated);
        seconds(sum.ok_or_else(|| out_of_range("date_add"))?)
    }

    /// Returns the duration from time `b` to time `a`.
    ///
    /// ```harn
    /// println([date_diff(90, 30), date_diff(0, 1.5)]) // -> [1m, -1500ms]
    /// ```
    Pure fn date_diff(cx, a: Given, b: Given) -> "duration" {
        let a = moment("date_diff", &given("date_diff", a)?)?;
        let b = moment("date_diff", &given("date_diff", b)?)?;
        // Both are in the range of the calendar, which has far fewer than 2^63 milliseconds.
        Value::duration((a.as_millis() - b.as_millis()) as i64)
    }

    /// Returns the name of the day of the week.
    ///
    /// ```harn
    /// println(weekday_name(0)) // -> Thursday
    /// ```
    Pure fn weekday_name(cx, time: Given, zone: Value as "string?") -> "string" {
        name_of("weekday_name", "%A", time, &zone)?
    }

    /// Returns the name of the month.
    ///
    /// ```harn
    /// println(month_name(0)) // -> January
    /// ```
    Pure fn month_name(cx, time: Given, zone: Value as "string?") -> "string" {
        name_of("month_name", "%B", time, &zone)?
    }
}

/// Formats milliseconds since the epoch as `2026-04-01T10:00:00.123Z`.
pub fn iso_millis(ms: i64) -> String {
    match civil_at(SignedDuration::from_millis(ms), Offset::UTC) {
        Some(time) => format!("{time:.3}Z"),
        // Only a mocked clock can be outside of the calendar.
        None => format!("{ms}ms"),
    }
}

/// Returns the time of the program's clock, which may be mocked, as `2026-04-01T10:00:00.123Z`.
pub fn timestamp_now(cx: &harn_vm::Cx) -> String {
    iso_millis(now_ms(cx))
}

fn given(name: &str, time: Given) -> Result<Value> {
    time.0.ok_or_else(|| Error::thrown(format!("{name}: missing timestamp argument")))
}

fn out_of_range(name: &str) -> Error {
    Error::thrown(format!("{name}: timestamp out of range"))
}

/// The epoch. A moment is represented as the duration since the epoch: the `Timestamp` of the library ends 26 hours
/// before the calendar, which would exclude the last day of the year 9999.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Returns the local date and time at a UTC offset; `None` outside of the calendar.
fn civil_at(moment: SignedDuration, offset: Offset) -> Option<DateTime> {
    let shown = moment.checked_add(SignedDuration::from_secs(i64::from(offset.seconds())))?;
    EPOCH.checked_add(shown).ok()
}

/// Returns whether the calendar contains the moment, in UTC.
fn is_dated(moment: &SignedDuration) -> bool {
    civil_at(*moment, Offset::UTC).is_some()
}

/// Returns the moment of a local date and time at a UTC offset.
fn moment_of(shown: DateTime, offset: Offset) -> Option<SignedDuration> {
    let shown = shown.duration_since(EPOCH);
    shown.checked_sub(SignedDuration::from_secs(i64::from(offset.seconds()))).filter(is_dated)
}

/// Returns the moment that a value represents.
fn moment(name: &str, time: &Value) -> Result<SignedDuration> {
    if let Some(dict) = time.as_dict() {
        let error = match dict.get_str("timestamp") {
            Some(inner) if inner.as_number().is_some() => return moment(name, inner),
            Some(inner) => format!("the date dict's 'timestamp' must be a number, got {}", inner.type_name()),
            None => {
                "the date dict has no 'timestamp' (date_from_components makes one of year, month and day)"
                    .to_owned()
            }
        };
        return Err(Error::thrown(format!("{name}: {error}")));
    }
    let moment = match time.view() {
        View::Int(seconds) => SignedDuration::from_secs(seconds),
        View::Float(seconds) if !seconds.is_finite() => {
            return Err(Error::thrown(format!("{name}: timestamp must be finite")));
        }
        // A float has only microsecond precision at present dates.
        View::Float(seconds) if seconds.abs() < 1e12 => {
            SignedDuration::from_micros((seconds * 1e6).round() as i64)
        }
        View::Float(_) => return Err(out_of_range(name)),
        _ => {
            let got = time.type_name();
            return Err(Error::thrown(format!("{name}: expected timestamp number or date dict, got {got}")));
        }
    };
    Some(moment).filter(is_dated).ok_or_else(|| out_of_range(name))
}

fn time_zone(name: &str, zone: &Value) -> Result<TimeZone> {
    let zone = printed(zone);
    TimeZone::get(&zone).map_err(|_| Error::thrown(format!("{name}: unknown timezone '{zone}'")))
}

/// A moment in a time zone.
struct Local {
    moment: SignedDuration,
    zone: TimeZone,
    offset: Offset,
    /// The local date and time.
    time: DateTime,
}

fn local(name: &str, time: &Value, zone: TimeZone) -> Result<Local> {
    let moment = moment(name, time)?;
    let offset = zone.to_offset(near(moment));
    let time = civil_at(moment, offset).ok_or_else(|| out_of_range(name))?;
    Ok(Local { moment, zone, offset, time })
}

/// Returns the nearest moment for which the library can look up the offset of a zone. No zone has transitions in the
/// last days of the calendar.
fn near(moment: SignedDuration) -> Timestamp {
    let inside = moment.clamp(Timestamp::MIN.as_duration(), Timestamp::MAX.as_duration());
    Timestamp::from_duration(inside).unwrap_or(Timestamp::MAX)
}

impl Local {
    /// Formats the date with a strftime format; `None` if it has an unknown code.
    fn format(&self, format: &str) -> Option<String> {
        let mut parts = BrokenDownTime::from(self.time);
        parts.set_offset(Some(self.offset));
        parts.set_iana_time_zone(self.zone.iana_name().map(str::to_owned));
        parts.to_string(self.with_own_codes(format)).ok()
    }

    /// Replaces codes of a format: `%f` becomes all nine digits, and `%s` and `%Z` are expanded, because the library
    /// has no timestamp for the last day and rounds negative timestamps towards zero, although the fraction is counted
    /// forward.
    fn with_own_codes(&self, format: &str) -> String {
        let mut out = String::with_capacity(format.len() + 1);
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            let code = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "-_^#:.".contains(c));
            let layout = &behind[..behind.len() - code.len()];
            let mut letters = code.chars();
            match letters.next() {
                Some('f') if layout.is_empty() => out.push_str("%9f"),
                Some('s') if layout.bytes().all(|byte| byte.is_ascii_digit() || b"-_".contains(&byte)) => {
                    let fraction = self.moment.subsec_nanos() < 0;
                    padded(&(self.moment.as_secs() - i64::from(fraction)).to_string(), layout, &mut out);
                }
                Some('Z') if !layout.contains([':', '.']) => {
                    let info = self.zone.to_offset_info(near(self.moment));
                    let name = match layout.chars().next() {
                        Some('^') => info.abbreviation().to_uppercase(),
                        Some('#') => info.abbreviation().to_lowercase(),
                        _ => info.abbreviation().to_owned(),
                    };
                    padded(&name, layout.trim_start_matches(['^', '#']), &mut out);
                }
                Some(letter) => {
                    out.push('%');
                    out.push_str(layout);
                    out.push(letter);
                }
                None => out.push_str(&rest[at..]),
            }
            rest = letters.as_str();
        }
        out.push_str(rest);
        out
    }
}

/// Pads a number or name to the width in `layout`, such as `05`, `_5` or `-`.
fn padded(text: &str, layout: &str, out: &mut String) {
    let width = layout.trim_start_matches(['-', '_', '0']).parse::<usize>().unwrap_or(0).min(255);
    let fill = width.saturating_sub(text.len());
    match text.strip_prefix('-') {
        _ if layout.starts_with('-') => out.push_str(text),
        Some(digits) if layout.starts_with('0') => {
            out.push('-');
            out.extend(std::iter::repeat_n('0', fill));
            out.push_str(digits);
        }
        _ => {
            out.extend(std::iter::repeat_n(if layout.starts_with('0') { '0' } else { ' ' }, fill));
            out.push_str(text);
        }
    }
}

/// Returns whole seconds as int, others as float.
fn seconds(moment: SignedDuration) -> Value {
    match moment.subsec_nanos() {
        0 => Value::int(moment.as_secs()),
        _ => Value::float(moment.as_micros() as f64 / 1e6),
    }
}

fn fields(local: &Local) -> Dict {
    let time = local.time;
    let mut dict = Dict::new();
    dict.insert("year", i64::from(time.year()));
    dict.insert("month", i64::from(time.month()));
    dict.insert("day", i64::from(time.day()));
    dict.insert("hour", i64::from(time.hour()));
    dict.insert("minute", i64::from(time.minute()));
    dict.insert("second", i64::from(time.second()));
    dict.insert("weekday", i64::from(time.weekday().to_sunday_zero_offset()));
    dict.insert("timestamp", local.moment.as_micros() as f64 / 1e6);
    dict.insert("iso8601", rfc3339(local));
    dict
}

/// Formats as RFC 3339 with offset, and with a fraction of 3, 6 or 9 digits unless it is zero.
fn rfc3339(local: &Local) -> String {
    let nanos = local.time.subsec_nanosecond();
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => format!(".{:06}", nanos / 1000),
        _ => format!(".{nanos:09}"),
    };
    local.format(&format!("%Y-%m-%dT%H:%M:%S{fraction}%:z")).unwrap_or_default()
}

fn name_of(name: &str, format: &str, time: Given, zone: &Value) -> Result<String> {
    let zone = if zone.is_nil() { TimeZone::UTC } else { time_zone(name, zone)? };
    Ok(local(name, &given(name, time)?, zone)?.format(format).unwrap_or_default())
}

fn parse(text: &str) -> std::result::Result<SignedDuration, String> {
    steps::bytes(text.len());
    let cannot = || match text.char_indices().nth(200) {
        Some((end, _)) => format!("Cannot parse date: {}...", &text[..end]),
        None => format!("Cannot parse date: {text}"),
    };
    let trimmed = text.trim();
    // Formats allow leap seconds, but Unix time has none.
    let second = text.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).nth(5);
    if let Some("60") = second {
        return Err("Invalid second: 60 (must be 0-59)".to_owned());
    }
    // The library accepts offsets up to 25:59, which RFC 3339 does not have.
    if let Some(offset) = long_offset(trimmed) {
        return Err(format!("Invalid offset: {offset} (must be within 23:59)"));
    }
    if let Ok(time) = trimmed.parse::<Timestamp>() {
        return Ok(time.as_duration());
    }
    // `2024-01-15T10:30[Europe/Berlin]` (RFC 9557).
    if let Ok(time) = trimmed.parse::<Zoned>() {
        return Ok(time.timestamp().as_duration());
    }
    // A signed year has six digits. With fewer, the sign would be lost.
    if let Some(rest) = trimmed.strip_prefix(['-', '+'])
        && !matches!(rest.find(|c: char| !c.is_ascii_digit()), Some(0 | 6))
    {
        return Err(cannot());
    }
    let (body, offset) = zone_behind(trimmed).unwrap_or((trimmed, Offset::UTC));
    // The library also accepts a time with an offset or a zone, but ignores them.
    let clock = body.split_once(['T', 't', ' ']).map_or("", |(_, clock)| clock);
    let time = match body.parse::<DateTime>() {
        Ok(time) if !clock.contains(['+', '-', '[']) => time,
        _ => of_groups(body).unwrap_or_else(|| Err(cannot()))?,
    };
    moment_of(time, offset).ok_or_else(|| "date_parse: timestamp out of range".to_owned())
}

/// The offset of a day or more behind a time of the day.
fn long_offset(text: &str) -> Option<&str> {
    let at = text.rfind(['+', '-'])?;
    let (body, offset) = text.split_at(at);
    let hours: u32 = offset.get(1..3)?.parse().ok()?;
    let is_offset = offset[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_long = matches!(offset.len(), 3 | 5 | 6 | 8 | 9) && hours > 23;
    (is_offset && is_long && body.contains(':') && !body.ends_with(':')).then_some(offset)
}

/// Splits off the zone after a time of day: `Z`, `UTC`, `GMT` or an offset, with or without spaces before it.
fn zone_behind(text: &str) -> Option<(&str, Offset)> {
    let is_time = |body: &str| body.contains(':') && body.ends_with(|c: char| c.is_ascii_digit());
    for word in ["Z", "UTC", "GMT"] {
        let at = text.len().checked_sub(word.len()).filter(|at| text.is_char_boundary(*at));
        if let Some((body, end)) = at.map(|at| text.split_at(at))
            && end.eq_ignore_ascii_case(word)
            && is_time(body.trim_end())
        {
            return Some((body.trim_end(), Offset::UTC));
        }
    }
    let at = text.rfind(['+', '-'])?;
    let (body, offset) = (text[..at].trim_end(), &text[at + 1..]);
    let digits: String = offset.split(':').collect();
    let (hours, minutes) = match (digits.len(), offset.len()) {
        (2, 2) => (&digits[..], "0"),
        (4, 4 | 5) => digits.split_at(2),
        _ => return None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = (hours * 60 + minutes) * 60;
    let signed = if text[at..].starts_with('-') { -seconds } else { seconds };
    let offset = Offset::from_seconds(signed).ok()?;
    (is_number && minutes < 60 && is_time(body)).then_some((body, offset))
}

/// Parses the digit groups as year, month, day, hour, minute, second and fraction. Returns `None` if they are not a
/// date, or if the string contains something that would change their meaning: AM or PM, a zone, a week number.
fn of_groups(text: &str) -> Option<std::result::Result<DateTime, String>> {
    let is_digit = |c: char| c.is_ascii_digit();
    let groups: Vec<&str> = text.split(|c| !is_digit(c)).filter(|group| !group.is_empty()).take(8).collect();
    let fraction = match groups.len() {
        3..=6 => "",
        7 if text.ends_with(&format!("{}.{}", groups[5], groups[6])) => groups[6],
        _ => return None,
    };
    let is_week = text.char_indices().any(|(at, c)| {
        matches!(c, 'W' | 'w')
            && text[at + 1..].starts_with(is_digit)
            && !text[..at].ends_with(char::is_alphabetic)
    });
    let end = text.rfind(is_digit).map_or(0, |at| at + 1);
    let word =
        text[end..].trim_start().split(|c: char| !c.is_alphabetic() && c != '.').next().unwrap_or_default();
    let half = word.replace('.', "");
    let is_half = half.eq_ignore_ascii_case("am") || half.eq_ignore_ascii_case("pm");
    let is_zone = (1..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_zone = is_zone || text[end..].starts_with('[');
    if is_week || groups.len() > 3 && (is_half || is_zone) {
        return None;
    }
    let part = |at: usize| groups.get(at).map_or(Some(0), |group| group.parse::<i64>().ok());
    let parts = [part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, part(5)?];
    let nanos = format!("{fraction:0<9.9}").parse().unwrap_or(0);
    let time = civil(parts).map(|time| time.with().subsec_nanosecond(nanos).build().unwrap_or(time));
    // Ambiguous: either the day or the month could come first.
    if time.is_err() && groups[0].len() < 3 { None } else { Some(time) }
}

/// Returns the date and time of year, month, day, hour, minute, second.
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

/// Returns the zone in a dict of date components, such as the result of `date_in_zone`: by name, else by offset, else
/// UTC.
fn own_zone(parts: &Dict) -> Result<TimeZone> {
    let named = parts.get_str("zone").filter(|zone| !zone.is_nil());
    let offset = parts.get_str("offset_seconds").filter(|offset| !offset.is_nil());
    match (named, offset) {
        (None, None) => Ok(TimeZone::UTC),
        (Some(zone), None) => time_zone("date_from_components", zone),
        (named, Some(offset)) => {
            if let Some(zone) = named.and_then(|zone| TimeZone::get(&printed(zone)).ok()) {
                return Ok(zone);
            }
            let seconds = offset.as_int().and_then(|seconds| i32::try_from(seconds).ok());
            let fixed = seconds.and_then(|seconds| Offset::from_seconds(seconds).ok());
            let wrong = || {
                format!(
                    "date_from_components: offset_seconds must be a number of seconds within a day, got {}",
                    printed(offset)
                )
            };
            Ok(TimeZone::fixed(fixed.ok_or_else(|| Error::thrown(wrong()))?))
        }
    }
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
