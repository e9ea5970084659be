//! `harn viz FILE`: draws the pipelines and functions of a program as a Mermaid flowchart.

use std::fmt::Write;
use std::path::Path;

use harn_syntax::ast::*;
use harn_system::{Real, System};

use crate::args::VizArgs;
use crate::program;

/// Maximum number of characters in a node.
const MAX_LABEL: usize = 60;

/// Draws a program. Returns 1 if it cannot be read.
pub(crate) fn viz(args: &VizArgs) -> u8 {
    let text = match program::source_text(&args.file) {
        Ok(text) => text,
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            return 1;
        }
    };
    let chart = match chart(&text) {
        Ok(chart) => chart,
        Err(errors) => {
            let name = args.file.display().to_string();
            for error in errors {
                eprintln!(
                    "error: {}: {}",
                    harn_syntax::printable_name(&name),
                    harn_syntax::printable(&error)
                );
            }
            return 1;
        }
    };
    let Some(path) = &args.output else {
        crate::out::write(&chart);
        return 0;
    };
    match write(path, &chart) {
        Ok(()) => 0,
        Err(error) => {
            let name = path.display().to_string();
            eprintln!("error: cannot write {}: {error}", harn_syntax::printable_name(&name));
            1
        }
    }
}

fn write(path: &Path, chart: &str) -> std::io::Result<()> {
    Real::new().replace(path, chart.as_bytes())
}

/// Returns the flowchart of a source text.
///
/// # Errors
/// The syntax errors.
fn chart(text: &str) -> Result<String, Vec<String>> {
    let parsed = harn_syntax::parse(text);
    if !parsed.errors.is_empty() {
        return Err(parsed.errors.iter().map(|error| error.canonical(text)).collect());
    }
    let mut chart = Chart { text, out: String::from("flowchart TD\n"), count: 0 };
    let mut loose = Vec::new();
    for item in &parsed.program.items {
        match &item.kind {
            StmtKind::Decl(decl) => chart.decl(decl),
            StmtKind::Import(_) => {}
            _ => loose.push(item),
        }
    }
    if !loose.is_empty() {
        chart.part("program", "the program", loose.into_iter());
    }
    Ok(chart.out)
}

/// An open edge: its start node and its label.
type Way = (usize, &'static str);

struct Chart<'t> {
    text: &'t str,
    out: String,
    count: usize,
}

impl<'t> Chart<'t> {
    fn decl(&mut self, decl: &'t Decl) {
        let (title, func) = match &decl.kind {
            DeclKind::Pipeline(d) => {
                let base = d.extends.as_ref().map_or(String::new(), |base| format!(" extends {}", base.name));
                (format!("pipeline {}{base}", d.name.name), &d.func)
            }
            DeclKind::Fn(d) => (format!("fn {}", d.name.name), &d.func),
            DeclKind::Tool(d) => (format!("tool {}", d.name.name), &d.func),
            DeclKind::Impl(d) => {
                for method in &d.methods {
                    let title = format!("fn {}.{}", d.name.name, method.decl.name.name);
                    self.part(&title, &title, method.decl.func.body.stmts.iter());
                }
                return;
            }
            _ => return,
        };
        self.part(&title, &title, func.body.stmts.iter());
    }

    /// Draws a subgraph with the statements of a function.
    fn part(&mut self, title: &str, start: &str, stmts: impl Iterator<Item = &'t Stmt>) {
        self.count += 1;
        let _ = writeln!(self.out, "  subgraph part{}[\"{}\"]", self.count, label(title));
        let first = self.node("([", start, "])");
        let mut ways = vec![(first, "")];
        for stmt in stmts {
            ways = self.stmt(stmt, ways);
        }
        if !ways.is_empty() {
            let last = self.node("([", "end", "])");
            self.join(&ways, last);
        }
        self.out.push_str("  end\n");
    }

    fn node(&mut self, open: &str, text: &str, close: &str) -> usize {
        self.count += 1;
        let _ = writeln!(self.out, "    n{}{open}\"{}\"{close}", self.count, label(text));
        self.count
    }

