//! Finds, parses and reports the templates of calls and their includes, each once.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use harn_syntax::source_map::line_column;
use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_system::{System, SystemExt};
use harn_template::{
    Assets, Caller, ErrorKind, FILTERS, FsLoader, IncludeSite, LintSettings, Loaded, Loader, MAX_INCLUDES,
    Origin, Template,
};
use rustc_hash::FxHashMap;

use super::bindings::Ledger;
use super::bundle::Bundle;
use super::calls::RenderCall;
use super::parsed::Parsed;
use super::tools::Tools;
use super::{File, Located};
use crate::codes::{
    PROMPT_TOOL, TEMPLATE_FILTER, TEMPLATE_INCLUDE, TEMPLATE_MISSING, TEMPLATE_PATH, TEMPLATE_SYNTAX,
};
use crate::lints;
use crate::settings::Settings;
use crate::world::World;
use harn_syntax::suggest::close;

/// The templates found so far, and all findings of the preflight.
pub(crate) struct Templates<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) system: &'a dyn System,
    assets: Embedded,
    /// By identity; `None` when it does not parse.
    parsed: FxHashMap<String, Option<Rc<Parsed>>>,
    ledger: Ledger,
    /// Names of the files with findings, in order; the checked program has none and comes first.
    files: Vec<Option<String>>,
    found: Vec<Located>,
    /// The files that were found.
    pub(crate) bundle: Bundle,
}

/// A template in a chain of includes.
#[derive(Clone)]
struct Chained {
    identity: String,
    parsed: Rc<Parsed>,
}

/// The includes of one call, followed one by one.
struct Includes<'a> {
    /// The template that is rendered.
    entry: Origin,
    /// The note that names the call.
    rendered_by: &'a str,
    loader: &'a FsLoader<'a>,
    /// The chain of includes from that template to the current one.
    chain: Vec<Chained>,
    /// Identities of all found templates.
    visited: Vec<String>,
}

/// The embedded prompts of the world.
struct Embedded(fn(&str) -> Option<&'static str>);

impl Assets for Embedded {
    fn get(&self, path: &str) -> Option<std::borrow::Cow<'static, str>> {
        (self.0)(path).map(std::borrow::Cow::Borrowed)
    }
}

impl<'a> Templates<'a> {
    pub(crate) fn new(world: &World<'a>, settings: &'a Settings) -> Self {
        Self {
            settings,
            system: world.files.0,
            assets: Embedded(world.prompt_asset),
            parsed: FxHashMap::default(),
            ledger: Ledger::default(),
            files: vec![None],
            found: Vec::new(),
            bundle: Bundle::default(),
        }
    }

    pub(crate) fn report(&mut self, file: Option<Arc<SourceFile>>, diagnostic: Diagnostic) {
        let name = file.as_ref().map(|file| file.name().to_owned());
        if !self.files.contains(&name) {
            self.files.push(name);
        }
        self.found.push(Located { file, diagnostic });
    }

