//! Reads the manifest of an eval pack, and checks all fields and references.

use std::collections::HashSet;

use harn_value::{Data as Json, data::Map, json};

/// The kinds of fixtures that are supported.
const KINDS: [&str; 4] = ["run-record", "recorded-run", "replay-fixture", "friction-events"];

/// The kinds that are reserved for later use.
const RESERVED: [&str; 3] = ["jsonl-trace", "provider-events", "connector-payload"];

/// The severities of a case.
const SEVERITIES: [&str; 3] = ["blocking", "warning", "informational"];

/// The limits of a run.
pub(super) const THRESHOLDS: [&str; 3] = ["max_latency_ms", "max_cost_usd", "max_tokens"];

/// The kinds of assertions with their required and optional fields.
const ASSERTIONS: [(&str, &[&str], &[&str]); 4] = [
    ("run-status", &["expected"], &[]),
    ("stage-status", &["stage", "expected"], &[]),
    ("visible-text-contains", &["contains"], &["stage"]),
    ("hitl-question-contains", &["contains"], &[]),
];

/// The fields that a case inherits from the defaults of its pack.
const DEFAULTS: [&str; 6] = ["rubrics", "severity", "thresholds", "fixture", "fixture_path", "compare_to"];

/// The fields of a case.
const CASE: [&str; 11] = [
    "id",
    "name",
    "run",
    "run_path",
    "fixture",
    "fixture_path",
    "compare_to",
    "rubrics",
    "severity",
    "thresholds",
    "friction_events",
];

/// The fields of a pack whose contents are not checked.
const FREE: [&str; 3] = ["package", "judge", "metadata"];

/// Returns whether fixtures of this kind are runs.
pub(super) fn is_run(kind: &Json) -> bool {
    kind == "run-record" || kind == "recorded-run"
}

/// Reads a manifest and fills in missing fields.
///
/// # Errors
/// A message that begins with the path of the field, for example `cases[0].run`.
pub fn manifest(given: &Json) -> Result<Json, String> {
    let Some(fields) = given.as_object() else {
        return Err(format!("pack must be a dict, got {}", given.type_name()));
    };
    let known = [
        "version",
        "id",
        "name",
        "description",
        "base_dir",
        "baseline",
        "defaults",
        "fixtures",
        "rubrics",
        "cases",
    ];
    refuse_others("the pack", fields, &[&known[..], &FREE[..]].concat())?;
    if !given["version"].is_null() && given["version"] != 1 {
        return Err(format!("version must be 1, got {}", given["version"].printed()));
    }
    let name = text("name", &given["name"])?;
    let id = text("id", &given["id"])?.or_else(|| name.clone());
    let id = id.ok_or("id is required: a text that names the pack")?;
    let fixtures = each("fixtures", &given["fixtures"], fixture)?;
    let rubrics = each("rubrics", &given["rubrics"], rubric)?;
    distinct("fixtures", &fixtures)?;
    distinct("rubrics", &rubrics)?;
    let names = Names { fixtures: &fixtures, rubrics: &rubrics };
    let baseline = names.baseline("baseline", &given["baseline"])?;
    let defaults = defaults(&given["defaults"], &names)?;
    let cases = each("cases", &given["cases"], |at, case| names.case(at, case, &defaults))?;
    distinct("cases", &cases)?;
    let mut out = json!({
        "version": 1, "id": id, "name": name.unwrap_or_else(|| id.clone()),
        "description": text("description", &given["description"])?,
        "base_dir": text("base_dir", &given["base_dir"])?,
        "baseline": baseline, "defaults": defaults, "fixtures": fixtures, "rubrics": rubrics, "cases": cases,
    });
    for key in FREE {
        out[key] = given[key].clone();
    }
    if out["metadata"].is_null() {
        out["metadata"] = json!({});
    }
    Ok(out)
}

