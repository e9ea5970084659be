//! The program's side: decides at every statement whether to stop, and answers requests while the program is stopped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use harn_syntax::source_map::line_column;
use harn_value::{Data as Json, json};
use harn_vm::{Error, Observer, Scene};

use super::breakpoints::canonical;
use super::shared::{Mode, Shared, Step};
use super::values::{Holder, Holders};
use super::wire::Request;

/// Default number of stack frames in a response.
const LEVELS: usize = 200;

/// The source positions of a module.
struct File {
    path: PathBuf,
    /// The line of each statement, by its offset.
    lines: BTreeMap<u32, usize>,
    /// The offset of the first statement of each line.
    firsts: BTreeMap<usize, u32>,
}

/// Stops the program.
pub(super) struct Stops {
    shared: Arc<Shared>,
    files: RefCell<BTreeMap<u32, File>>,
    holders: RefCell<Holders>,
    /// The last error that stopped the program. It is reported once, not in every frame that it unwinds.
    told: RefCell<Option<String>>,
    begun: Cell<bool>,
}

impl Stops {
    pub(super) fn new(shared: Arc<Shared>) -> Stops {
        let (files, holders, told) = Default::default();
        Stops { shared, files, holders, told, begun: Cell::new(false) }
    }

    fn learn(&self, scene: &Scene<'_>) {
        let mut files = self.files.borrow_mut();
        for (module, span) in scene.vm().statements() {
            let Some((name, text)) = scene.vm().source(module) else { continue };
            let file = files.entry(module).or_insert_with(|| File {
                path: canonical(&name),
                lines: BTreeMap::new(),
                firsts: BTreeMap::new(),
            });
            let line = line_column(&text, span.start).0;
            file.lines.insert(span.start, line);
            // Statements are sorted by offset.
            file.firsts.entry(line).or_insert(span.start);
        }
    }

    /// Returns why the program stops at a statement: the protocol's reason and a description.
    fn reason(&self, scene: &Scene<'_>) -> Option<(&'static str, String)> {
        let (module, span) = scene.place()?;
        let files = self.files.borrow();
        let file = files.get(&module)?;
        let line = *file.lines.get(&span.start)?;
        let is_first = file.firsts.get(&line) == Some(&span.start);
        let mut state = self.shared.state();
        if state.detached {
            return None;
        }
        match &state.mode {
            Mode::Pause => return Some(("pause", "paused".to_owned())),
            Mode::Entry => return Some(("entry", "stopped at the first statement".to_owned())),
            Mode::Step { step, task, depth, line: begun } if scene.task() == *task => {
                let now = scene.depth();
                let stops = match step {
                    Step::Out => now < *depth,
                    Step::Over => now < *depth || now == *depth && (line != *begun || is_first),
                    Step::In => now != *depth || line != *begun || is_first,
                };
                if stops {
                    return Some(("step", "stopped after a step".to_owned()));
                }
            }
            Mode::Free | Mode::Step { .. } => {}
        }
        if state.breakpoints.has_functions()
            && scene.begins()
            && let Some(name) = scene.function()
            && state.breakpoints.stops_in(name)
        {
            return Some(("function breakpoint", format!("stopped in {name}")));
        }
        if !is_first || !state.breakpoints.is_watched(&file.path) {
            return None;
        }
        let mut messages = Vec::new();
        let mut stop = None;
        for known in state.breakpoints.at(&file.path, line) {
            if let Some(condition) = &known.condition {
                match scene.evaluate(condition, 0) {
                    Ok(value) if value.truthy() => {}
                    Ok(_) => continue,
                    Err(why) => {
                        let text =
                            format!("the condition `{condition}` of line {line} has no value: {why}\n");
                        messages.push(("stderr", text));
                        stop = Some(("breakpoint", "stopped: the condition has no value".to_owned()));
                        continue;
                    }
                }
            }
            known.reached += 1;
            if known.hits.is_some_and(|hits| !hits.take(known.reached)) {
                continue;
            }
            match &known.message {
                Some(message) => messages.push(("console", filled(message, scene))),
                None => stop = Some(("breakpoint", format!("stopped at breakpoint {}", known.id))),
            }
        }
        drop(state);
        for (category, text) in messages {
            self.shared.output(category, &text, Json::Null);
        }
        stop
    }

    /// Stops the program until the client continues it.
    fn stop(&self, scene: &Scene<'_>, reason: &str, description: &str, text: Option<&str>) {
        let task = scene.task();
        let thread = {
            let mut state = self.shared.state();
            state.mode = Mode::Free;
            state.stopped = true;
            state.thread(&task)
        };
        let mut body = json!({
            "reason": reason, "description": description, "threadId": thread, "allThreadsStopped": true,
        });
        if let Some(text) = text {
            body["text"] = text.into();
        }
        self.shared.wire.event("stopped", body);
        while let Some(request) = self.shared.next() {
            if let Some(mode) = self.onwards(scene, &request) {
                self.holders.borrow_mut().clear();
                let mut state = self.shared.state();
                state.mode = mode;
                state.stopped = false;
                drop(state);
                self.shared.wire.answer(&request, Ok(json!({"allThreadsContinued": true})));
                return;
            }
            let answer = self.look(scene, &request, text);
            self.shared.wire.answer(&request, answer);
        }
        self.shared.state().stopped = false;
    }

