//! `harn doctor`: checks the environment of a project. It changes nothing, and prints the names of keys but not their
//! values.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_check::{Located, Settings};
use harn_front::Through;
use harn_packages::Lock;
use harn_runtime::{check_provider, list_providers, llm_config_problems, llm_runtime_at, stale_models};
use harn_store::{Place, Run, RunFilter, RunStatus, StoreStats};
use harn_syntax::printable;
use harn_system::{Layer, Real, Stream, System, SystemExt};
use harn_value::View;
use harn_value::{Data as Value, json};

use super::providers::{envelope, text, texts};
use super::worker::{WorkerInfo, age, workers};
use crate::args::DoctorArgs;
use crate::program;
use crate::style::Colour;

/// The largest manifest or lock file that is read.
const MAX_FILE: u64 = 16 << 20;

/// Number of runs of each status that are examined.
const MAX_RUNS: usize = 1_000;

/// A run that is queued, or does not write to its journal, for longer than this is reported as stuck.
const STUCK_MS: i64 = 600_000;
const SILENT_MS: i64 = 3_600_000;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Fine,
    Doubtful,
    Failed,
    Skipped,
}

impl Status {
    const fn word(self) -> &'static str {
        match self {
            Status::Fine => "OK",
            Status::Doubtful => "WARN",
            Status::Failed => "FAIL",
            Status::Skipped => "SKIP",
        }
    }
}

/// A check with its result.
struct Finding {
    status: Status,
    check: &'static str,
    detail: String,
}

/// Performs all checks. Returns 1 if one failed.
pub(crate) fn doctor(args: &DoctorArgs) -> u8 {
    let findings = Doctor::new().examine(args);
    let failed = findings.iter().any(|finding| finding.status == Status::Failed);
    if args.json {
        let row = |f: &Finding| json!({"check": f.check, "status": f.status.word(), "detail": f.detail});
        let checks: Vec<Value> = findings.iter().map(row).collect();
        crate::out::write(&envelope(&json!({"healthy": !failed, "checks": checks})));
    } else {
        crate::out::write(&findings.iter().map(line).collect::<String>());
    }
    u8::from(failed)
}

fn line(finding: &Finding) -> String {
    let colour = Colour::of(Stream::Output);
    let word = format!("{:<4}", finding.status.word());
    let word = match finding.status {
        Status::Fine => colour.good(&word),
        Status::Failed => colour.error(&word),
        Status::Doubtful | Status::Skipped => word,
    };
    format!("  {word}  {:<12}  {}\n", finding.check, printable(&finding.detail))
}

struct Doctor {
    system: Rc<dyn System>,
    /// Output of the runtime on standard error.
    said: Rc<RefCell<String>>,
    here: PathBuf,
    /// The directory of the manifest, and its content.
    project: Option<(PathBuf, Result<String, String>)>,
    findings: Vec<Finding>,
}

impl Doctor {
    fn new() -> Doctor {
        let said: Rc<RefCell<String>> = Rc::default();
        let system: Rc<dyn System> = Rc::new(Listening { inner: Real::new(), said: said.clone() });
        let here = system.work_dir();
        let project = harn_front::project_root(&here, &Through(&*system)).map(|root| {
            let path = root.join("harn.toml");
            let text = system.read_text(&path, MAX_FILE);
            let text = text.map_err(|e| format!("cannot read {}: {e}", path.display()));
            (root, text)
        });
        Doctor { system, said, here, project, findings: Vec::new() }
    }

    fn examine(mut self, args: &DoctorArgs) -> Vec<Finding> {
        self.manifest();
        self.variables();
        self.dependencies();
        let asked = self.providers();
        self.models();
        self.network(args, asked);
        self.mcp();
        self.store(args);
        self.skills();
        self.permissions();
        self.findings
    }

    fn add(&mut self, status: Status, check: &'static str, detail: impl Into<String>) {
        self.findings.push(Finding { status, check, detail: detail.into() });
    }

    fn text(&self) -> Option<&str> {
        self.project.as_ref()?.1.as_deref().ok()
    }

