//! Evaluates a pack: each case by its fixture, rubrics, limits and baseline.

use harn_value::{Data as Json, json};

use super::friction;
use super::pack::THRESHOLDS;
use crate::workflow::fixture as fixtures;

/// Reads the files that a pack names. Paths are as written in the pack, relative to its `base_dir`.
pub trait Reader {
    /// Reads the record of a run from a file and fills in missing fields.
    ///
    /// # Errors
    /// An error message.
    fn run(&self, path: &str) -> Result<Json, String>;

    /// Reads a record that is embedded in the pack and fills in missing fields.
    ///
    /// # Errors
    /// An error message.
    fn inline_run(&self, run: &Json) -> Result<Json, String>;

    /// Reads a JSON file.
    ///
    /// # Errors
    /// An error message.
    fn json(&self, path: &str) -> Result<Json, String>;

    /// Converts a timestamp of a record to milliseconds.
    fn millis(&self, moment: &str) -> Option<i64>;
}

/// Evaluates a manifest returned by [`super::manifest`] and returns the report.
///
/// # Errors
/// A file of the pack cannot be read or has the wrong kind.
pub fn evaluate(pack: &Json, reader: &dyn Reader) -> Result<Json, String> {
    let look = Look { pack, reader };
    let cases = pack["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cases = cases.iter().map(|case| look.case(case)).collect::<Result<Vec<Json>, String>>()?;
    let count = |severity: Option<&str>| {
        let failed =
            |case: &&Json| case["pass"] == false && severity.is_none_or(|word| case["severity"] == word);
        cases.iter().filter(failed).count()
    };
    let failed = count(None);
    Ok(json!({
        "pack_id": pack["id"], "pass": count(Some("blocking")) == 0, "total": cases.len(),
        "passed": cases.len() - failed, "failed": failed, "blocking_failed": count(Some("blocking")),
        "warning_failed": count(Some("warning")), "informational_failed": count(Some("informational")),
        "cases": cases,
    }))
}

struct Look<'a> {
    pack: &'a Json,
    reader: &'a dyn Reader,
}