    /// Returns how a request continues the program, or `None` if it does not.
    fn onwards(&self, scene: &Scene<'_>, request: &Request) -> Option<Mode> {
        let step = match request.command.as_str() {
            "continue" => return Some(Mode::Free),
            "next" => Step::Over,
            "stepIn" => Step::In,
            "stepOut" => Step::Out,
            _ => return None,
        };
        let line = scene.place().and_then(|(module, span)| {
            self.files.borrow().get(&module).and_then(|file| file.lines.get(&span.start).copied())
        });
        Some(Mode::Step { step, task: scene.task(), depth: scene.depth(), line: line.unwrap_or(0) })
    }

    /// Answers requests that do not change the state of the program.
    fn look(&self, scene: &Scene<'_>, request: &Request, error: Option<&str>) -> Result<Json, String> {
        match request.command.as_str() {
            "stackTrace" => Ok(self.stack(scene, request)),
            "scopes" => Ok(self.scopes(scene, request.number("frameId").unwrap_or(1).saturating_sub(1))),
            "variables" => {
                let number = request.number("variablesReference").unwrap_or(0);
                let start = request.number("start").unwrap_or(0);
                self.holders.borrow_mut().parts(number, start, request.number("count"))
            }
            "evaluate" => {
                let level = request.number("frameId").unwrap_or(1).saturating_sub(1);
                let value = scene.evaluate(request.text("expression"), level)?;
                Ok(self.holders.borrow_mut().shown(&value))
            }
            "exceptionInfo" => match error {
                Some(text) => Ok(json!({
                    "exceptionId": text.split(": ").next(), "description": text, "breakMode": "always",
                })),
                None => Err("the program did not stop for an error".to_owned()),
            },
            other => Err(format!("`{other}` is not known here")),
        }
    }

    fn stack(&self, scene: &Scene<'_>, request: &Request) -> Json {
        let start = request.number("startFrame").unwrap_or(0);
        let count = request.number("levels").filter(|n| *n > 0).unwrap_or(LEVELS);
        let levels = scene.levels();
        let files = self.files.borrow();
        let frames: Vec<Json> = levels
            .iter()
            .enumerate()
            .skip(start)
            .take(count)
            .map(|(at, level)| {
                let text = scene.vm().source(level.module).map(|(_, text)| text).unwrap_or_default();
                let (line, column) = line_column(&text, level.span.start);
                let (end_line, end_column) = line_column(&text, level.span.end);
                let mut frame = json!({
                    "id": at + 1, "name": level.function, "line": line, "column": column,
                    "endLine": end_line, "endColumn": end_column,
                });
                match files.get(&level.module) {
                    Some(file) => {
                        let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
                        frame["source"] = json!({"name": name, "path": file.path.display().to_string()});
                    }
                    // Modules embedded in the VM have no file.
                    None => {
                        frame["source"] = json!({"name": &*level.file, "presentationHint": "deemphasize"});
                        frame["presentationHint"] = "subtle".into();
                    }
                }
                frame
            })
            .collect();
        json!({"stackFrames": frames, "totalFrames": levels.len()})
    }

    fn scopes(&self, scene: &Scene<'_>, level: usize) -> Json {
        let mut holders = self.holders.borrow_mut();
        let scopes = [
            ("Locals", "locals", scene.locals(level)),
            ("Captured", "locals", scene.captured(level)),
            ("Module", "globals", scene.globals(level)),
        ];
        let shown =
            scopes.into_iter().filter(|(name, _, variables)| *name == "Locals" || !variables.is_empty());
        let scopes: Vec<Json> = shown
            .map(|(name, hint, variables)| {
                json!({
                    "name": name, "presentationHint": hint, "namedVariables": variables.len(), "expensive": false,
                    "variablesReference": holders.add(Holder::Scope(variables)),
                })
            })
            .collect();
        json!({"scopes": scopes})
    }
}

/// Evaluates the `{expressions}` in a message.
fn filled(message: &str, scene: &Scene<'_>) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((expression, behind)) = behind.split_once('}') else { break };
        out.push_str(before);
        match scene.evaluate(expression, 0) {
            Ok(value) => out.push_str(&value.to_string()),
            Err(why) => out.push_str(&format!("{{{expression}: {why}}}")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out.push('\n');
    out
}

impl Observer for Stops {
    fn statement(&self, scene: &Scene<'_>) {
        if !self.begun.replace(true) {
            self.learn(scene);
        }
        self.told.take();
        if let Some((reason, description)) = self.reason(scene) {
            self.stop(scene, reason, &description, None);
        }
    }

    // A step out of a function stops in its caller.
    fn keeps_calls(&self) -> bool {
        true
    }

    fn thrown(&self, scene: &Scene<'_>, error: &Error) {
        let (filters, detached) = {
            let state = self.shared.state();
            (state.filters, state.detached || state.ending)
        };
        if detached || !error.is_catchable() || scene.depth() == 0 {
            return;
        }
        if !(filters.all || filters.uncaught && !scene.is_caught(error)) {
            return;
        }
        let text = error.uncaught_text();
        if self.told.borrow().as_ref() == Some(&text) {
            return;
        }
        *self.told.borrow_mut() = Some(text.clone());
        if !self.begun.replace(true) {
            self.learn(scene);
        }
        self.stop(scene, "exception", "stopped for an error", Some(&text));
    }
}