    fn manifest(&mut self) {
        let Some((root, text)) = &self.project else {
            let detail = "no harn.toml in this directory or its parents; create one with `harn init`";
            return self.add(Status::Skipped, "manifest", detail);
        };
        let path = root.join("harn.toml").display().to_string();
        if let Err(problem) = text {
            let problem = problem.clone();
            return self.add(Status::Failed, "manifest", problem);
        }
        if let Some(located) = Settings::unparsable(&*self.system, root) {
            return self.add(Status::Failed, "manifest", located.diagnostic.message);
        }
        let (_, problems) = Settings::find(&*self.system, root);
        let mut told: Vec<String> = problems.iter().map(Located::message_with_help).collect();
        let models = llm_config_problems(self.text().unwrap_or_default());
        told.extend(models.into_iter().map(|problem| problem.message));
        for table in harn_check::unknown_tables(self.text().unwrap_or_default()) {
            let text = format!("unknown table `[{table}]`: it has no effect");
            if !told.iter().any(|known| known.starts_with(&text)) {
                told.push(text);
            }
        }
        if told.is_empty() {
            return self.add(Status::Fine, "manifest", path);
        }
        for text in told {
            self.add(Status::Doubtful, "manifest", format!("{path}: {text}"));
        }
    }

    fn dependencies(&mut self) {
        let skip = "no dependencies";
        let Some((root, Ok(text))) = &self.project else {
            return self.add(Status::Skipped, "dependencies", skip);
        };
        let (manifest, lock) = (root.join("harn.toml"), root.join("harn.lock"));
        let wanted = match harn_packages::dependencies(text, &manifest) {
            Ok(wanted) if wanted.is_empty() => return self.add(Status::Skipped, "dependencies", skip),
            Ok(wanted) => wanted,
            Err(trouble) => return self.add(Status::Failed, "dependencies", trouble.0),
        };
        let way = "run `harn install`";
        let Ok(locked) = self.system.read_text(&lock, MAX_FILE) else {
            return self.add(Status::Failed, "dependencies", format!("harn.lock is missing: {way}"));
        };
        let locked = match Lock::read(&locked, &lock) {
            Ok(locked) => locked,
            Err(trouble) => return self.add(Status::Failed, "dependencies", trouble.0),
        };
        let packages = root.join(".harn").join("packages");
        let is_there = |alias: &str| {
            let file = packages.join(format!("{alias}.harn"));
            locked.get(alias).is_some() && [packages.join(alias), file].iter().any(|p| self.system.exists(p))
        };
        let missing: Vec<&str> =
            wanted.iter().map(|d| d.alias.as_str()).filter(|alias| !is_there(alias)).collect();
        match missing.is_empty() {
            true => self.add(Status::Fine, "dependencies", format!("{} installed", wanted.len())),
            false => {
                let detail = format!("not installed: {}; {way}", missing.join(", "));
                self.add(Status::Failed, "dependencies", detail);
            }
        }
    }

    /// Checks the model providers. Returns the default provider if it is usable.
    fn providers(&mut self) -> Option<String> {
        let vm = program::session_vm(self.system.clone());
        let all = list_providers(&llm_runtime_at(&vm, &self.here));
        let variable = |row: &Value| texts(&row["key_envs"]).into_iter().next();
        let with_keys: Vec<String> = all
            .iter()
            .filter(|row| row["key"] == "set")
            .map(|row| match variable(row) {
                Some(variable) => format!("{} ({variable})", text(&row["name"])),
                None => text(&row["name"]),
            })
            .collect();
        let keys = match with_keys.is_empty() {
            true => "no provider has a key".to_owned(),
            false => format!("keys are set for {}", with_keys.join(", ")),
        };
        // A provider without an endpoint runs in this process.
        let is_here = |row: &Value| text(&row["api"]).is_empty();
        let chosen = self.system.env("HARN_LLM_PROVIDER");
        if let Some(row) = all.iter().find(|row| row["name"].as_str() == chosen.as_deref() && is_here(row)) {
            self.add(Status::Fine, "providers", format!("default provider: {}; {keys}", text(&row["name"])));
            return None;
        }
        let Some(default) = all.iter().find(|row| row["is_default"] == true) else {
            self.add(Status::Doubtful, "providers", format!("no provider is the default; {keys}"));
            return None;
        };
        let name = text(&default["name"]);
        if default["key"] == "not set" {
            let set = variable(default).map_or_else(String::new, |variable| format!(": set {variable}"));
            self.add(
                Status::Doubtful,
                "providers",
                format!("the default provider, {name}, has no key{set}; {keys}"),
            );
            return None;
        }
        self.add(Status::Fine, "providers", format!("default provider: {name}; {keys}"));
        (!is_here(default)).then_some(name)
    }

    fn models(&mut self) {
        let vm = program::session_vm(self.system.clone());
        let stale = stale_models(&llm_runtime_at(&vm, &self.here));
        match stale.is_empty() {
            true => self.add(Status::Fine, "models", "table and configured models are up to date"),
            false => self.add(Status::Doubtful, "models", stale.join("; ")),
        }
    }

