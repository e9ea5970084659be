//! Dates.

/// `2026-04-01T10:00:00.123Z` for milliseconds since the epoch.
pub(super) fn iso_millis(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => format!("{time:.3}"),
        // Outside of the calendar only a mocked clock can be.
        Err(_) => format!("{ms}ms"),
    }
}