impl Look<'_> {
    fn case(&self, case: &Json) -> Result<Json, String> {
        let mut found: Vec<String> = Vec::new();
        let (run, path) = self.run(case)?;
        let mut comparison = Json::Null;
        if !run.is_null() {
            let fixture = self.fixture(case)?;
            let fixture = if fixture.is_null() { &run["replay_fixture"] } else { &fixture };
            let judged = fixtures::evaluate(&run, fixture);
            found.extend(judged["failures"].as_array().into_iter().flatten().map(Json::printed));
            for id in case["rubrics"].as_array().into_iter().flatten() {
                found.extend(self.rubric(id, &run));
            }
            found.extend(self.over(&case["thresholds"], &run));
            let other =
                if case["compare_to"].is_null() { &self.pack["baseline"] } else { &case["compare_to"] };
            let other = self.baseline(other)?;
            if !other.is_null() {
                comparison = fixtures::diff(&other, &run);
                if comparison["identical"] == false {
                    found.push(format!("differs from its baseline {}", other["id"].printed()));
                }
            }
        }
        found.extend(self.friction(case)?);
        let severity = case["severity"].as_str().unwrap_or("blocking");
        let told = |word: &str| if severity == word { found.clone() } else { Vec::new() };
        Ok(json!({
            "id": case["id"], "label": case["name"], "severity": severity, "pass": found.is_empty(),
            "blocking": severity == "blocking", "run_id": run["id"], "workflow_id": run["workflow_id"],
            "source_path": path, "stage_count": stages(&run).len(), "failures": told("blocking"),
            "warnings": told("warning"), "informational": told("informational"), "comparison": comparison,
        }))
    }

    /// Returns the fixture with an id.
    fn held(&self, id: &str) -> Option<&Json> {
        self.pack["fixtures"].as_array()?.iter().find(|fixture| fixture["id"] == id)
    }

    /// Returns the run of a case, and the path of its file.
    fn run(&self, case: &Json) -> Result<(Json, Json), String> {
        if let Some(path) = case["run_path"].as_str() {
            return Ok((self.reader.run(path)?, path.into()));
        }
        match case["run"].as_str().and_then(|id| self.held(id)) {
            Some(fixture) => Ok((self.run_of(fixture)?, fixture["path"].clone())),
            None => Ok((Json::Null, Json::Null)),
        }
    }

    fn run_of(&self, fixture: &Json) -> Result<Json, String> {
        match fixture["path"].as_str() {
            Some(path) => self.reader.run(path),
            None => self.reader.inline_run(&fixture["inline"]),
        }
    }

    fn fixture(&self, case: &Json) -> Result<Json, String> {
        let (name, fixture) = match (case["fixture"].as_str(), case["fixture_path"].as_str()) {
            (Some(id), _) => {
                let Some(held) = self.held(id) else { return Ok(Json::Null) };
                let read = held["path"].as_str().map(|path| self.reader.json(path)).transpose()?;
                (id, read.unwrap_or_else(|| held["inline"].clone()))
            }
            (None, Some(path)) => (path, self.reader.json(path)?),
            (None, None) => return Ok(Json::Null),
        };
        if fixtures::is_fixture(&fixture) {
            Ok(fixture)
        } else {
            Err(format!("{name} is no fixture (run_record_fixture makes one)"))
        }
    }

    fn baseline(&self, other: &Json) -> Result<Json, String> {
        match other.as_str() {
            None if other.is_object() => self.reader.inline_run(other),
            None => Ok(Json::Null),
            Some(name) => match self.held(name) {
                Some(fixture) => self.run_of(fixture),
                None => self.reader.run(name),
            },
        }
    }

    fn rubric(&self, id: &Json, run: &Json) -> Vec<String> {
        let rubric = self.pack["rubrics"].as_array().into_iter().flatten().find(|rubric| rubric["id"] == *id);
        let assertions = rubric.and_then(|rubric| rubric["assertions"].as_array()).into_iter().flatten();
        assertions
            .filter_map(|one| broken(one, run))
            .map(|text| format!("{}: {text}", id.printed()))
            .collect()
    }

    /// Returns the limits that a run exceeds.
    fn over(&self, limits: &Json, run: &Json) -> Vec<String> {
        let usage = |key: &str| run["usage"][key].as_f64();
        let taken = [
            self.latency(run),
            usage("total_cost"),
            usage("input_tokens").zip(usage("output_tokens")).map(|(a, b)| a + b),
        ];
        let names = ["latency (ms)", "cost (USD)", "tokens"];
        let mut found = Vec::new();
        for ((key, taken), name) in THRESHOLDS.iter().zip(taken).zip(names) {
            let Some(most) = limits[*key].as_f64() else { continue };
            match taken {
                None => found.push(format!("{name}: at most {}, and the record does not tell", limits[*key])),
                Some(taken) if taken > most => {
                    found.push(format!("{name}: at most {}, got {}", limits[*key], number(taken)));
                }
                Some(_) => {}
            }
        }
        found
    }

    /// Returns the duration of a run in milliseconds: from its timestamps, else from its model calls.
    fn latency(&self, run: &Json) -> Option<f64> {
        let moment = |key: &str| run[key].as_str().and_then(|text| self.reader.millis(text));
        match moment("started_at").zip(moment("finished_at")) {
            Some((from, to)) => Some((to - from) as f64),
            None => run["usage"]["total_duration_ms"].as_f64().filter(|ms| *ms > 0.0),
        }
    }

    fn friction(&self, case: &Json) -> Result<Vec<String>, String> {
        let held = match &case["friction_events"] {
            Json::Null => return Ok(Vec::new()),
            Json::String(id) => {
                let Some(held) = self.held(id) else { return Ok(Vec::new()) };
                match held["path"].as_str() {
                    Some(path) => self.reader.json(path)?,
                    None => held["inline"].clone(),
                }
            }
            events => events.clone(),
        };
        let fixture = if held.is_array() { json!({"events": held}) } else { held };
        let found = friction::evaluate(&fixture)?;
        Ok(found["failures"].as_array().into_iter().flatten().map(Json::printed).collect())
    }
}

/// Formats a number without the `.0` of an integer.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{}", value as i64) } else { format!("{value}") }
}

fn stages(run: &Json) -> &[Json] {
    run["stages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns why a run violates an assertion.
fn broken(assertion: &Json, run: &Json) -> Option<String> {
    let (expected, contains) = (&assertion["expected"], assertion["contains"].as_str().unwrap_or_default());
    let differs = |what: String, got: &Json| {
        (got != expected).then(|| format!("{what}: expected {}, got {}", expected.printed(), got.printed()))
    };
    match assertion["kind"].as_str()? {
        "run-status" => differs("run status".to_owned(), &run["status"]),
        "stage-status" => {
            let name = assertion["stage"].printed();
            // For a node that ran several times, the last stage is checked.
            match stages(run).iter().rev().find(|stage| stage["node_id"] == assertion["stage"]) {
                Some(stage) => differs(format!("stage {name} status"), &stage["status"]),
                None => Some(format!("stage {name}: missing")),
            }
        }
        "visible-text-contains" => {
            let wanted = &assertion["stage"];
            let mut of = stages(run).iter().filter(|stage| wanted.is_null() || stage["node_id"] == *wanted);
            let place =
                if wanted.is_null() { String::new() } else { format!("stage {}: ", wanted.printed()) };
            let told =
                of.any(|stage| stage["visible_text"].as_str().is_some_and(|text| text.contains(contains)));
            (!told).then(|| format!("{place}visible text does not contain '{contains}'"))
        }
        _ => {
            let mut asked = run["hitl_questions"].as_array().into_iter().flatten().map(fixtures::question);
            (!asked.any(|text| text.contains(contains))).then(|| format!("no question contains '{contains}'"))
        }
    }
}
