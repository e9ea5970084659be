//! The form of a run record in files.

use harn_value::Data as Json;

/// Expands the number of completed nodes at each checkpoint to their names. Files contain only the number, because
/// these nodes are always a prefix of `completed_nodes`; with all names, the size of a record would be quadratic in its
/// stages.
pub fn unpack(record: &mut Json) {
    let completed = record["completed_nodes"].as_array().cloned().unwrap_or_default();
    for checkpoint in record.get_mut("checkpoints").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(count) = checkpoint["completed_nodes"].as_u64().and_then(|n| usize::try_from(n).ok()) {
            checkpoint["completed_nodes"] = completed[..count.min(completed.len())].into();
        }
    }
}

/// Replaces the names of completed nodes with their number, if they are a prefix of `completed_nodes`.
pub fn pack(record: &mut Json) {
    let completed = record["completed_nodes"].as_array().cloned().unwrap_or_default();
    for checkpoint in record.get_mut("checkpoints").and_then(Json::as_array_mut).into_iter().flatten() {
        let known = checkpoint["completed_nodes"].as_array().filter(|names| completed.starts_with(names));
        if let Some(count) = known.map(Vec::len) {
            checkpoint["completed_nodes"] = count.into();
        }
    }
}
