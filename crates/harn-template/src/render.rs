//! The renderer: executes the instructions of a template and of its includes.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

use harn_value::{Tag, Value, steps};
use rustc_hash::FxHashMap;

use crate::cache::TemplateCache;
use crate::error::{ErrorKind, Fail, TemplateError};
use crate::expr::{Expr, FilterCall, Name};
use crate::frame::{Frame, LoopState, Scope};
use crate::loader::{AssetLoader, Caller, Loader};
use crate::program::{Include, Op, Otherwise, Site, Test};
use crate::record::{Branch, Recorder, Rendered, SpanKind, collapse};
use crate::template::Template;

/// Maximum depth of nested includes.
pub const MAX_INCLUDES: usize = 32;

/// Number of loop iterations between two checks of the limits.
const CHECK_EVERY: u32 = 1024;

/// Number of iterations that an include is equivalent to.
const INCLUDE_COSTS: u32 = 16;

/// The context of a render.
#[derive(Clone, Copy)]
pub struct RenderContext<'a> {
    /// Reads included templates.
    pub loader: &'a dyn Loader,
    /// The `llm` binding; `nil` outside an LLM context. A binding `llm` of the caller takes precedence.
    pub llm: &'a Value,
    /// Caches parsed templates between renders.
    pub cache: Option<&'a TemplateCache>,
    /// Maximum size of the output in bytes.
    pub max_output: usize,
    /// Polled regularly; `true` aborts the render with an error.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
    /// Converts a schema of the host language to JSON Schema, for the `schema` argument of sections; without it
    /// schemas are written unchanged.
    pub json_schema: Option<&'a dyn Fn(&Value) -> Value>,
    /// Called for each unbound name that is written, with the template that writes it.
    pub unbound: Option<&'a OnUnbound<'a>>,
}

/// Callback for a name that a template writes and that is not bound.
pub type OnUnbound<'a> = dyn Fn(&Template, &Unbound<'_>) + 'a;

/// An unbound name that a template writes.
#[derive(Clone, Copy, Debug)]
pub struct Unbound<'a> {
    /// The name.
    pub name: &'a str,
    /// Offset of its directive in the source of the template.
    pub offset: usize,
    /// Whether the directive is copied to the output; otherwise nothing is written.
    pub stays: bool,
}

impl Default for RenderContext<'_> {
    /// Returns a context without files, embedded templates and `llm`, with at most 256 MiB of output.
    fn default() -> Self {
        const NIL: &Value = &Value::NIL;
        RenderContext {
            loader: &AssetLoader(()),
            llm: NIL,
            cache: None,
            max_output: 256 << 20,
            interrupted: None,
            json_schema: None,
            unbound: None,
        }
    }
}

impl Template {
    /// Renders with `bindings`: a dict, a struct instance, or `nil` for none.
    ///
    /// # Errors
    /// Returns the error of the failing directive, in the file that contains it. There is no partial output.
    pub fn render(&self, bindings: &Value, context: &RenderContext<'_>) -> Result<String, TemplateError> {
        self.run(bindings, context, Recorder::default(), false).map(|rendered| rendered.text)
    }

    /// Renders and records the branches, for the `template.render` event.
    ///
    /// # Errors
    /// Like [`Template::render`].
    pub fn render_with_trace(
        &self,
        bindings: &Value,
        context: &RenderContext<'_>,
    ) -> Result<Rendered, TemplateError> {
        self.run(bindings, context, Recorder::default(), true)
    }

    /// Renders and records branches and spans.
    ///
    /// # Errors
    /// Like [`Template::render`].
    pub fn render_with_provenance(
        &self,
        bindings: &Value,
        context: &RenderContext<'_>,
    ) -> Result<Rendered, TemplateError> {
        let recorder = Recorder { want_spans: true, ..Recorder::default() };
        self.run(bindings, context, recorder, true)
    }

    fn run(
        &self,
        bindings: &Value,
        context: &RenderContext<'_>,
        recorder: Recorder,
        record: bool,
    ) -> Result<Rendered, TemplateError> {
        if !matches!(bindings.tag(), Tag::Dict | Tag::Struct | Tag::Nil | Tag::Absent) {
            let ty = bindings.type_name().to_owned();
            return Err(TemplateError::bare(ErrorKind::BindingsType { ty }));
        }
        let mut frame = Frame::new(self, Scope::Entry { bindings, llm: context.llm }, context.max_output);
        let mut renderer = Renderer {
            context,
            entry: self,
            entry_identity: OnceCell::new(),
            out: String::with_capacity(self.source.len() + self.source.len() / 4),
            active: Vec::new(),
            included: FxHashMap::default(),
            recorder,
            until_check: CHECK_EVERY,
        };
        if record {
            renderer.template::<true>(&mut frame)?;
        } else {
            renderer.template::<false>(&mut frame)?;
        }
        if renderer.out.len() > context.max_output {
            return Err(TemplateError::bare(too_large(context.max_output)));
        }
        let Recorder { branches, spans, .. } = renderer.recorder;
        Ok(Rendered { text: renderer.out, branches, spans })
    }
}