    /// All findings: those of the program, then file by file in the order of their first finding, each in source
    /// order. Returns the number of findings so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn finish(mut self) -> Vec<Located> {
        for (file, diagnostic) in std::mem::take(&mut self.ledger).unused() {
            self.report(file, diagnostic);
        }
        let files = self.files;
        let place = |located: &Located| {
            let name = located.file.as_ref().map(|file| file.name());
            let file = files.iter().position(|known| known.as_deref() == name);
            (file, located.diagnostic.span.map(|span| span.start))
        };
        self.found.sort_by_key(place);
        self.found
    }

    /// Checks the template of a call.
    pub(crate) fn call(&mut self, file: &File<'_>, call: &RenderCall<'_>, tools: Option<&Tools<'_>>) {
        if call.is_text {
            return self.text(file, call);
        }
        let Some((entry, dir)) = self.target(file, call) else {
            return self.ledger.incomplete(file.shown.as_ref(), call);
        };
        let assets = Embedded(self.assets.0);
        let loader = FsLoader::new(self.system, &assets, dir);
        let (line, column) = line_column(file.text, call.path_span.start);
        let place = format!("{}:{line}:{column}", file.name);
        let note = format!("rendered by {place}");
        self.bundle.add(entry.origin.uri(), call.path, call.what.starts_with("render_prompt"), place);
        let identity = entry.identity.clone();
        let Some(parsed) = self.check(entry, call.path, &[&note]) else {
            return self.ledger.incomplete(file.shown.as_ref(), call);
        };
        for wrong in tools.iter().flat_map(|tools| tools.wrong_in(parsed.shown.text())) {
            let mut warning = Diagnostic::warning(format!("preflight: {}", wrong.message))
                .with_code(PROMPT_TOOL)
                .with_label(wrong.span, "preflight")
                .with_note(note.clone());
            warning.help = wrong.help;
            self.report(Some(parsed.shown.clone()), warning);
        }
        self.includes(&Chained { identity, parsed: parsed.clone() }, &note, &loader);
        if call.bindings.is_some() {
            let free = parsed.template.free_names(&loader);
            let texts: Vec<Rc<Parsed>> = self.parsed.values().flatten().cloned().collect();
            for diagnostic in self.ledger.compare(file.shown.as_ref(), call, &free, &texts) {
                self.report(file.shown.clone(), diagnostic);
            }
        }
    }

    /// Checks the template of a call of `render_string`.
    fn text(&mut self, file: &File<'_>, call: &RenderCall<'_>) {
        let template = match Template::inline(call.path) {
            Ok(template) => template,
            Err(error) => {
                let found = Diagnostic::error(format!("preflight: the template has a syntax error: {error}"))
                    .with_code(TEMPLATE_SYNTAX)
                    .with_label(call.path_span, "preflight");
                return self.report(file.shown.clone(), found);
            }
        };
        let shown = Arc::new(SourceFile::new("", call.path.to_string()));
        for finding in unknown_filters(template.origin(), &shown) {
            // The program writes the text with escapes, so an offset in the template is not one in the program.
            let mut found = Diagnostic::error(format!("preflight: {}", finding.message))
                .with_code(TEMPLATE_FILTER)
                .with_label(call.path_span, "preflight");
            found.help = finding.help;
            self.report(file.shown.clone(), found);
        }
        let assets = Embedded(self.assets.0);
        let loader = FsLoader::new(self.system, &assets, file.dir);
        let free = template.free_names(&loader);
        let parsed = [Rc::new(Parsed { template, shown })];
        for diagnostic in self.ledger.compare(file.shown.as_ref(), call, &free, &parsed) {
            self.report(file.shown.clone(), diagnostic);
        }
    }

    /// Finds and reads the template of a call; also returns the directory that its relative path starts from.
    fn target(&mut self, file: &File<'_>, call: &RenderCall<'_>) -> Option<(Loaded, std::path::PathBuf)> {
        let assets = Embedded(self.assets.0);
        let at_call = |code, message: String| {
            Diagnostic::error(format!("preflight: {message}"))
                .with_code(code)
                .with_label(call.path_span, "preflight")
        };
        let path = call.path.as_str();
        if path.is_empty() {
            let message = format!("{} is empty: the path must be a non-empty string", call.what);
            self.report(file.shown.clone(), at_call(TEMPLATE_PATH, message));
            return None;
        }
        let mut places = Vec::new();
        let plain = !path.starts_with('@') && !Path::new(path).is_absolute();
        let roots = self.settings.bundle_root.as_deref().filter(|_| plain).into_iter().chain([file.dir]);
        for dir in roots {
            let loader = FsLoader::new(self.system, &assets, dir);
            let problem = match loader.resolve(path, Caller::Module) {
                Err(problem) => at_call(TEMPLATE_PATH, problem.to_string()),
                Ok(Some(place)) if !self.system.exists(&place) => {
                    places.push(place.display().to_string());
                    continue;
                }
                Ok(_) => match loader.load(path, Caller::Module) {
                    Ok(loaded) => return Some((loaded, dir.to_owned())),
                    Err(ErrorKind::UnknownAsset { .. }) => {
                        let asset = format!("std://{}", path.trim_start_matches("std/"));
                        let message = format!("{} '{path}' does not exist at {asset}", call.what);
                        at_call(TEMPLATE_MISSING, message)
                    }
                    Err(problem) => at_call(TEMPLATE_MISSING, problem.to_string()),
                },
            };
            self.report(file.shown.clone(), problem);
            return None;
        }
        let message = format!("{} '{path}' does not exist at {}", call.what, places.join(", "));
        let mut diagnostic = at_call(TEMPLATE_MISSING, message);
        diagnostic.help =
            similar_file(self.system, file.dir, path).map(|near| format!("did you mean `{near}`?"));
        self.report(file.shown.clone(), diagnostic);
        None
    }

    /// Parses a template, unless it was parsed before, and reports its errors.
    fn check(&mut self, loaded: Loaded, path: &str, notes: &[&str]) -> Option<Rc<Parsed>> {
        if let Some(known) = self.parsed.get(&loaded.identity) {
            return known.clone();
        }
        let shown = Arc::new(SourceFile::new(loaded.origin.uri(), loaded.text.clone()));
        let parsed = match Template::parse(loaded.origin.clone(), loaded.text) {
            Ok(template) => {
                self.filters(&loaded.origin, &shown);
                Some(Rc::new(Parsed { template, shown }))
            }
            Err(error) => {
                let message = format!("preflight: template '{path}' has a syntax error: {error}");
                let diagnostic = Diagnostic::error(message)
                    .with_code(TEMPLATE_SYNTAX)
                    .with_label(span(error.span()), "preflight");
                let diagnostic =
                    notes.iter().fold(diagnostic, |diagnostic, note| diagnostic.with_note(*note));
                self.report(Some(shown), diagnostic);
                None
            }
        };
        self.parsed.insert(loaded.identity, parsed.clone());
        parsed
    }

    /// Reports unknown filters.
    fn filters(&mut self, origin: &Origin, shown: &Arc<SourceFile>) {
        let off = matches!(origin, Origin::File(path) if self.settings.is_disabled(TEMPLATE_FILTER, path));
        if off || matches!(origin, Origin::Asset(_)) {
            return;
        }
        for finding in unknown_filters(origin, shown) {
            self.report(Some(shown.clone()), finding);
        }
    }

    /// Checks the direct and transitive includes of a template with literal paths.
    fn includes(&mut self, entry: &Chained, rendered_by: &str, loader: &FsLoader<'_>) {
        let mut walk = Includes {
            entry: entry.parsed.template.origin().clone(),
            rendered_by,
            loader,
            chain: vec![entry.clone()],
            visited: vec![entry.identity.clone()],
        };
        self.included(&mut walk);
    }

    /// Checks the includes of the last template of the chain.
    fn included(&mut self, walk: &mut Includes<'_>) {
        let Some(parent) = walk.chain.last().map(|last| last.parsed.clone()) else { return };
        for site in parent.template.includes() {
            let Some(path) = &site.path else { continue };
            let caller = Caller::Include { parent: parent.template.origin(), entry: &walk.entry };
            let problem = match walk.loader.load(path, caller) {
                Ok(loaded) => match self.follow(walk, loaded, &parent, &site) {
                    Ok(()) => continue,
                    Err(problem) => problem,
                },
                Err(problem) => problem,
            };
            let diagnostic = Diagnostic::error(format!("preflight: {problem}"))
                .with_code(TEMPLATE_INCLUDE)
                .with_label(span(site.span), "preflight")
                .with_note(walk.rendered_by);
            if !self.is_known(&parent.shown, &diagnostic) {
                self.report(Some(parent.shown.clone()), diagnostic);
            }
        }
    }

    /// Follows an include, unless it was followed before.
    ///
    /// # Errors
    /// Rendering the template certainly fails: it includes itself, or too many includes are nested.
    fn follow(
        &mut self,
        walk: &mut Includes<'_>,
        loaded: Loaded,
        parent: &Parsed,
        site: &IncludeSite,
    ) -> Result<(), ErrorKind> {
        let identity = loaded.identity.clone();
        if let Some(first) = walk.chain.iter().position(|member| member.identity == identity) {
            let names = walk.chain[first..].iter().map(|member| member.parsed.shown.name().to_owned());
            let chain: Vec<String> = names.chain([loaded.origin.uri()]).collect();
            return Err(ErrorKind::CircularInclude { chain: chain.join(" → ") });
        }
        if walk.chain.len() > MAX_INCLUDES {
            return Err(ErrorKind::IncludeTooDeep);
        }
        let path = site.path.as_deref().unwrap_or_default();
        let place = format!("{}:{}:{}", parent.shown.name(), site.line, site.col);
        let included_by = format!("included by {place}");
        self.bundle.add(loaded.origin.uri(), path, false, place);
        if let Some(parsed) = self.check(loaded, path, &[&included_by, walk.rendered_by])
            && !walk.visited.contains(&identity)
        {
            walk.visited.push(identity.clone());
            walk.chain.push(Chained { identity, parsed });
            self.included(walk);
            walk.chain.pop();
        }
        Ok(())
    }

    /// Returns whether a finding was reported before: several calls may render a template.
    fn is_known(&self, file: &SourceFile, diagnostic: &Diagnostic) -> bool {
        self.found.iter().any(|known| {
            known.file.as_ref().is_some_and(|other| other.name() == file.name())
                && known.diagnostic.span == diagnostic.span
                && known.diagnostic.message == diagnostic.message
        })
    }
}

