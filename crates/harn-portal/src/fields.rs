//! Optional fields of records and logs.

use harn_value::Data;
use jiff::Timestamp;

/// Converts an RFC 3339 time to milliseconds since 1970.
pub(crate) fn moment(time: &Data) -> Option<i64> {
    Some(time.as_str()?.parse::<Timestamp>().ok()?.as_millisecond())
}

/// Returns the items of a list; empty if the field is not a list.
pub(crate) fn items<'a>(value: &'a Data, key: &str) -> &'a [Data] {
    value.get(key).and_then(Data::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns a non-empty string field.
pub(crate) fn text_of(value: &Data, key: &str) -> Option<String> {
    value.get(key).and_then(Data::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