fn too_large(limit: usize) -> ErrorKind {
    ErrorKind::OutputTooLarge { limit: limit.to_string() }
}

/// An included template with its unique identity.
struct Included {
    template: Rc<Template>,
    identity: String,
}

struct Renderer<'c> {
    context: &'c RenderContext<'c>,
    entry: &'c Template,
    /// The identity of the entry template, set by the first include; the inner value is `None` for an inline
    /// template.
    entry_identity: OnceCell<Option<String>>,
    out: String,
    /// The included templates that are being rendered, outermost first.
    active: Vec<Rc<Included>>,
    /// The templates included so far, by including template and path as written: a partial in a loop is resolved
    /// and read once per render.
    included: FxHashMap<usize, FxHashMap<Box<str>, Rc<Included>>>,
    recorder: Recorder,
    until_check: u32,
}

impl Renderer<'_> {
    /// Reports the unbound names that are the reason for the empty output of an expression.
    fn wrote_nothing(&self, frame: &Frame<'_>, expr: &Expr, offset: u32) {
        let Some(unbound) = self.context.unbound else { return };
        let has_default =
            |call: &FilterCall| call.filter.as_ref().is_ok_and(|filter| filter.name == "default");
        if matches!(expr, Expr::Pipeline(parts) if parts.1.iter().any(has_default)) {
            return;
        }
        expr.walk(&mut |expr| {
            if let Expr::Path(path) = expr
                && let Name::Free(free) = path.root
                && frame.free[free as usize].is_none()
            {
                let name = &frame.template.program.free[free as usize];
                if &**name != "llm" {
                    unbound(frame.template, &Unbound { name, offset: offset as usize, stays: false });
                }
            }
        });
    }

    /// Executes a template. `RECORD` enables the recorder; the plain version has no overhead.
    fn template<const RECORD: bool>(&mut self, frame: &mut Frame<'_>) -> Result<(), TemplateError> {
        let template = frame.template;
        let program = &template.program;
        // Start of the body of every open section, and the number of spans at that time.
        let mut sections: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while let Some(op) = program.ops.get(at) {
            at += 1;
            let start = self.out.len();
            match *op {
                Op::Text { start: from, end } => {
                    self.out.push_str(template.text(from, end));
                    if RECORD {
                        self.recorder.span(SpanKind::Text, (start, self.out.len()), (0, 0), &template.uri);
                    }
                }
                Op::Write(index) => {
                    let write = &program.writes[index as usize];
                    frame
                        .write(&write.expr, &mut self.out)
                        .map_err(|fail| failed(template, write.site, fail))?;
                    if self.out.len() == start {
                        self.wrote_nothing(frame, &write.expr, write.site.start);
                    }
                    if RECORD {
                        self.wrote(SpanKind::Expr, start, template, write.site.start);
                    }
                }
                Op::WriteLocal { slot, at } => {
                    crate::form::write_value(&frame.locals[slot as usize], &mut self.out);
                    if RECORD {
                        self.wrote(SpanKind::LegacyBare, start, template, at);
                    }
                }
                Op::Bare { free, start: from, end } => {
                    let value = &frame.free[free as usize];
                    match value {
                        Some(value) => crate::form::write_value(value, &mut self.out),
                        None => {
                            self.out.push_str("{{");
                            self.out.push_str(template.text(from, end));
                            self.out.push_str("}}");
                            if let Some(unbound) = self.context.unbound {
                                let offset = template.source[..from as usize].rfind("{{").unwrap_or_default();
                                unbound(
                                    template,
                                    &Unbound { name: &program.free[free as usize], offset, stays: true },
                                );
                            }
                        }
                    }
                    if RECORD && value.is_some() {
                        self.wrote(SpanKind::LegacyBare, start, template, from);
                    } else if RECORD {
                        self.recorder.span(
                            SpanKind::LegacyBare,
                            (start, self.out.len()),
                            (0, 0),
                            &template.uri,
                        );
                    }
                }
                Op::Test { test: index, otherwise } => {
                    let test = &program.tests[index as usize];
                    let holds = frame.test(&test.expr).map_err(|fail| failed(template, test.site, fail))?;
                    if !holds {
                        at = otherwise as usize;
                    }
                    if RECORD {
                        self.tested(template, test, holds);
                    }
                }
                Op::EndBranch { target } => {
                    at = target as usize;
                    if RECORD && let Some((begun, place)) = self.recorder.open_ifs.pop() {
                        self.recorder.span(SpanKind::If, (begun, start), place, &template.uri);
                    }
                }
                Op::For { info, empty } => {
                    let spec = &program.loops[info as usize];
                    let state = frame.eval(&spec.iterable).and_then(|value| LoopState::start(&value, info));
                    match state.map_err(|fail| failed(template, spec.site, fail))? {
                        Some(mut state) => {
                            state.round_start = start;
                            frame.locals[spec.value as usize] = state.value();
                            if let Some(key) = spec.key {
                                frame.locals[key as usize] = state.key();
                            }
                            frame.loops.push(state);
                        }
                        None => at = empty as usize,
                    }
                }
                Op::Next { body, exit } => {
                    let Some(state) = frame.loops.last_mut() else { continue };
                    let spec = &program.loops[state.info as usize];
                    if RECORD {
                        let place = template.position(spec.site.start as usize);
                        let round = (state.round_start, start);
                        self.recorder.span(SpanKind::ForIteration, round, place, &template.uri);
                    }
                    if state.advance() {
                        state.round_start = start;
                        frame.locals[spec.value as usize] = state.value();
                        if let Some(key) = spec.key {
                            frame.locals[key as usize] = state.key();
                        }
                        at = body as usize;
                        steps::step();
                        self.until_check = self.until_check.saturating_sub(1);
                        if self.until_check == 0 {
                            self.check_limits().map_err(|fail| failed(template, spec.site, fail))?;
                        }
                    } else {
                        frame.loops.pop();
                        at = exit as usize;
                    }
                }
                Op::Include(index) => self.include::<RECORD>(frame, &program.includes[index as usize])?,
                Op::SectionStart(_) => sections.push((start, self.recorder.spans.len())),
                Op::SectionEnd(index) => {
                    let section = &program.sections[index as usize];
                    let argument = section.argument.as_ref().map(|expr| frame.eval(expr)).transpose();
                    let mut argument = argument.map_err(|fail| failed(template, section.site, fail))?;
                    if let (Some("schema"), Some(written)) = (section.spec.argument, self.context.json_schema)
                    {
                        argument = argument.map(|schema| Cow::Owned(written(&schema)));
                    }
                    let (begun, first_span) = sections.pop().unwrap_or_default();
                    let llm = frame.get(section.llm);
                    let closed = section.spec.close(&mut self.out, begun, llm.as_ref(), argument.as_deref());
                    if RECORD {
                        let place = template.position(section.site.start as usize);
                        self.recorder.shift(first_span, begun, closed.stripped, closed.body);
                        self.recorder.span(SpanKind::Section, (begun, self.out.len()), place, &template.uri);
                        self.recorder.branches.push(Branch {
                            kind: "section",
                            template_uri: Rc::clone(&template.uri),
                            line: place.0,
                            col: place.1,
                            opened: place,
                            branch_id: closed.label.to_owned(),
                            branch_label: Some(section.spec.name.to_owned()),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the limits of the render.
    #[cold]
    fn check_limits(&mut self) -> Result<(), Fail> {
        self.until_check = CHECK_EVERY;
        if self.out.len() > self.context.max_output {
            return Err(Box::new(too_large(self.context.max_output)));
        }
        if self.context.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(Box::new(ErrorKind::Interrupted));
        }
        Ok(())
    }

    /// Records the output of an expression or a bound name.
    #[cold]
    fn wrote(&mut self, kind: SpanKind, start: usize, template: &Template, at: u32) {
        if self.recorder.want_spans {
            let place = if kind == SpanKind::Expr { template.position(at as usize) } else { (0, 0) };
            self.recorder.span(kind, (start, self.out.len()), place, &template.uri);
            self.recorder.bound_value(&self.out[start..]);
        }
    }

    /// Records the outcome of a condition.
    #[cold]
    fn tested(&mut self, template: &Template, test: &Test, holds: bool) {
        let (at, id, label) = match (holds, test.otherwise) {
            (true, _) => {
                let id = if test.branch == 0 { "if".to_owned() } else { format!("elif:{}", test.branch) };
                (test.site.start, id, Some(collapse(template.text(test.condition.0, test.condition.1))))
            }
            (false, Otherwise::Elif) => return,
            (false, Otherwise::Else(at)) => (at, "else".to_owned(), None),
            (false, Otherwise::Nothing) => (test.opened_at, "none".to_owned(), None),
        };
        let (line, col) = template.position(at as usize);
        let opened = template.position(test.opened_at as usize);
        let template_uri = Rc::clone(&template.uri);
        self.recorder.branches.push(Branch {
            kind: "if",
            template_uri,
            line,
            col,
            opened,
            branch_id: id,
            branch_label: label,
        });
        let here = self.out.len();
        if !holds && test.otherwise == Otherwise::Nothing {
            self.recorder.span(SpanKind::If, (here, here), opened, &template.uri);
        } else {
            self.recorder.open_ifs.push((here, opened));
        }
    }

    fn include<const RECORD: bool>(
        &mut self,
        frame: &Frame<'_>,
        include: &Include,
    ) -> Result<(), TemplateError> {
        let template = frame.template;
        let fail = |kind| failed(template, include.site, kind);
        let path = frame.eval(&include.path).map_err(fail)?;
        let Some(path) = path.as_str() else {
            let ty = path.type_name().to_owned();
            return Err(fail(Box::new(ErrorKind::IncludePathType { ty })));
        };
        let mut with = Vec::with_capacity(include.with.len());
        for (key, value) in &include.with {
            with.push((key.clone(), frame.eval(value).map_err(fail)?.into_owned()));
        }
        let included = self.load(template, path).map_err(|error| error.unwrap_or_else(fail))?;
        self.check_cycle(&included).map_err(fail)?;
        steps::steps(INCLUDE_COSTS as usize);
        self.until_check = self.until_check.saturating_sub(INCLUDE_COSTS);
        if self.until_check == 0 {
            self.check_limits().map_err(fail)?;
        }
        let start = self.out.len();
        let first_span = self.recorder.spans.len();
        self.active.push(Rc::clone(&included));
        let mut inner = Frame::new(
            &included.template,
            Scope::Included { with, parent: frame, site: include },
            frame.limit,
        );
        self.template::<RECORD>(&mut inner)?;
        self.active.pop();
        if self.out.len() > self.context.max_output {
            return Err(fail(Box::new(too_large(self.context.max_output))));
        }
        if RECORD {
            let place = template.position(include.site.start as usize);
            self.recorder.span(SpanKind::Include, (start, self.out.len()), place, &template.uri);
            if self.recorder.want_spans {
                self.recorder.adopt(first_span);
            }
        }
        Ok(())
    }

    /// Returns the template that `path` refers to in an include of `parent`.
    fn load(&mut self, parent: &Template, path: &str) -> Result<Rc<Included>, Loaded> {
        // Including templates stay alive until the render ends, so their address is a unique key.
        let key = std::ptr::from_ref(parent).addr();
        if let Some(included) = self.included.get(&key).and_then(|paths| paths.get(path)) {
            return Ok(Rc::clone(included));
        }
        let caller = Caller::Include { parent: &parent.origin, entry: &self.entry.origin };
        let loaded = self.context.loader.load(path, caller).map_err(|kind| Loaded::Here(Box::new(kind)))?;
        let template = match self.context.cache {
            Some(cache) => cache.get_or_parse(loaded.origin, loaded.text),
            None => Template::parse(loaded.origin, loaded.text).map(Rc::new),
        };
        let template = template.map_err(Loaded::There)?;
        let included = Rc::new(Included { template, identity: loaded.identity });
        self.included.entry(key).or_default().insert(path.into(), Rc::clone(&included));
        Ok(included)
    }

    /// Rejects circular includes and too deep include chains.
    fn check_cycle(&self, next: &Included) -> Result<(), Fail> {
        let entry = self.entry_identity.get_or_init(|| self.context.loader.identity(&self.entry.origin));
        let identities = entry.as_deref().into_iter().chain(self.active.iter().map(|i| i.identity.as_str()));
        let shown = || {
            let entry = entry.is_some().then_some(&*self.entry.uri);
            entry.into_iter().chain(self.active.iter().map(|i| &*i.template.uri))
        };
        if let Some(first) = identities.into_iter().position(|identity| identity == next.identity) {
            let members: Vec<&str> = shown().skip(first).chain([&*next.template.uri]).collect();
            return Err(Box::new(ErrorKind::CircularInclude { chain: members.join(" → ") }));
        }
        if self.active.len() == MAX_INCLUDES {
            return Err(Box::new(ErrorKind::IncludeTooDeep));
        }
        Ok(())
    }
}

/// The location of a failure to load a template: the include itself, or the other file.
enum Loaded {
    Here(Fail),
    There(TemplateError),
}

impl Loaded {
    fn unwrap_or_else(self, place: impl FnOnce(Fail) -> TemplateError) -> TemplateError {
        match self {
            Loaded::Here(fail) => place(fail),
            Loaded::There(error) => error,
        }
    }
}

/// Creates the error of a directive.
#[cold]
#[expect(clippy::boxed_local, reason = "failures travel boxed, and this is where they arrive")]
fn failed(template: &Template, site: Site, fail: Fail) -> TemplateError {
    let place = template.position(site.start as usize);
    TemplateError::at(Rc::clone(&template.uri), place, site.start as usize..site.end as usize, *fail)
}