    fn join(&mut self, ways: &[Way], to: usize) {
        for (from, text) in ways {
            let _ = if text.is_empty() {
                writeln!(self.out, "    n{from} --> n{to}")
            } else {
                writeln!(self.out, "    n{from} -->|{text}| n{to}")
            };
        }
    }

    fn step(&mut self, text: &str, ways: Vec<Way>) -> Vec<Way> {
        let node = self.node("[", text, "]");
        self.join(&ways, node);
        vec![(node, "")]
    }

    fn block(&mut self, block: &'t Block, mut ways: Vec<Way>) -> Vec<Way> {
        for stmt in &block.stmts {
            // Code after a `return` is unreachable.
            if ways.is_empty() {
                break;
            }
            ways = self.stmt(stmt, ways);
        }
        ways
    }

    fn stmt(&mut self, stmt: &'t Stmt, ways: Vec<Way>) -> Vec<Way> {
        let text = stmt.span.slice(self.text);
        match &stmt.kind {
            StmtKind::Decl(decl) => {
                self.step(&format!("{} {}", decl.kind.keyword(), decl.kind.name().name), ways)
            }
            StmtKind::While { cond, body } => {
                let head = self.node("{", &format!("while {}", cond.span.slice(self.text)), "}");
                self.join(&ways, head);
                let back = self.block(body, vec![(head, "yes")]);
                self.join(&back, head);
                vec![(head, "no")]
            }
            StmtKind::For { pattern, iter, body } => {
                let text = format!("for {} in {}", pattern.span.slice(self.text), iter.span.slice(self.text));
                let head = self.node("{", &text, "}");
                self.join(&ways, head);
                let back = self.block(body, vec![(head, "next")]);
                self.join(&back, head);
                vec![(head, "done")]
            }
            StmtKind::Guard { cond, body } => {
                let head = self.node("{", cond.span.slice(self.text), "}");
                self.join(&ways, head);
                let mut out = self.block(body, vec![(head, "no")]);
                out.push((head, "yes"));
                out
            }
            StmtKind::Return(_) | StmtKind::Throw(_) => {
                let node = self.node("([", text, "])");
                self.join(&ways, node);
                Vec::new()
            }
            StmtKind::Break | StmtKind::Continue => {
                self.step(text, ways);
                Vec::new()
            }
            StmtKind::Defer(body) | StmtKind::Mutex(body) => {
                let word = if matches!(stmt.kind, StmtKind::Defer(_)) { "defer" } else { "mutex" };
                let ways = self.step(word, ways);
                self.block(body, ways)
            }
            StmtKind::Expr(value) | StmtKind::Let { value, .. } | StmtKind::Assign { value, .. } => {
                self.value(value, text, ways)
            }
            _ => self.step(text, ways),
        }
    }

    /// Draws an expression as a branch or as a plain step.
    fn value(&mut self, value: &'t Expr, text: &str, ways: Vec<Way>) -> Vec<Way> {
        match &value.kind {
            ExprKind::If { arms, else_body } => {
                let mut out = Vec::new();
                let mut ways = ways;
                for arm in arms {
                    let head = self.node("{", arm.cond.span.slice(self.text), "}");
                    self.join(&ways, head);
                    out.extend(self.block(&arm.body, vec![(head, "yes")]));
                    ways = vec![(head, "no")];
                }
                out.extend(match else_body {
                    Some(body) => self.block(body, ways),
                    None => ways,
                });
                out
            }
            ExprKind::Match { value, arms } => {
                let head = self.node("{", &format!("match {}", value.span.slice(self.text)), "}");
                self.join(&ways, head);
                let mut out = Vec::new();
                for arm in arms {
                    let end = arm.body.span.start.max(arm.span.start);
                    let pattern = self.text.get(arm.span.start as usize..end as usize).unwrap_or("");
                    let case = self.step(pattern.trim_end().trim_end_matches("->"), vec![(head, "")]);
                    out.extend(self.block(&arm.body, case));
                }
                out
            }
            ExprKind::Try { body, catch, finally } => {
                let head = self.step("try", ways);
                let mut out = self.block(body, head.clone());
                if let Some(catch) = catch {
                    let from: Vec<Way> = head.iter().map(|(node, _)| (*node, "error")).collect();
                    let caught = self.step("catch", from);
                    out.extend(self.block(&catch.body, caught));
                }
                match finally {
                    Some(body) => {
                        let ways = self.step("finally", out);
                        self.block(body, ways)
                    }
                    None => out,
                }
            }
            ExprKind::Retry { count, body } => {
                let head = self.step(&format!("retry {}", count.span.slice(self.text)), ways);
                self.block(body, head)
            }
            ExprKind::Deadline { limit, body } => {
                let head = self.step(&format!("deadline {}", limit.span.slice(self.text)), ways);
                self.block(body, head)
            }
            _ => self.step(text, ways),
        }
    }
}

