//! Messages of Amazon's event streams.

use harn_value::Data as Value;

/// An event with a JSON payload.
pub fn event(name: &str, payload: &Value) -> Vec<u8> {
    message(
        &[(":event-type", name), (":content-type", "application/json"), (":message-type", "event")],
        payload,
    )
}

/// An exception, which ends a stream.
pub fn exception(name: &str, payload: &Value) -> Vec<u8> {
    message(&[(":exception-type", name), (":message-type", "exception")], payload)
}

fn message(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let length = |n: usize| u32::try_from(n).expect("a short message").to_be_bytes();
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(u8::try_from(name.len()).expect("a short name"));
        block.extend_from_slice(name.as_bytes());
        // The type code of a string.
        block.push(7);
        block.extend_from_slice(&u16::try_from(value.len()).expect("a short value").to_be_bytes());
        block.extend_from_slice(value.as_bytes());
    }
    let payload = payload.to_string();
    let mut out = length(12 + block.len() + payload.len() + 4).to_vec();
    out.extend_from_slice(&length(block.len()));
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&block);
    out.extend_from_slice(payload.as_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}
