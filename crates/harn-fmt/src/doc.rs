//! The document that is printed, with possible line breaks; and the printer that chooses the breaks.
//!
//! A group is printed on one line if it fits, else its lines break. A comment at the end of a line is printed when
//! the line ends, wherever it was written, so that it never hides code.

use unicode_width::UnicodeWidthStr;

/// A piece of the output.
#[derive(Debug)]
pub(crate) struct Doc<'s> {
    kind: Kind<'s>,
    /// It contains a mandatory line break.
    hard: bool,
}

#[derive(Debug)]
enum Kind<'s> {
    /// Text of the source or of the language; with line feeds only in strings and comments.
    Text(&'s str),
    Owned(String),
    Concat(Vec<Doc<'s>>),
    Indent(Box<Doc<'s>>),
    Group(Box<Doc<'s>>, bool),
    List(Box<List<'s>>),
    /// A space or a line break.
    Line,
    /// Empty, or a line break.
    Soft,
    Hard,
    /// The line break before a closing bracket.
    Close,
    /// A line break and an empty line.
    Blank,
    /// An empty line that separates a declaration with its comments.
    Apart,
    /// Printed only if the group breaks.
    IfBroken(&'static str),
    /// A comment that is printed at the end of the line.
    Suffix(&'s str),
}

/// Items between brackets: on one line, or the last one spread over several lines, or one item per line.
#[derive(Debug)]
pub(crate) struct List<'s> {
    pub(crate) open: &'static str,
    pub(crate) items: Vec<Doc<'s>>,
    pub(crate) close: &'static str,
    /// Comments with their own lines after the last item.
    pub(crate) tail: Vec<Doc<'s>>,
    /// The last item may begin on the line of the opening bracket and end on the line of the closing one.
    pub(crate) hugs: bool,
    /// A comment between the items or after the last one forces one item per line.
    pub(crate) broken: bool,
}

impl<'s> Doc<'s> {
    pub(crate) fn nil() -> Self {
        Doc { kind: Kind::Text(""), hard: false }
    }

    pub(crate) fn text(text: &'s str) -> Self {
        Doc { kind: Kind::Text(text), hard: false }
    }

    pub(crate) fn owned(text: String) -> Self {
        Doc { kind: Kind::Owned(text), hard: false }
    }

    pub(crate) fn concat(parts: Vec<Doc<'s>>) -> Self {
        let hard = parts.iter().any(|part| part.hard);
        Doc { kind: Kind::Concat(parts), hard }
    }

    pub(crate) fn indent(inner: Doc<'s>) -> Self {
        let hard = inner.hard;
        Doc { kind: Kind::Indent(Box::new(inner)), hard }
    }

    /// `broken`: its lines break even if it fits.
    pub(crate) fn group(inner: Doc<'s>, broken: bool) -> Self {
        let hard = inner.hard || broken;
        Doc { kind: Kind::Group(Box::new(inner), broken), hard }
    }

    pub(crate) fn list(list: List<'s>) -> Self {
        let hard = list.broken || !list.tail.is_empty() || list.items.iter().any(|item| item.hard);
        Doc { kind: Kind::List(Box::new(list)), hard }
    }

    pub(crate) const fn line() -> Self {
        Doc { kind: Kind::Line, hard: false }
    }

    pub(crate) const fn soft() -> Self {
        Doc { kind: Kind::Soft, hard: false }
    }

    pub(crate) const fn hard() -> Self {
        Doc { kind: Kind::Hard, hard: true }
    }

    pub(crate) const fn close() -> Self {
        Doc { kind: Kind::Close, hard: true }
    }

    pub(crate) const fn apart() -> Self {
        Doc { kind: Kind::Apart, hard: true }
    }

    pub(crate) const fn blank() -> Self {
        Doc { kind: Kind::Blank, hard: true }
    }

    pub(crate) const fn if_broken(text: &'static str) -> Self {
        Doc { kind: Kind::IfBroken(text), hard: false }
    }

    pub(crate) const fn suffix(comment: &'s str) -> Self {
        Doc { kind: Kind::Suffix(comment), hard: false }
    }

    pub(crate) const fn is_hard(&self) -> bool {
        self.hard
    }

    /// Whether it is empty.
    pub(crate) fn is_nil(&self) -> bool {
        matches!(&self.kind, Kind::Text("")) || matches!(&self.kind, Kind::Concat(parts) if parts.is_empty())
    }

    /// Returns whether it contains text of several lines.
    fn is_tall(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.contains('\n'),
            Kind::Owned(text) => text.contains('\n'),
            _ => false,
        }
    }
}

/// Whether the lines of the enclosing group break.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Flat,
    Broken,
    /// Only while measuring: the outermost group breaks.
    Open,
}

/// Prints documents in sequence, within a width in columns.
pub(crate) struct Printer {
    out: String,
    width: usize,
    column: usize,
    /// The indentation of the line that has not started yet.
    waiting: Option<usize>,
    comments: Vec<String>,
    /// See [`Printer::is_settled`].
    settled: bool,
}

type Command<'d, 's> = (usize, Mode, Piece<'d, 's>);

/// A part that is not printed yet.
#[derive(Clone, Copy)]
enum Piece<'d, 's> {
    Doc(&'d Doc<'s>),
    Text(&'static str),
    /// The line break before a closing bracket.
    Close,
    Newline,
}

/// Returns the width of a string in columns. Fast for ASCII, which is most common.
pub(crate) fn columns(text: &str) -> usize {
    match text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        true => text.len(),
        false => text.width(),
    }
}

/// The indentation of one level.
const STEP: usize = 2;

impl Printer {
    pub(crate) fn new(width: usize) -> Printer {
        Printer { out: String::new(), width, column: 0, waiting: None, comments: Vec::new(), settled: true }
    }

    /// Prints a document. Whether its last line fits is decided without the following document.
    pub(crate) fn print(&mut self, doc: &Doc<'_>) {
        let mut stack: Vec<Command<'_, '_>> = vec![(0, Mode::Broken, Piece::Doc(doc))];
        while let Some((indent, mode, piece)) = stack.pop() {
            match piece {
                Piece::Text(text) => self.text(text),
                Piece::Newline => self.newline(indent),
                Piece::Close => self.line_end(indent, indent + STEP),
                Piece::Doc(doc) => self.doc(doc, indent, mode, &mut stack),
            }
        }
    }

    /// Returns whether no line was broken because of its length, and no comment was moved to its own line. Lines that
    /// are broken in the source are broken again, so a second pass would change nothing.
    pub(crate) const fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the output.
    pub(crate) fn finish(mut self) -> String {
        self.newline(0);
        let end = self.out.trim_end_matches('\n').len();
        self.out.truncate(end);
        if end > 0 {
            self.out.push('\n');
        }
        self.out
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(indent) = self.waiting.take() {
            self.out.extend(std::iter::repeat_n(' ', indent));
            self.column = indent;
        }
        self.out.push_str(text);
        match text.rfind('\n') {
            Some(last) => self.column = columns(&text[last + 1..]),
            None => self.column += columns(text),
        }
    }

    fn newline(&mut self, indent: usize) {
        self.line_end(indent, indent);
    }

    /// Ends a line. If several comments waited, those that can stand together come first; the others get their own lines.
    fn line_end(&mut self, indent: usize, of_comments: usize) {
        // After a backslash a comment is not allowed.
        if !self.comments.is_empty() && !self.out.ends_with('\\') {
            let mut comments = std::mem::take(&mut self.comments);
            let is_short = |comment: &String| comment.starts_with("/*") && !comment.contains('\n');
            comments.sort_by_key(|comment| !is_short(comment));
            let short = comments.iter().filter(|comment| is_short(comment)).count();
            for (at, comment) in comments.into_iter().enumerate() {
                if at > short {
                    // A second pass may treat it as a comment of the following code.
                    self.settled = false;
                    self.out.push('\n');
                    self.waiting = Some(of_comments);
                } else if at > 0 || self.waiting.is_none() {
                    self.out.push(' ');
                }
                self.text(&comment);
            }
        }
        self.out.push('\n');
        self.waiting = Some(indent);
        self.column = indent;
    }

    fn doc<'d, 's>(&mut self, doc: &'d Doc<'s>, indent: usize, mode: Mode, stack: &mut Vec<Command<'d, 's>>) {
        match &doc.kind {
            Kind::Text(text) => self.text(text),
            Kind::Owned(text) => self.text(text),
            Kind::Concat(parts) => {
                stack.extend(parts.iter().rev().map(|part| (indent, mode, Piece::Doc(part))));
            }
            Kind::Indent(inner) => stack.push((indent + STEP, mode, Piece::Doc(inner))),
            Kind::Group(inner, broken) => {
                let flat = !broken
                    && (mode == Mode::Flat || self.fits(&[(indent, Mode::Flat, Piece::Doc(inner))], stack));
                let mode = if flat { Mode::Flat } else { Mode::Broken };
                stack.push((indent, mode, Piece::Doc(inner)));
            }
            Kind::List(list) => self.list(list, doc.hard, indent, mode, stack),
            Kind::Line if mode == Mode::Flat => self.text(" "),
            Kind::Soft if mode == Mode::Flat => {}
            Kind::Line | Kind::Soft | Kind::Hard => self.newline(indent),
            Kind::Close => self.line_end(indent, indent + STEP),
            Kind::Blank => {
                self.newline(indent);
                self.newline(indent);
            }
            Kind::Apart => {
                let others = self.comments.split_off(self.comments.len().min(1));
                self.newline(indent);
                self.newline(indent);
                if !others.is_empty() {
                    self.comments = others;
                    self.newline(indent);
                    self.newline(indent);
                }
            }
            Kind::IfBroken(text) => {
                if mode != Mode::Flat {
                    self.text(text);
                }
            }
            Kind::Suffix(comment) => self.comments.push((*comment).to_owned()),
        }
    }

    fn list<'d, 's>(
        &mut self,
        list: &'d List<'s>,
        hard: bool,
        indent: usize,
        mode: Mode,
        stack: &mut Vec<Command<'d, 's>>,
    ) {
        let Some((last, heads)) = list.items.split_last().filter(|_| list.tail.is_empty()) else {
            self.rows(list, indent, mode, stack);
            return;
        };
        let row = |last_mode: Mode| {
            let mut row: Vec<Command<'d, 's>> = vec![(indent, Mode::Flat, Piece::Text(list.close))];
            row.push((indent, last_mode, Piece::Doc(last)));
            for head in heads.iter().rev() {
                row.push((indent, Mode::Flat, Piece::Text(", ")));
                row.push((indent, Mode::Flat, Piece::Doc(head)));
            }
            row.push((indent, Mode::Flat, Piece::Text(list.open)));
            row
        };
        let hugs = list.hugs && !list.broken && !heads.iter().any(Doc::is_hard);
        let tall = hugs && heads.iter().any(Doc::is_tall);
        if !hard && !tall {
            let flat = row(Mode::Flat);
            if mode == Mode::Flat || self.fits(&flat, stack) {
                stack.extend(flat);
                return;
            }
        }
        if hugs && self.fits(&row(Mode::Open), stack) {
            stack.extend(row(Mode::Broken));
            return;
        }
        self.rows(list, indent, mode, stack);
    }

    /// Lays out a list with one item per line.
    fn rows<'d, 's>(
        &mut self,
        list: &'d List<'s>,
        indent: usize,
        mode: Mode,
        stack: &mut Vec<Command<'d, 's>>,
    ) {
        stack.push((indent, Mode::Flat, Piece::Text(list.close)));
        if !list.items.is_empty() || !list.tail.is_empty() {
            stack.push((indent, mode, Piece::Close));
        }
        for comment in list.tail.iter().rev() {
            stack.push((indent + STEP, Mode::Broken, Piece::Doc(comment)));
            stack.push((indent + STEP, Mode::Broken, Piece::Newline));
        }
        for item in list.items.iter().rev() {
            stack.push((indent + STEP, Mode::Flat, Piece::Text(",")));
            stack.push((indent + STEP, Mode::Broken, Piece::Doc(item)));
            stack.push((indent + STEP, Mode::Broken, Piece::Newline));
        }
        stack.push((indent, Mode::Flat, Piece::Text(list.open)));
    }

    /// Whether `pieces` (the last one first) and what follows fit up to the next line break.
    fn fits<'d, 's>(&mut self, pieces: &[Command<'d, 's>], behind: &[Command<'d, 's>]) -> bool {
        let fits = self.measure(pieces, behind);
        self.settled &= fits;
        fits
    }

    fn measure<'d, 's>(&self, pieces: &[Command<'d, 's>], behind: &[Command<'d, 's>]) -> bool {
        let start = self.waiting.unwrap_or(self.column);
        let Some(mut left) = self.width.checked_sub(start) else { return false };
        let mut stack: Vec<Command<'d, 's>> = pieces.to_vec();
        let mut behind = behind.iter().rev();
        loop {
            let Some((indent, mode, piece)) = stack.pop().or_else(|| behind.next().copied()) else {
                return true;
            };
            let doc = match piece {
                Piece::Newline | Piece::Close => return true,
                Piece::Text(text) => {
                    match left.checked_sub(columns(text)) {
                        Some(rest) => left = rest,
                        None => return false,
                    }
                    continue;
                }
                Piece::Doc(doc) => doc,
            };
            let text = match &doc.kind {
                Kind::Text(text) => text,
                Kind::Owned(text) => text.as_str(),
                Kind::Concat(parts) => {
                    stack.extend(parts.iter().rev().map(|part| (indent, mode, Piece::Doc(part))));
                    ""
                }
                Kind::Indent(inner) => {
                    stack.push((indent, mode, Piece::Doc(inner)));
                    ""
                }
                Kind::Group(inner, broken) => {
                    let mode = match mode {
                        Mode::Open => Mode::Open,
                        _ if *broken => Mode::Broken,
                        _ => Mode::Flat,
                    };
                    stack.push((indent, mode, Piece::Doc(inner)));
                    ""
                }
                Kind::List(list) if !list.items.is_empty() && (mode == Mode::Open || list.broken) => {
                    return columns(list.open) <= left;
                }
                Kind::List(list) => {
                    stack.push((indent, Mode::Flat, Piece::Text(list.close)));
                    for (at, item) in list.items.iter().enumerate().rev() {
                        stack.push((indent, Mode::Flat, Piece::Doc(item)));
                        if at > 0 {
                            stack.push((indent, Mode::Flat, Piece::Text(", ")));
                        }
                    }
                    list.open
                }
                Kind::Line if mode == Mode::Flat => " ",
                Kind::Soft if mode == Mode::Flat => "",
                Kind::Line | Kind::Soft | Kind::Hard | Kind::Close | Kind::Blank | Kind::Apart => {
                    return true;
                }
                Kind::IfBroken(text) if mode != Mode::Flat => text,
                Kind::IfBroken(_) | Kind::Suffix(_) => "",
            };
            let (text, ends) = match text.split_once('\n') {
                Some((first, _)) => (first, true),
                None => (text, false),
            };
            match left.checked_sub(columns(text)) {
                Some(rest) => left = rest,
                None => return false,
            }
            if ends {
                return true;
            }
        }
    }
}
