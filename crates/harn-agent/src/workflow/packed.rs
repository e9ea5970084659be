//! The form in which files hold the record of a run.

use harn_value::Data as Json;

/// Puts the nodes that were done at each checkpoint in the place of their number. Files hold the number, since all of them are the
/// first ones of `completed_nodes`: with their names a record would grow as the square of its stages.
pub fn unpack(record: &mut Json) {
    let completed = record["completed_nodes"].as_array().cloned().unwrap_or_default();
    for checkpoint in record.get_mut("checkpoints").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(count) = checkpoint["completed_nodes"].as_u64().and_then(|n| usize::try_from(n).ok()) {
            checkpoint["completed_nodes"] = completed[..count.min(completed.len())].into();
        }
    }
}

/// The other way round: puts the number of nodes in the place of their names, where the names say no more.
pub fn pack(record: &mut Json) {
    let completed = record["completed_nodes"].as_array().cloned().unwrap_or_default();
    for checkpoint in record.get_mut("checkpoints").and_then(Json::as_array_mut).into_iter().flatten() {
        let known = checkpoint["completed_nodes"].as_array().filter(|names| completed.starts_with(names));
        if let Some(count) = known.map(Vec::len) {
            checkpoint["completed_nodes"] = count.into();
        }
    }
}