    fn network(&mut self, args: &DoctorArgs, provider: Option<String>) {
        let Some(provider) = provider else {
            return self.add(Status::Skipped, "network", "no provider is configured");
        };
        if args.no_network {
            return self.add(Status::Skipped, "network", format!("{provider}: skipped (--no-network)"));
        }
        let vm = program::session_vm(self.system.clone());
        let report = check_provider(&llm_runtime_at(&vm, &self.here), &provider, &json!({}));
        let message = format!("{provider}: {}", text(&report["message"]));
        let status = match report["valid"] == true {
            true if report["metadata"]["reason"] == "no_healthcheck" => Status::Skipped,
            true => Status::Fine,
            false => Status::Failed,
        };
        self.add(status, "network", message);
    }

    fn mcp(&mut self) {
        let vm = program::session_vm(self.system.clone());
        match harn_runtime::project_servers(&vm, &self.here) {
            Err(problem) => self.add(Status::Failed, "mcp", problem),
            Ok(names) if names.is_empty() => {
                self.add(Status::Skipped, "mcp", "the manifest names no servers")
            }
            Ok(names) => {
                let eager = self.text().map(harn_packages::eager_servers).unwrap_or_default();
                let (first, later): (Vec<String>, Vec<String>) =
                    names.into_iter().partition(|name| eager.contains(name));
                let told = [(first, "started with each program"), (later, "started when it is needed")]
                    .into_iter()
                    .filter(|(names, _)| !names.is_empty())
                    .map(|(names, when)| {
                        let each = if names.len() == 1 { "" } else { "each is " };
                        format!("{}: {each}{when}", names.join(", "))
                    });
                let told: Vec<String> = told.collect();
                self.add(Status::Fine, "mcp", told.join("; "));
            }
        }
    }

    /// Checks the store of runs and sessions, the runs in it, and the workers.
    fn store(&mut self, args: &DoctorArgs) {
        let place = match program::store_place(&*self.system) {
            Ok(place) => place,
            Err(problem) => return self.add(Status::Failed, "store", problem),
        };
        match &place {
            Place::Url(_) if args.no_network => {
                return self.add(Status::Skipped, "store", format!("{place}: skipped (--no-network)"));
            }
            Place::Url(_) => {}
            Place::File(file) => match self.system.facts(file) {
                Err(_) => return self.add(Status::Fine, "store", format!("{place} is created on first use")),
                Ok(facts) if !facts.is_file() => {
                    return self.add(Status::Failed, "store", format!("{place} is not a file"));
                }
                Ok(facts) if facts.readonly => {
                    self.add(Status::Failed, "store", format!("{place} cannot be written"));
                }
                Ok(_) => {}
            },
        }
        let now_ms = self.system.now_ms();
        let examined = place.open_to_read().and_then(|store| {
            let stats = harn_journal::wait(store.stats(now_ms))?;
            let workers = harn_journal::wait(workers(&*store, now_ms))?;
            let mut open = Vec::new();
            for status in [RunStatus::Queued, RunStatus::Running, RunStatus::Abandoned, RunStatus::Suspended]
            {
                let filter = RunFilter { status: Some(status), now_ms, before: None };
                open.extend(harn_journal::wait(store.runs(filter, MAX_RUNS))?);
            }
            let asked = harn_journal::wait(store.waitpoints(None, true))?;
            Ok((stats, workers, open, asked))
        });
        let (stats, workers, open, asked) = match examined {
            Ok(examined) => examined,
            Err(error) => return self.add(Status::Failed, "store", error.to_string()),
        };
        let detail = format!("{place}: schema version {}, {} bytes", stats.schema, stats.bytes);
        self.add(Status::Fine, "store", detail);
        self.runs(&stats, &workers, now_ms);
        let is_asked = |run: &Run| asked.iter().any(|waitpoint| waitpoint.run == run.id);
        for run in &open {
            if let Some(why) = stuck(run, is_asked(run), now_ms) {
                self.add(Status::Doubtful, "runs", format!("run {} {why}", run.id));
            }
        }
        self.workers(&workers);
    }

    /// Reports the numbers of runs, and whether the queue makes progress.
    fn runs(&mut self, stats: &StoreStats, workers: &[WorkerInfo], now_ms: i64) {
        if stats.runs.is_empty() {
            return self.add(Status::Skipped, "runs", "no runs");
        }
        let counts: Vec<String> =
            stats.runs.iter().map(|(status, count)| format!("{count} {}", status.word())).collect();
        self.add(Status::Fine, "runs", counts.join(", "));
        let wait_ms = stats.oldest_due_ms.map_or(0, |due_ms| now_ms - due_ms);
        if wait_ms > STUCK_MS {
            let why = if workers.iter().any(WorkerInfo::is_alive) {
                "all workers are busy: start another one, or increase `--concurrency`"
            } else {
                "no worker is running: start `harn worker`"
            };
            let detail = format!("the queue has waited for {}; {why}", age(wait_ms));
            self.add(Status::Doubtful, "runs", detail);
        }
    }