/// Rejects unknown keys of a dict.
fn refuse_others(at: &str, fields: &Map<String, Json>, known: &[&str]) -> Result<(), String> {
    refuse_keys(at, fields.keys().map(|key| (key, key.clone())), known)
}

/// Same as `refuse_others`, for keys that also have another spelling: each key comes with its canonical form.
fn refuse_keys<'a>(
    at: &str,
    mut keys: impl Iterator<Item = (&'a String, String)>,
    known: &[&str],
) -> Result<(), String> {
    match keys.find(|(_, form)| !known.contains(&form.as_str())) {
        Some((key, _)) => Err(format!("{at} has no field `{key}`; there are {}", known.join(", "))),
        None => Ok(()),
    }
}

/// Reads an optional, non-empty string.
fn text(at: &str, value: &Json) -> Result<Option<String>, String> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) if !text.is_empty() => Ok(Some(text.clone())),
        Json::String(_) => Err(format!("{at} must not be empty")),
        other => Err(format!("{at} must be a string, got {}", other.type_name())),
    }
}

/// Reads a required, non-empty string.
fn required(at: &str, value: &Json) -> Result<String, String> {
    text(at, value)?.ok_or_else(|| format!("{at} is required"))
}

/// Reads one of several allowed strings.
fn word(at: &str, value: &Json, words: &[&str]) -> Result<Option<String>, String> {
    match text(at, value)? {
        Some(given) if !words.contains(&given.as_str()) => {
            Err(format!("{at} must be one of {}, got '{given}'", words.join(", ")))
        }
        given => Ok(given),
    }
}

fn items<'a>(at: &str, value: &'a Json) -> Result<&'a [Json], String> {
    match value {
        Json::Null => Ok(&[]),
        Json::Array(items) => Ok(items),
        other => Err(format!("{at} must be a list, got {}", other.type_name())),
    }
}

/// Reads the dicts of a list, each with its path.
fn each(
    at: &str,
    value: &Json,
    read: impl Fn(&str, &Json) -> Result<Json, String>,
) -> Result<Vec<Json>, String> {
    let one = |(n, item): (usize, &Json)| {
        let at = format!("{at}[{n}]");
        if !item.is_object() {
            return Err(format!("{at} must be a dict, got {}", item.type_name()));
        }
        read(&at, item)
    };
    items(at, value)?.iter().enumerate().map(one).collect()
}

fn fields(value: &Json) -> &Map<String, Json> {
    static NONE: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NONE)
}

/// Checks that ids are unique.
fn distinct(at: &str, list: &[Json]) -> Result<(), String> {
    let mut seen = HashSet::new();
    match list.iter().enumerate().find(|(_, one)| !seen.insert(one["id"].printed())) {
        Some((n, one)) => Err(format!("{at}[{n}].id: there are two with the id '{}'", one["id"].printed())),
        None => Ok(()),
    }
}

fn fixture(at: &str, given: &Json) -> Result<Json, String> {
    refuse_others(at, fields(given), &["id", "kind", "path", "inline"])?;
    let id = required(&format!("{at}.id"), &given["id"])?;
    let kind = text(&format!("{at}.kind"), &given["kind"])?.unwrap_or_else(|| KINDS[0].to_owned());
    if RESERVED.contains(&kind.as_str()) {
        let kinds = KINDS.join(", ");
        return Err(format!("{at}.kind: '{kind}' is reserved and cannot be evaluated; there are {kinds}"));
    }
    word(&format!("{at}.kind"), &kind.as_str().into(), &KINDS)?;
    let path = text(&format!("{at}.path"), &given["path"])?;
    if path.is_some() != given["inline"].is_null() {
        return Err(format!("{at} needs either path or inline"));
    }
    let is_dict = given["inline"].is_object() || kind == "friction-events" && given["inline"].is_array();
    if path.is_none() && !is_dict {
        return Err(format!("{at}.inline must be a dict, got {}", given["inline"].type_name()));
    }
    Ok(json!({"id": id, "kind": kind, "path": path, "inline": given["inline"]}))
}