fn span(range: std::ops::Range<usize>) -> Span {
    Span::new(range.start as u32, range.end as u32)
}

/// Returns the path of a file next to the missing one with a similar name.
fn similar_file(files: &dyn System, dir: &Path, path: &str) -> Option<String> {
    let wanted = dir.join(path);
    let folder = wanted.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = wanted.file_name()?.to_str()?;
    let entries = files.names(folder).ok()?;
    let names: Vec<String> =
        entries.iter().filter_map(|entry| Some(entry.file_name()?.to_str()?.to_owned())).collect();
    // A wrong extension is as likely as a misspelled name.
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let mut same_stem: Vec<&str> =
        names.iter().map(String::as_str).filter(|other| stem(other) == stem(name)).collect();
    same_stem.retain(|other| other.ends_with(".prompt"));
    same_stem.sort_unstable();
    let near = close(name, names.iter().map(String::as_str)).or(same_stem.first().copied())?;
    Some(match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{near}"),
        None => near.to_owned(),
    })
}

/// The filters in a template that do not exist.
fn unknown_filters(origin: &Origin, shown: &SourceFile) -> Vec<Diagnostic> {
    let findings = harn_template::lint(origin.clone(), shown.text(), &LintSettings::default());
    let unknown = findings.iter().filter(|finding| finding.rule == TEMPLATE_FILTER).map(|finding| {
        let mut diagnostic = lints::diagnostic(finding);
        let name = shown.text().get(finding.span.clone()).unwrap_or_default();
        let near = close(name, FILTERS.iter().map(|filter| filter.name));
        diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
        diagnostic
    });
    unknown.collect()
}
