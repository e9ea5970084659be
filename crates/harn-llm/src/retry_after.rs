//! Parses the retry delay that a server requests.

/// The maximum delay that a provider can request, in milliseconds.
const MAX_HINT_MS: u64 = 60_000;

/// Parses a `retry-after` value: seconds (fractions allowed) or an HTTP date. Returns milliseconds, at most one minute;
/// times in the past yield zero.
pub(crate) fn parse_retry_after(hint: &str, now_ms: i64) -> Option<u64> {
    let hint = hint.trim();
    if let Ok(seconds) = hint.parse::<f64>() {
        if seconds.is_nan() {
            return None;
        }
        let ms = (seconds.max(0.0) * 1000.0).round();
        return Some(if ms >= MAX_HINT_MS as f64 { MAX_HINT_MS } else { ms as u64 });
    }
    let date = httpdate::parse_http_date(hint).ok()?;
    let at = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    let wait = i128::try_from(at).ok()? - i128::from(now_ms);
    Some(u64::try_from(wait.max(0)).unwrap_or(MAX_HINT_MS).min(MAX_HINT_MS))
}

/// Parses the delay of Google's `RetryInfo` in the body of an error, such as `"retryDelay": "1.5s"`. Returns
/// milliseconds.
pub(crate) fn retry_info(body: &str) -> Option<u64> {
    let (_, rest) = body.split_once("\"retryDelay\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (seconds, _) = value.split_once("s\"")?;
    seconds.parse::<f64>().ok().and_then(|_| parse_retry_after(seconds, 0))
}

/// Finds a `retry-after:` hint in an error message.
pub(crate) fn hint_in_message(message: &str, now_ms: i64) -> Option<u64> {
    let lower = message.to_lowercase();
    let at = lower.find("retry-after:")? + "retry-after:".len();
    // Lower-casing may change the length of non-ASCII text, so the offset may not be valid in `message`.
    let tail = message.get(at..).unwrap_or(&lower[at..]);
    let line = tail.lines().next().unwrap_or_default().trim();
    let value = line.split([')', ';']).next().unwrap_or_default().trim();
    let number = value.split_whitespace().next().unwrap_or_default().trim_end_matches(['s', ',']);
    parse_retry_after(value, now_ms).or_else(|| parse_retry_after(number, now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_seconds_or_dates() {
        assert_eq!(parse_retry_after("1.5", 0), Some(1500));
        assert_eq!(parse_retry_after("-3", 0), Some(0));
        assert_eq!(parse_retry_after("1e9", 0), Some(60_000));
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(parse_retry_after(date, 1_445_412_470_000), Some(10_000));
        assert_eq!(parse_retry_after(date, 1_445_412_490_000), Some(0));
        assert_eq!(parse_retry_after("soon", 0), None);
    }

    #[test]
    fn google_names_the_wait_in_the_body() {
        let info = |delay: &str| {
            let kind = "type.googleapis.com/google.rpc.RetryInfo";
            retry_info(&format!("{{\"details\": [{{\"@type\": \"{kind}\", \"retryDelay\" : {delay}}}]}}"))
        };
        assert_eq!(
            (info("\"1.5s\""), info("\"38s\""), info("\"7200s\"")),
            (Some(1500), Some(38_000), Some(60_000))
        );
        assert_eq!(
            (info("\"soon\""), info("3"), info("\"\""), retry_info("retryDelay")),
            (None, None, None, None)
        );
    }

    #[test]
    fn hints_hide_in_messages() {
        assert_eq!(hint_in_message("limit\nretry-after: 2.5", 0), Some(2500));
        assert_eq!(hint_in_message("x (retry-after: 7)", 0), Some(7000));
        assert_eq!(hint_in_message("x", 0), None);
    }
}