    fn workers(&mut self, workers: &[WorkerInfo]) {
        let alive: Vec<&str> =
            workers.iter().filter(|worker| worker.is_alive()).map(|worker| worker.name.as_str()).collect();
        match alive.is_empty() {
            true => self.add(Status::Skipped, "workers", "no worker is running"),
            false => {
                self.add(Status::Fine, "workers", format!("{} running: {}", alive.len(), alive.join(", ")));
            }
        }
        for worker in workers.iter().filter(|worker| worker.status == "dead") {
            let detail = format!("{} ended without a word {} ago", worker.name, age(worker.age_ms));
            self.add(Status::Doubtful, "workers", detail);
        }
        let own = env!("CARGO_PKG_VERSION");
        for worker in workers.iter().filter(|worker| worker.is_alive()) {
            if let Some(version) = worker.record["version"].as_str().filter(|version| *version != own) {
                let detail = format!("{} has version {version}, this is {own}", worker.name);
                self.add(Status::Doubtful, "workers", detail);
            }
        }
    }

    fn variables(&mut self) {
        let unknown = crate::variables::unknown(harn_system::Real::variable_names());
        if unknown.is_empty() {
            return self.add(Status::Fine, "variables", "no unknown HARN_ variables");
        }
        for crate::variables::Unknown { name, near } in unknown {
            let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
            self.add(Status::Doubtful, "variables", format!("without effect: {name}{near}"));
        }
    }

    fn skills(&mut self) {
        let vm = program::session_vm(self.system.clone());
        self.said.borrow_mut().clear();
        if let Err(problem) = harn_runtime::install_skills(&vm, &self.here, &[]) {
            return self.add(Status::Failed, "skills", problem);
        }
        let said = self.said.take();
        if !said.is_empty() {
            for line in said.lines() {
                self.add(Status::Doubtful, "skills", line.trim_start_matches("[harn] warning: "));
            }
            return;
        }
        let registry = vm.global("skills").unwrap_or_default();
        let list = registry.as_dict().and_then(|dict| dict.get_str("skills").cloned());
        let count = list.as_ref().map_or(0, |list| match list.view() {
            View::List(list) => list.len(),
            _ => 0,
        });
        match count {
            0 => self.add(Status::Skipped, "skills", "no skills"),
            count => self.add(Status::Fine, "skills", format!("{count} found")),
        }
    }

    /// Whether the state directory is writable.
    fn permissions(&mut self) {
        let root = self.project.as_ref().map_or_else(|| self.here.clone(), |(root, _)| root.clone());
        let state = root.join(".harn");
        let folder = if self.system.is_dir(&state) { state } else { root };
        // Dropping a draft removes its file.
        let draft = self.system.draft(&folder.join(format!(".harn-doctor-{}", self.system.pid())));
        match draft {
            Ok(draft) => {
                drop(draft);
                self.add(Status::Fine, "permissions", format!("{} can be written", show(&folder)));
            }
            Err(error) => {
                let detail = format!("{} cannot be written: {error}", show(&folder));
                self.add(Status::Failed, "permissions", detail);
            }
        }
    }
}

/// Returns why a run will not continue automatically, as far as its head shows.
fn stuck(run: &Run, is_asked: bool, now_ms: i64) -> Option<String> {
    let silent_ms = now_ms - run.updated_ms;
    match run.status_at(now_ms) {
        RunStatus::Abandoned => {
            Some("was interrupted; a worker or `harn resume --all` continues it".to_owned())
        }
        RunStatus::Running if silent_ms > SILENT_MS => {
            Some(format!("has not written to its journal for {}", age(silent_ms)))
        }
        RunStatus::Suspended if run.due_ms.is_none() && !is_asked => {
            let note = if run.note.is_empty() { String::new() } else { format!(": {}", run.note) };
            Some(format!("waits for `harn resume {}`{note}", run.id))
        }
        _ => None,
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// The real system, with the standard error output of the runtime captured.
struct Listening {
    inner: Real,
    said: Rc<RefCell<String>>,
}

impl Layer for Listening {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_err(&self, text: &str) {
        self.said.borrow_mut().push_str(text);
    }
}
