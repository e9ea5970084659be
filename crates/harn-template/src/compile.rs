//! Compiles a source to instructions in one pass: it reads pieces from the scanner, tracks blocks on an explicit
//! stack (so that nesting does not use the Rust stack), and patches jumps when a block closes.

use harn_value::Str;
use rustc_hash::FxHashMap;

use crate::directive::{self, ForHead, IncludeHead, SectionHead};
use crate::error::{ErrorKind, Fail};
use crate::expr::parser::{MAX_NESTING, Parser, Resolver, Within};
use crate::expr::{Name, is_identifier, reserved_literal};
use crate::program::{Include, Loop, MAX_TEMPLATE_BYTES, Op, Otherwise, Program, Section, Site, Test, Write};
use crate::scan::{Piece, Scanner};
use crate::sections::SectionSpec;

/// Compiles `source`.
pub(crate) fn compile(source: &str) -> Result<Program, (Site, Fail)> {
    if source.len() > MAX_TEMPLATE_BYTES {
        let kind =
            ErrorKind::TooLarge { bytes: source.len().to_string(), limit: MAX_TEMPLATE_BYTES.to_string() };
        return Err((Site { start: 0, end: 0 }, Box::new(kind)));
    }
    let mut compiler =
        Compiler { source, program: Program::default(), blocks: Vec::new(), names: Names::default() };
    let mut scanner = Scanner::new(source);
    while let Some(piece) = scanner.next()? {
        match piece {
            Piece::Text { start, end } | Piece::Raw { start, end } => compiler.text(start, end),
            Piece::Directive { site, body, inner } => {
                compiler.directive(site, body, inner).map_err(|fail| (site, fail))?;
            }
        }
    }
    compiler.finish()
}

/// The names of the template: loop variables by slot, all others as free names. Strings are shared.
#[derive(Default)]
struct Names<'s> {
    shared: FxHashMap<&'s str, Str>,
    free: FxHashMap<&'s str, u32>,
    free_list: Vec<Str>,
    /// The open loops, outermost first: key and value names with their slots.
    layers: Vec<Layer<'s>>,
    locals: usize,
}

struct Layer<'s> {
    key: Option<(&'s str, u16)>,
    value: (&'s str, u16),
}

impl<'s> Names<'s> {
    fn open(&mut self, head: &ForHead<'s>) -> (Option<u16>, u16) {
        let first = self.layers.iter().map(|l| 1 + u16::from(l.key.is_some())).sum::<u16>();
        let value = (head.value, first);
        let key = head.key.map(|key| (key, first + 1));
        self.layers.push(Layer { key, value });
        self.locals = self.locals.max(usize::from(first) + 1 + usize::from(key.is_some()));
        (key.map(|(_, slot)| slot), first)
    }

    /// Returns the visible loop variables, innermost first, without shadowed ones.
    fn visible(&mut self) -> Box<[(Str, Name)]> {
        let mut seen: Vec<(&'s str, Name)> = Vec::new();
        for (depth, layer) in self.layers.iter().enumerate().rev() {
            let variables = [Some(layer.value), layer.key].into_iter().flatten();
            let all = std::iter::once(("loop", Name::Loop(depth as u16)))
                .chain(variables.map(|(name, slot)| (name, Name::Local(slot))));
            for (name, place) in all {
                if !seen.iter().any(|(other, _)| *other == name) {
                    seen.push((name, place));
                }
            }
        }
        seen.into_iter().map(|(name, place)| (self.intern(name), place)).collect()
    }
}

impl<'s> Resolver<'s> for Names<'s> {
    fn resolve(&mut self, name: &'s str) -> Name {
        for (depth, layer) in self.layers.iter().enumerate().rev() {
            if name == "loop" {
                return Name::Loop(depth as u16);
            }
            if name == layer.value.0 {
                return Name::Local(layer.value.1);
            }
            if let Some((key, slot)) = layer.key
                && name == key
            {
                return Name::Local(slot);
            }
        }
        if let Some(index) = self.free.get(name) {
            return Name::Free(*index);
        }
        let index = self.free_list.len() as u32;
        let text = self.intern(name);
        self.free_list.push(text);
        self.free.insert(name, index);
        Name::Free(index)
    }

    fn intern(&mut self, name: &'s str) -> Str {
        self.shared.entry(name).or_insert_with(|| Str::new(name)).clone()
    }
}

/// An open block.
enum Block {
    If {
        site: Site,
        /// The `else` directive, if it has been found.
        else_site: Option<Site>,
        /// The test instruction whose failure target is not patched yet.
        test: Option<usize>,
        /// End instructions of finished branches; their targets are set to the end of the block.
        ends: Vec<usize>,
        branches: u32,
    },
    For {
        site: Site,
        start: usize,
        /// The `Next` instruction, if `else` has closed the body.
        next: Option<usize>,
    },
    Section {
        site: Site,
        spec: &'static SectionSpec,
        index: u32,
    },
}

struct Compiler<'s> {
    source: &'s str,
    program: Program,
    blocks: Vec<Block>,
    names: Names<'s>,
}

