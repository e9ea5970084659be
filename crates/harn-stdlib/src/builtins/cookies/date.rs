//! Dates of cookies, parsed as leniently as RFC 6265 (5.1.1) requires of browsers.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Returns milliseconds since the epoch; `None` for an invalid date. Names of days and zones are skipped.
pub(super) fn millis(text: &str) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        if time.is_none() && clock(token).is_some() {
            time = clock(token);
        } else if day.is_none() && number(token, 1, 2).is_some() {
            day = number(token, 1, 2);
        } else if month.is_none() && month_number(token).is_some() {
            month = month_number(token);
        } else if year.is_none() {
            year = number(token, 2, 4);
        }
    }
    let (hour, minute, second) = time?;
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let small = |n: i16| i8::try_from(n).ok();
    let date = DateTime::new(year, month?, small(day?)?, small(hour)?, small(minute)?, small(second)?, 0);
    let date = date.ok().filter(|_| year >= 1601)?;
    date.to_zoned(TimeZone::UTC).ok().map(|date| date.timestamp().as_millisecond())
}

fn is_delimiter(c: char) -> bool {
    matches!(c, '\t' | ' '..='/' | ';'..='@' | '['..='`' | '{'..='~')
}

/// Parses the leading digits of `text` if their number is in the range.
fn number(text: &str, least: usize, most: usize) -> Option<i16> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (least..=most).contains(&digits) { text[..digits].parse().ok() } else { None }
}

fn clock(token: &str) -> Option<(i16, i16, i16)> {
    let mut parts = token.splitn(3, ':').map(|part| (part, number(part, 1, 2)));
    let mut next = |is_last: bool| {
        let (part, number) = parts.next()?;
        // Only the seconds may be followed by other characters.
        number.filter(|_| is_last || part.bytes().all(|b| b.is_ascii_digit()))
    };
    Some((next(false)?, next(false)?, next(true)?))
}

fn month_number(token: &str) -> Option<i8> {
    let name = token.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().zip(1..).find(|(month, _)| **month == name).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn all_forms_of_the_net_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "6 Nov 1994 8:49:37",
        ] {
            assert_eq!(millis(text), Some(784_111_777_000), "{text}");
        }
        assert_eq!(millis("Thu, 01-Jan-1970 00:00:00 GMT"), Some(0));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "2026-01-01",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "06 Nov 1994 25:00:00",
            "6 Nov 1500 08:49:37",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
