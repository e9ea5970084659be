//! The list of runs: filters, order and pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use harn_value::{Data, json};
use serde::Deserialize;

use crate::records::{Row, Standing};

/// Maximum number of runs per page.
const MAX_PAGE: usize = 200;

/// Default number of runs per page.
const PAGE: usize = 25;

/// The parameters of a request, not validated.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    q: String,
    workflow: String,
    status: String,
    skill: String,
    sort: String,
    page: String,
    page_size: String,
}

/// Returns the response for a list.
///
/// # Errors
/// A message that names the invalid parameter.
pub(crate) fn answer(rows: &[Arc<Row>], wanted: &Wanted) -> Result<Data, String> {
    let standing = match wanted.status.as_str() {
        "" | "all" => None,
        "active" => Some(Standing::Active),
        "completed" => Some(Standing::Completed),
        "failed" => Some(Standing::Failed),
        other => return Err(format!("status must be all, active, completed or failed, got '{other}'")),
    };
    let size = number("page_size", &wanted.page_size, PAGE, MAX_PAGE)?;
    let page = number("page", &wanted.page, 1, usize::MAX)?;
    let needle = wanted.q.trim().to_lowercase();
    let mut found: Vec<&Arc<Row>> = rows
        .iter()
        .filter(|row| standing.is_none_or(|standing| row.standing() == standing))
        .filter(|row| wanted.workflow.is_empty() || row.workflow_name == wanted.workflow)
        .filter(|row| wanted.skill.is_empty() || row.skills.contains(&wanted.skill))
        .filter(|row| needle.is_empty() || mentions(row, &needle))
        .collect();
    match wanted.sort.as_str() {
        "" | "newest" => (),
        "oldest" => found.reverse(),
        "duration" => found.sort_by_key(|row| std::cmp::Reverse(row.duration_ms)),
        other => return Err(format!("sort must be newest, oldest or duration, got '{other}'")),
    }
    let pages = found.len().div_ceil(size).max(1);
    // Runs may have been removed since the pages were counted.
    let page = page.min(pages);
    let shown = found.iter().skip((page - 1) * size).take(size).map(|row| row.to_json());
    Ok(json!({
        "stats": stats(rows),
        "filtered_count": found.len(),
        "pagination": {
            "page": page, "page_size": size, "total_pages": pages, "total_runs": rows.len(),
            "has_previous": page > 1, "has_next": page < pages,
        },
        "facets": {
            "workflows": rows.iter().map(|row| row.workflow_name.as_str()).collect::<BTreeSet<_>>(),
            "skills": rows.iter().flat_map(|row| row.skills.iter().map(String::as_str)).collect::<BTreeSet<_>>(),
        },
        "runs": shown.collect::<Vec<_>>(),
    }))
}

/// Parses an integer from 1 to `most`.
fn number(name: &str, text: &str, otherwise: usize, most: usize) -> Result<usize, String> {
    if text.is_empty() {
        return Ok(otherwise);
    }
    let taken = if most == usize::MAX { "of at least 1".to_owned() } else { format!("from 1 to {most}") };
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{name} must be a whole number {taken}, got '{text}'"))
}

/// Returns whether a searched field of a run contains `needle`.
fn mentions(row: &Row, needle: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(needle);
    [&row.workflow_name, &row.id, &row.path, &row.status].into_iter().any(|text| has(text))
        || row.failure.as_deref().is_some_and(has)
        || row.models().into_iter().any(has)
}

fn stats(rows: &[Arc<Row>]) -> Data {
    let count = |standing| rows.iter().filter(|row| row.standing() == standing).count();
    let times: Vec<i64> = rows.iter().filter_map(|row| row.duration_ms).collect();
    let average = i64::try_from(times.len())
        .ok()
        .and_then(|n| times.iter().fold(0_i64, |sum, time| sum.saturating_add(*time)).checked_div(n));
    json!({
        "total_runs": rows.len(), "completed_runs": count(Standing::Completed),
        "active_runs": count(Standing::Active), "failed_runs": count(Standing::Failed),
        "avg_duration_ms": average.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Arc<Row>> {
        let row = |id: &str, status: &str, duration: i64| {
            Arc::new(Row {
                id: id.to_owned(),
                path: format!("{id}/run.json"),
                status: status.to_owned(),
                duration_ms: Some(duration),
                workflow_name: "Repair".to_owned(),
                ..Row::default()
            })
        };
        vec![row("c", "completed", 5), row("b", "failed", 9), row("a", "running", 1)]
    }

    fn ids(wanted: &Wanted) -> Vec<String> {
        let found = answer(&rows(), wanted).unwrap();
        found["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn filters_and_orders() {
        let of = |set: fn(&mut Wanted)| {
            let mut wanted = Wanted::default();
            set(&mut wanted);
            ids(&wanted)
        };
        assert_eq!(of(|_| ()), ["c", "b", "a"]);
        assert_eq!(of(|w| w.sort = "oldest".into()), ["a", "b", "c"]);
        assert_eq!(of(|w| w.sort = "duration".into()), ["b", "c", "a"]);
        assert_eq!(of(|w| w.status = "failed".into()), ["b"]);
        assert_eq!(of(|w| w.q = "A/RUN".into()), ["a"]);
        assert!(of(|w| w.workflow = "Other".into()).is_empty());
    }

    #[test]
    fn a_page_beyond_the_end_is_the_last() {
        let wanted = Wanted { page: "9".into(), page_size: "2".into(), ..Wanted::default() };
        let found = answer(&rows(), &wanted).unwrap();
        assert_eq!(
            found["pagination"],
            json!({"page": 2, "page_size": 2, "total_pages": 2, "total_runs": 3, "has_previous": true, "has_next": false})
        );
        assert_eq!(ids(&wanted), ["a"]);
        assert_eq!(found["stats"]["avg_duration_ms"], 5);
        let none = answer(&[], &Wanted::default()).unwrap();
        assert_eq!((&none["pagination"]["total_pages"], &none["filtered_count"]), (&1.into(), &0.into()));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let error = |wanted: Wanted| answer(&rows(), &wanted).unwrap_err();
        assert!(error(Wanted { status: "done".into(), ..Wanted::default() }).starts_with("status must be"));
        assert!(error(Wanted { sort: "up".into(), ..Wanted::default() }).starts_with("sort must be"));
        assert_eq!(
            error(Wanted { page: "-1".into(), ..Wanted::default() }),
            "page must be a whole number of at least 1, got '-1'"
        );
        assert_eq!(
            error(Wanted { page: "0".into(), ..Wanted::default() }),
            "page must be a whole number of at least 1, got '0'"
        );
        for size in ["0", "201", "many"] {
            assert_eq!(
                error(Wanted { page_size: size.into(), ..Wanted::default() }),
                format!("page_size must be a whole number from 1 to 200, got '{size}'")
            );
        }
    }
}