fn unexpected(word: &str) -> Fail {
    Box::new(ErrorKind::UnexpectedBlock { word: word.to_owned() })
}

impl<'s> Compiler<'s> {
    fn text(&mut self, start: usize, end: usize) {
        if start < end {
            self.program.ops.push(Op::Text { start: start as u32, end: end as u32 });
        }
    }

    fn here(&self) -> u32 {
        self.program.ops.len() as u32
    }

    fn open(&mut self, block: Block) -> Result<(), Fail> {
        if self.blocks.len() == MAX_NESTING {
            return Err(Box::new(ErrorKind::NestingTooDeep));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn directive(&mut self, site: Site, body: (usize, usize), inner: (usize, usize)) -> Result<(), Fail> {
        let text = &self.source[body.0..body.1];
        let word = text.split(char::is_whitespace).next().unwrap_or_default();
        let rest = (body.0 + word.len(), body.1);
        match word {
            "if" => {
                let block = Block::If { site, else_site: None, test: None, ends: Vec::new(), branches: 0 };
                self.open(block)?;
                self.test(site, site, 0, rest)
            }
            "elif" => self.elif(site, rest),
            "else" => self.otherwise(site, rest),
            "end" => self.end(),
            "for" => self.open_for(site, rest),
            "include" => self.include(site, rest),
            "section" => self.open_section(site, rest),
            "endsection" => self.end_section(rest),
            _ if is_identifier(text) && !reserved_literal(text) => {
                self.bare(site, text, inner);
                Ok(())
            }
            _ => {
                let mut parser =
                    Parser::new(self.source, body.0, body.1, Within::Directive, &mut self.names)?;
                let expr = parser.expression()?;
                parser.finish()?;
                self.write(site, expr);
                Ok(())
            }
        }
    }

    fn write(&mut self, site: Site, expr: crate::expr::Expr) {
        self.program.ops.push(Op::Write(self.program.writes.len() as u32));
        self.program.writes.push(Write { expr, site });
    }

    fn bare(&mut self, site: Site, name: &'s str, inner: (usize, usize)) {
        let op = match self.names.resolve(name) {
            Name::Local(slot) => Op::WriteLocal { slot, at: site.start },
            Name::Free(free) => Op::Bare { free, start: inner.0 as u32, end: inner.1 as u32 },
            root @ Name::Loop(_) => {
                let path = crate::expr::Path { root, steps: Box::default() };
                return self.write(site, crate::expr::Expr::Path(path));
            }
        };
        self.program.ops.push(op);
    }

    /// Compiles the condition of an `if` or `elif`; the innermost block is its `if`.
    fn test(&mut self, site: Site, opened: Site, branch: u32, range: (usize, usize)) -> Result<(), Fail> {
        let mut parser = Parser::new(self.source, range.0, range.1, Within::Directive, &mut self.names)?;
        let expr = parser.expression()?;
        parser.finish()?;
        let at = self.program.ops.len();
        self.program.ops.push(Op::Test { test: self.program.tests.len() as u32, otherwise: 0 });
        self.program.tests.push(Test {
            expr,
            site,
            condition: (range.0 as u32, range.1 as u32),
            branch,
            opened_at: opened.start,
            otherwise: Otherwise::Nothing,
        });
        if let Some(Block::If { test, .. }) = self.blocks.last_mut() {
            *test = Some(at);
        }
        Ok(())
    }

    /// Sets the failure target of a test to the next instruction.
    fn patch_test(&mut self, test: Option<usize>, meaning: Otherwise) {
        let here = self.here();
        if let Some(Op::Test { test, otherwise }) = test.map(|at| &mut self.program.ops[at]) {
            *otherwise = here;
            self.program.tests[*test as usize].otherwise = meaning;
        }
    }

    /// Ends the current branch; its jump is patched when the block ends.
    fn end_branch(&mut self) -> usize {
        self.program.ops.push(Op::EndBranch { target: 0 });
        self.program.ops.len() - 1
    }

    fn elif(&mut self, site: Site, range: (usize, usize)) -> Result<(), Fail> {
        let Some(Block::If { site: opened, else_site: None, test, branches, .. }) = self.blocks.last_mut()
        else {
            return Err(unexpected("elif"));
        };
        *branches += 1;
        let (opened, test, branch) = (*opened, test.take(), *branches);
        let end = self.end_branch();
        if let Some(Block::If { ends, .. }) = self.blocks.last_mut() {
            ends.push(end);
        }
        self.patch_test(test, Otherwise::Elif);
        self.test(site, opened, branch, range)
    }

    fn otherwise(&mut self, site: Site, rest: (usize, usize)) -> Result<(), Fail> {
        let closes = match self.blocks.last() {
            Some(Block::If { else_site: None, test, .. }) => Some(*test),
            Some(Block::For { next: None, .. }) => None,
            _ => return Err(unexpected("else")),
        };
        if rest.0 < rest.1 {
            return Err(Box::new(ErrorKind::TokensAfterElse));
        }
        if let Some(test) = closes {
            let end = self.end_branch();
            self.patch_test(test, Otherwise::Else(site.start));
            if let Some(Block::If { else_site, test, ends, .. }) = self.blocks.last_mut() {
                (*else_site, *test) = (Some(site), None);
                ends.push(end);
            }
        } else {
            let at = self.close_body();
            if let Some(Block::For { next, .. }) = self.blocks.last_mut() {
                *next = Some(at);
            }
        }
        Ok(())
    }

    /// Ends the body of the innermost `for`: the `else` body or the exit follows.
    fn close_body(&mut self) -> usize {
        let next = self.program.ops.len();
        self.program.ops.push(Op::Next { body: 0, exit: next as u32 + 1 });
        if let Some(Block::For { start, .. }) = self.blocks.last() {
            let start = *start;
            if let Op::Next { body, .. } = &mut self.program.ops[next] {
                *body = start as u32 + 1;
            }
            if let Op::For { empty, .. } = &mut self.program.ops[start] {
                *empty = next as u32 + 1;
            }
        }
        self.names.layers.pop();
        next
    }

    fn end(&mut self) -> Result<(), Fail> {
        match self.blocks.last() {
            Some(Block::If { .. }) => {
                let end = self.end_branch();
                if let Some(Block::If { test, mut ends, .. }) = self.blocks.pop() {
                    self.patch_test(test, Otherwise::Nothing);
                    ends.push(end);
                    let here = self.here();
                    for end in ends {
                        self.program.ops[end] = Op::EndBranch { target: here };
                    }
                }
                Ok(())
            }
            Some(Block::For { next, .. }) => {
                match *next {
                    None => {
                        self.close_body();
                    }
                    Some(next) => {
                        let here = self.here();
                        if let Op::Next { exit, .. } = &mut self.program.ops[next] {
                            *exit = here;
                        }
                    }
                }
                self.blocks.pop();
                Ok(())
            }
            _ => Err(unexpected("end")),
        }
    }

    fn open_for(&mut self, site: Site, range: (usize, usize)) -> Result<(), Fail> {
        let head = directive::for_head(self.source, range)?;
        let mut parser =
            Parser::new(self.source, head.iterable, range.1, Within::Directive, &mut self.names)?;
        let iterable = parser.expression()?;
        parser.finish()?;
        self.open(Block::For { site, start: self.program.ops.len(), next: None })?;
        let (key, value) = self.names.open(&head);
        self.program.ops.push(Op::For { info: self.program.loops.len() as u32, empty: 0 });
        self.program.loops.push(Loop { iterable, site, key, value });
        Ok(())
    }

    fn include(&mut self, site: Site, range: (usize, usize)) -> Result<(), Fail> {
        let IncludeHead { path, with } = directive::include_head(self.source, range, &mut self.names)?;
        let scope = self.names.visible();
        self.program.ops.push(Op::Include(self.program.includes.len() as u32));
        self.program.includes.push(Include { path, with, scope, site });
        Ok(())
    }

    fn open_section(&mut self, site: Site, range: (usize, usize)) -> Result<(), Fail> {
        let SectionHead { spec, argument, others } =
            directive::section_head(self.source, range, &mut self.names)?;
        let index = self.program.sections.len() as u32;
        self.open(Block::Section { site, spec, index })?;
        let llm = self.names.resolve("llm");
        self.program.ops.push(Op::SectionStart(index));
        self.program.sections.push(Section { spec, argument, others, llm, site });
        Ok(())
    }

    fn end_section(&mut self, range: (usize, usize)) -> Result<(), Fail> {
        let Some(Block::Section { spec, index, .. }) = self.blocks.last() else {
            return Err(unexpected("endsection"));
        };
        let index = *index;
        if let Some(got) = directive::end_section_name(self.source, range)?
            && got != spec.name
        {
            return Err(Box::new(ErrorKind::MismatchedSectionEnd {
                expected: spec.name.to_owned(),
                got: got.into_owned(),
            }));
        }
        self.blocks.pop();
        self.program.ops.push(Op::SectionEnd(index));
        Ok(())
    }

    fn finish(mut self) -> Result<Program, (Site, Fail)> {
        let missing_end = |word: &str| Box::new(ErrorKind::MissingEnd { word: word.to_owned() });
        match self.blocks.pop() {
            None => {
                self.program.free = self.names.free_list;
                self.program.locals = self.names.locals;
                Ok(self.program)
            }
            Some(Block::If { else_site: Some(site), .. }) => Err((site, missing_end("else"))),
            Some(Block::If { site, .. }) => Err((site, missing_end("if"))),
            Some(Block::For { site, next: Some(_), .. }) => Err((site, missing_end("else"))),
            Some(Block::For { site, .. }) => Err((site, missing_end("for"))),
            Some(Block::Section { site, .. }) => Err((site, Box::new(ErrorKind::MissingEndSection))),
        }
    }
}