/// Returns the label of a node: the first line, without Mermaid syntax.
fn label(text: &str) -> String {
    let line = text.lines().next().unwrap_or("").trim();
    let more = line.chars().count() > MAX_LABEL || text.trim().lines().count() > 1;
    let mut out = String::new();
    for c in line.chars().take(MAX_LABEL) {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '`' => out.push_str("#96;"),
            '\\' => out.push_str("#92;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    if more {
        out.push_str(" ...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_flow_becomes_arrows() {
        let text = "pipeline main(task) {\n  let n = f(1)\n  if n > 1 {\n    println(\"big\")\n  } else {\n    return nil\n  }\n  for x in [1] { g(x) }\n}\nfn f(a) { return a }\n";
        let expected = "flowchart TD\n  subgraph part1[\"pipeline main\"]\n    n2([\"pipeline main\"])\n    n3[\"let n = f(1)\"]\n    n2 --> n3\n    n4{\"n #gt; 1\"}\n    n3 --> n4\n    n5[\"println(#quot;big#quot;)\"]\n    n4 -->|yes| n5\n    n6([\"return nil\"])\n    n4 -->|no| n6\n    n7{\"for x in [1]\"}\n    n5 --> n7\n    n8[\"g(x)\"]\n    n7 -->|next| n8\n    n8 --> n7\n    n9([\"end\"])\n    n7 -->|done| n9\n  end\n  subgraph part10[\"fn f\"]\n    n11([\"fn f\"])\n    n12([\"return a\"])\n    n11 --> n12\n  end\n";
        assert_eq!(chart(text).expect("a chart"), expected);
    }

    #[test]
    fn every_way_leads_to_a_node() {
        let text = "fn f(v) {\n  guard v else { throw \"no\" }\n  match v { 1 -> { a() } _ -> { b() } }\n  let r = try { c() } catch (e) { d(e) } finally { g() }\n  while v { break }\n  retry 3 { h() }\n  deadline 5s { i() }\n  defer { j() }\n}\nprintln(1)\nimpl P { fn m(self) { return 1 } }\n";
        let out = chart(text).expect("a chart");
        for line in out.lines().filter(|line| line.contains("-->")) {
            for node in line
                .split(['-', '>', '|', ' '])
                .filter(|part| part.starts_with('n') && part[1..].parse::<u32>().is_ok())
            {
                let is_there = |line: &str| {
                    line.trim_start().strip_prefix(node).is_some_and(|rest| rest.starts_with(['[', '(', '{']))
                };
                assert!(out.lines().any(is_there), "{node} of {line} is missing");
            }
        }
        assert!(out.contains("-->|error|") && out.contains("the program") && out.contains("fn P.m"));
    }

    #[test]
    fn errors_are_told() {
        assert!(chart("let = 1").is_err());
        assert_eq!(label("a\nb"), "a ...");
        assert_eq!(label("\"x\" < 1"), "#quot;x#quot; #lt; 1");
    }
}