fn rubric(at: &str, given: &Json) -> Result<Json, String> {
    refuse_others(at, fields(given), &["id", "kind", "assertions"])?;
    let id = required(&format!("{at}.id"), &given["id"])?;
    let kind = word(&format!("{at}.kind"), &given["kind"], &["deterministic"])?;
    let assertions = each(&format!("{at}.assertions"), &given["assertions"], assertion)?;
    if assertions.is_empty() {
        return Err(format!("{at}.assertions is required: a rubric without any holds nothing"));
    }
    Ok(
        json!({"id": id, "kind": kind.unwrap_or_else(|| "deterministic".to_owned()), "assertions": assertions}),
    )
}

fn assertion(at: &str, given: &Json) -> Result<Json, String> {
    let kind = required(&format!("{at}.kind"), &given["kind"])?;
    let Some((_, needed, allowed)) = ASSERTIONS.iter().find(|(known, ..)| *known == kind) else {
        let kinds: Vec<&str> = ASSERTIONS.iter().map(|(kind, ..)| *kind).collect();
        return Err(format!("{at}.kind must be one of {}, got '{kind}'", kinds.join(", ")));
    };
    refuse_others(at, fields(given), &[&["kind"][..], needed, allowed].concat())?;
    for key in *needed {
        required(&format!("{at}.{key}"), &given[*key])?;
    }
    for key in *allowed {
        text(&format!("{at}.{key}"), &given[*key])?;
    }
    Ok(given.clone())
}

/// Reads limits, whose names may contain dashes or underscores.
fn thresholds(at: &str, given: &Json) -> Result<Json, String> {
    if given.is_null() {
        return Ok(json!({}));
    }
    let Some(limits) = given.as_object() else {
        return Err(format!("{at} must be a dict, got {}", given.type_name()));
    };
    refuse_keys(at, limits.keys().map(|key| (key, key.replace('-', "_"))), &THRESHOLDS)?;
    let mut out = json!({});
    for (key, limit) in limits {
        if limit.is_null() {
            continue;
        }
        if !limit.as_f64().is_some_and(|limit| limit.is_finite() && limit >= 0.0) {
            return Err(format!("{at}.{key} must be a number from 0 on, got {}", limit.printed()));
        }
        out[&key.replace('-', "_")] = limit.clone();
    }
    Ok(out)
}

fn defaults(given: &Json, names: &Names<'_>) -> Result<Json, String> {
    if given.is_null() {
        return Ok(json!({}));
    }
    let Some(set) = given.as_object() else {
        return Err(format!("defaults must be a dict, got {}", given.type_name()));
    };
    refuse_others("defaults", set, &DEFAULTS)?;
    let read = names.judged_by("defaults", given)?;
    let set = DEFAULTS.iter().filter(|key| !given[**key].is_null());
    Ok(set.map(|key| ((*key).to_owned(), read[*key].clone())).collect())
}

/// The names to which cases may refer.
struct Names<'a> {
    fixtures: &'a [Json],
    rubrics: &'a [Json],
}

impl Names<'_> {
    fn fixture(
        &self,
        at: &str,
        value: &Json,
        fits: impl Fn(&Json) -> bool,
        what: &str,
    ) -> Result<Option<String>, String> {
        let Some(id) = text(at, value)? else { return Ok(None) };
        match self.fixtures.iter().find(|fixture| fixture["id"] == id.as_str()) {
            Some(fixture) if fits(&fixture["kind"]) => Ok(Some(id)),
            Some(fixture) => Err(format!(
                "{at}: fixture '{id}' is of kind {}, where {what} is needed",
                fixture["kind"].printed()
            )),
            None => Err(format!("{at}: there is no fixture '{id}'; {}", listed(self.fixtures))),
        }
    }

    /// Reads a baseline: the id of a run fixture, a path, or a run.
    fn baseline(&self, at: &str, value: &Json) -> Result<Json, String> {
        if value.is_object() {
            return Ok(value.clone());
        }
        let Some(name) = text(at, value)? else { return Ok(Json::Null) };
        if self.fixtures.iter().any(|fixture| fixture["id"] == name.as_str()) {
            self.fixture(at, value, is_run, "a run-record")?;
        }
        Ok(name.into())
    }

    /// Reads the fields of a case, or of the pack's defaults, that define how runs are judged.
    fn judged_by(&self, at: &str, given: &Json) -> Result<Json, String> {
        let place = |key: &str| format!("{at}.{key}");
        let fixture = self.fixture(
            &place("fixture"),
            &given["fixture"],
            |kind| kind == "replay-fixture",
            "a replay-fixture",
        )?;
        let fixture_path = text(&place("fixture_path"), &given["fixture_path"])?;
        if fixture.is_some() && fixture_path.is_some() {
            return Err(format!("{at} has both fixture and fixture_path; one of them is meant"));
        }
        for (n, id) in items(&place("rubrics"), &given["rubrics"])?.iter().enumerate() {
            let at = format!("{at}.rubrics[{n}]");
            let id = required(&at, id)?;
            if !self.rubrics.iter().any(|rubric| rubric["id"] == id.as_str()) {
                return Err(format!("{at}: there is no rubric '{id}'; {}", listed(self.rubrics)));
            }
        }
        Ok(json!({
            "fixture": fixture, "fixture_path": fixture_path,
            "compare_to": self.baseline(&place("compare_to"), &given["compare_to"])?,
            "rubrics": items("", &given["rubrics"])?, "severity": word(&place("severity"), &given["severity"], &SEVERITIES)?,
            "thresholds": thresholds(&place("thresholds"), &given["thresholds"])?,
        }))
    }

    fn case(&self, at: &str, given: &Json, defaults: &Json) -> Result<Json, String> {
        refuse_others(at, fields(given), &CASE)?;
        let place = |key: &str| format!("{at}.{key}");
        let mut case = self.judged_by(at, given)?;
        let fixed = !case["fixture"].is_null() || !case["fixture_path"].is_null();
        for key in DEFAULTS {
            let is_other = fixed && key.starts_with("fixture");
            if given[key].is_null() && !is_other && !defaults[key].is_null() {
                case[key] = defaults[key].clone();
            }
        }
        if case["severity"].is_null() {
            case["severity"] = SEVERITIES[0].into();
        }
        let run = self.fixture(&place("run"), &given["run"], is_run, "a run-record")?;
        let run_path = text(&place("run_path"), &given["run_path"])?;
        if run.is_some() && run_path.is_some() {
            return Err(format!("{at} has both run and run_path; one of them is meant"));
        }
        let friction = match &given["friction_events"] {
            list @ Json::Array(_) => list.clone(),
            id => {
                let is_friction = |kind: &Json| kind == "friction-events";
                self.fixture(&place("friction_events"), id, is_friction, "friction-events")?.into()
            }
        };
        if run.is_none() && run_path.is_none() && friction.is_null() {
            return Err(format!("{at} needs run (the id of a fixture), run_path or friction_events"));
        }
        let name = text(&place("name"), &given["name"])?;
        let id = text(&place("id"), &given["id"])?
            .or_else(|| name.clone())
            .or_else(|| run.clone())
            .or_else(|| run_path.clone());
        let id = id.ok_or_else(|| format!("{at}.id is required"))?;
        case["name"] = name.unwrap_or_else(|| id.clone()).into();
        case["id"] = id.into();
        case["run"] = run.into();
        case["run_path"] = run_path.into();
        case["friction_events"] = friction;
        Ok(case)
    }
}

fn listed(list: &[Json]) -> String {
    let ids: Vec<String> = list.iter().map(|one| one["id"].printed()).collect();
    if ids.is_empty() { "the pack has none".to_owned() } else { format!("there are {}", ids.join(", ")) }
}
