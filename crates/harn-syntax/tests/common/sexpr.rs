//! A compact form of trees for tests: `(+ a (* b c))`.

use harn_syntax::ast::*;

pub(crate) fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Nil => "nil".into(),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Int(i) => i.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Duration(ms) => format!("{ms}ms"),
        ExprKind::Str(s) => format!("{s:?}"),
        ExprKind::Interp(parts) => {
            let parts = parts.iter().map(|part| match part {
                StrPart::Text(text) => format!("{text:?}"),
                StrPart::Expr(e) => expr(e),
            });
            form("str", parts)
        }
        ExprKind::Name(name) => name.to_string(),
        ExprKind::Paren(e) => format!("(paren {})", expr(e)),
        ExprKind::List(items) => form("list", items.iter().map(arg)),
        ExprKind::Dict(items) => form("dict", items.iter().map(item)),
        ExprKind::StructLit { name, items } => {
            form("struct", std::iter::once(name.name.to_string()).chain(items.iter().map(item)))
        }
        ExprKind::Closure { func, is_fn } => {
            format!("({} {})", if *is_fn { "fn" } else { "closure" }, function(func))
        }
        ExprKind::If { arms, else_body } => {
            let arms = arms.iter().map(|arm| format!("{} {}", expr(&arm.cond), block(&arm.body)));
            form("if", arms.chain(else_body.iter().map(|body| format!("else {}", block(body)))))
        }
        ExprKind::Match { value, arms } => {
            form("match", std::iter::once(expr(value)).chain(arms.iter().map(arm)))
        }
        ExprKind::Try { body, catch, finally } => {
            let mut out = vec![block(body)];
            if let Some(catch) = catch {
                let name = catch.name.as_ref().map(|name| format!(" {}", name.name)).unwrap_or_default();
                let ty = catch.ty.as_ref().map(|t| format!(": {}", ty(t))).unwrap_or_default();
                out.push(format!("catch{name}{ty} {}", block(&catch.body)));
            }
            out.extend(finally.iter().map(|body| format!("finally {}", block(body))));
            form("try", out.into_iter())
        }
        ExprKind::TryStar(e) => format!("(try* {})", expr(e)),
        ExprKind::Retry { count, body } => format!("(retry {} {})", expr(count), block(body)),
        ExprKind::Deadline { limit, body } => format!("(deadline {} {})", expr(limit), block(body)),
        ExprKind::Spawn(func) => format!("(spawn {})", block(&func.body)),
        ExprKind::Parallel(p) => format!(
            "(parallel {:?} {}{} {}{})",
            p.kind,
            expr(&p.source),
            p.max_concurrent.as_ref().map(|max| format!(" max {}", expr(max))).unwrap_or_default(),
            function(&p.func),
            if p.as_stream { " stream" } else { "" }
        ),
        ExprKind::Select(s) => {
            let cases = s
                .cases
                .iter()
                .map(|case| format!("{} from {} {}", case.name.name, expr(&case.channel), block(&case.body)));
            let timeout =
                s.timeout.iter().map(|(limit, body)| format!("timeout {} {}", expr(limit), block(body)));
            let default = s.default.iter().map(|body| format!("default {}", block(body)));
            form("select", cases.chain(timeout).chain(default))
        }
        ExprKind::Unary { op, operand, .. } => {
            format!("({} {})", if *op == UnaryOp::Not { "!" } else { "-" }, expr(operand))
        }
        ExprKind::Binary { op, lhs, rhs, .. } => format!("({} {} {})", op.symbol(), expr(lhs), expr(rhs)),
        ExprKind::Logic { op, lhs, rhs, .. } => format!("({} {} {})", op.symbol(), expr(lhs), expr(rhs)),
        ExprKind::Ternary { cond, then, other } => {
            format!("(? {} {} {})", expr(cond), expr(then), expr(other))
        }
        ExprKind::Range { start, end, exclusive, .. } => {
            format!("({} {} {})", if *exclusive { "to<" } else { "to" }, expr(start), expr(end))
        }
        ExprKind::Pipe { value, func, .. } => format!("(|> {} {})", expr(value), expr(func)),
        ExprKind::Call { callee, type_args, args } => {
            let types = type_args.iter().map(|t| format!("<{}>", ty(t)));
            form("call", std::iter::once(expr(callee)).chain(types).chain(args.iter().map(arg)))
        }
        ExprKind::MethodCall { object, name, args, optional } => {
            let dot = if *optional { "?." } else { "." };
            form(&format!("{dot}{}()", name.name), std::iter::once(expr(object)).chain(args.iter().map(arg)))
        }
        ExprKind::Member { object, name, optional } => {
            format!("({}{} {})", if *optional { "?." } else { "." }, name.name, expr(object))
        }
        ExprKind::Index { object, index, optional, .. } => {
            format!("({} {} {})", if *optional { "?[]" } else { "[]" }, expr(object), expr(index))
        }
        ExprKind::Slice { object, start, end, .. } => {
            let bound = |bound: &Option<Box<Expr>>| bound.as_ref().map_or("_".into(), |e| expr(e));
            format!("([:] {} {} {})", expr(object), bound(start), bound(end))
        }
        ExprKind::Propagate { operand, .. } => format!("(propagate {})", expr(operand)),
        ExprKind::Error => "error".into(),
    }
}

fn form(head: &str, parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { format!("({head})") } else { format!("({head} {})", parts.join(" ")) }
}

fn arg(arg: &Arg) -> String {
    format!("{}{}", if arg.spread { "..." } else { "" }, expr(&arg.value))
}

fn item(item: &DictItem) -> String {
    match item {
        DictItem::Entry { key, value } => format!("{}: {}", key.name, expr(value)),
        DictItem::Computed { key, value } => format!("[{}]: {}", expr(key), expr(value)),
        DictItem::Spread(value) => format!("...{}", expr(value)),
    }
}

fn arm(arm: &MatchArm) -> String {
    let patterns: Vec<_> = arm.patterns.iter().map(match_pattern).collect();
    let guard = arm.guard.as_ref().map(|guard| format!(" if {}", expr(guard))).unwrap_or_default();
    format!("{}{guard} -> {}", patterns.join(" | "), block(&arm.body))
}

pub(crate) fn match_pattern(p: &MatchPattern) -> String {
    let rest = |rest: &Option<Ident>| rest.iter().map(|name| format!("...{}", name.name)).collect::<Vec<_>>();
    match &p.kind {
        MatchPatternKind::Wildcard => "_".into(),
        MatchPatternKind::Bind(name) => format!("bind {}", name.name),
        MatchPatternKind::Value(e) => expr(e),
        MatchPatternKind::Dict { entries, rest: tail } => {
            let entries = entries.iter().map(|(key, p)| format!("{}: {}", key.name, match_pattern(p)));
            format!("{{{}}}", entries.chain(rest(tail)).collect::<Vec<_>>().join(", "))
        }
        MatchPatternKind::List { items, rest: tail } => {
            let items = items.iter().map(match_pattern);
            format!("[{}]", items.chain(rest(tail)).collect::<Vec<_>>().join(", "))
        }
        MatchPatternKind::Variant { enum_name, variant, fields } => {
            let fields = fields.as_ref().map(|fields| {
                format!("({})", fields.iter().map(match_pattern).collect::<Vec<_>>().join(", "))
            });
            format!("{}::{}{}", enum_name.name, variant.name, fields.unwrap_or_default())
        }
    }
}

pub(crate) fn function(f: &Function) -> String {
    let params: Vec<_> = f.params.iter().map(param).collect();
    let ret = f.ret.as_ref().map(|t| format!(" -> {}", ty(t))).unwrap_or_default();
    let marks = format!("{}{}", if f.is_gen { " gen" } else { "" }, if f.has_yield { " yields" } else { "" });
    format!("({}){ret}{marks} {}", params.join(", "), block(&f.body))
}

fn param(p: &Param) -> String {
    format!(
        "{}{}{}{}",
        if p.rest { "..." } else { "" },
        p.name.name,
        p.ty.as_ref().map(|t| format!(": {}", ty(t))).unwrap_or_default(),
        p.default.as_ref().map(|e| format!(" = {}", expr(e))).unwrap_or_default()
    )
}

pub(crate) fn block(b: &Block) -> String {
    format!("{{{}}}", b.stmts.iter().map(stmt).collect::<Vec<_>>().join("; "))
}

pub(crate) fn stmt(s: &Stmt) -> String {
    let optional = |e: &Option<Expr>| e.as_ref().map(|e| format!(" {}", expr(e))).unwrap_or_default();
    match &s.kind {
        StmtKind::Let { mutable, pattern: p, ty: t, value } => format!(
            "{} {}{} = {}",
            if *mutable { "var" } else { "let" },
            pattern(p),
            t.as_ref().map(|t| format!(": {}", ty(t))).unwrap_or_default(),
            expr(value)
        ),
        StmtKind::Assign { target, op, value, .. } => {
            let steps: String = target
                .path
                .iter()
                .map(|step| match step {
                    TargetStep::Member(name) => format!(".{}", name.name),
                    TargetStep::Index { index, .. } => format!("[{}]", expr(index)),
                })
                .collect();
            format!("{}{steps} {}= {}", target.root.name, op.map_or("", BinaryOp::symbol), expr(value))
        }
        StmtKind::For { pattern: p, iter, body } => {
            format!("for {} in {} {}", pattern(p), expr(iter), block(body))
        }
        StmtKind::While { cond, body } => format!("while {} {}", expr(cond), block(body)),
        StmtKind::Guard { cond, body } => format!("guard {} {}", expr(cond), block(body)),
        StmtKind::Require { cond, message } => format!("require {}{}", expr(cond), optional(message)),
        StmtKind::Return(e) => format!("return{}", optional(e)),
        StmtKind::Throw(e) => format!("throw {}", expr(e)),
        StmtKind::Break => "break".into(),
        StmtKind::Continue => "continue".into(),
        StmtKind::Yield(e) => format!("yield{}", optional(e)),
        StmtKind::Emit(e) => format!("emit {}", expr(e)),
        StmtKind::Defer(b) => format!("defer {}", block(b)),
        StmtKind::Mutex(b) => format!("mutex {}", block(b)),
        StmtKind::Override { name, func } => format!("override {} {}", name.name, function(func)),
        StmtKind::Decl(d) => decl(d),
        StmtKind::Import(i) => {
            let names = i.names.as_ref().map(|names| {
                format!(" {{{}}}", names.iter().map(|name| name.name.as_str()).collect::<Vec<_>>().join(", "))
            });
            format!("{}import{} {:?}", if i.is_pub { "pub " } else { "" }, names.unwrap_or_default(), i.path)
        }
        StmtKind::Expr(e) => expr(e),
    }
}

pub(crate) fn pattern(p: &Pattern) -> String {
    let default = |e: &Option<Expr>| e.as_ref().map(|e| format!(" = {}", expr(e))).unwrap_or_default();
    let rest = |rest: &Option<Ident>| rest.iter().map(|name| format!("...{}", name.name)).collect::<Vec<_>>();
    match &p.kind {
        PatternKind::Name(name) => name.name.to_string(),
        PatternKind::Dict { fields, rest: tail } => {
            let fields =
                fields.iter().map(|f| format!("{}: {}{}", f.key.name, f.name.name, default(&f.default)));
            format!("{{{}}}", fields.chain(rest(tail)).collect::<Vec<_>>().join(", "))
        }
        PatternKind::List { elems, rest: tail } => {
            let elems = elems.iter().map(|e| format!("{}{}", e.name.name, default(&e.default)));
            format!("[{}]", elems.chain(rest(tail)).collect::<Vec<_>>().join(", "))
        }
        PatternKind::Pair(a, b) => format!("({}, {})", a.name, b.name),
    }
}

pub(crate) fn ty(t: &TypeExpr) -> String {
    match &t.kind {
        TypeKind::Named { name, args } if args.is_empty() => name.name.to_string(),
        TypeKind::Named { name, args } => {
            format!("{}<{}>", name.name, args.iter().map(ty).collect::<Vec<_>>().join(", "))
        }
        TypeKind::Union(members) => members.iter().map(ty).collect::<Vec<_>>().join(" | "),
        TypeKind::Shape(fields) => {
            let fields = fields
                .iter()
                .map(|f| format!("{}{}: {}", f.name.name, if f.optional { "?" } else { "" }, ty(&f.ty)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        TypeKind::Fn { params, ret } => {
            format!("fn({}) -> {}", params.iter().map(ty).collect::<Vec<_>>().join(", "), ty(ret))
        }
        TypeKind::Str(text) => format!("{text:?}"),
        TypeKind::Int(value) => value.to_string(),
        TypeKind::Nil => "nil".into(),
    }
}

fn type_params(params: &[TypeParam]) -> String {
    let params: Vec<_> = params
        .iter()
        .map(|p| {
            let variance = match p.variance {
                Some(Variance::In) => "in ",
                Some(Variance::Out) => "out ",
                None => "",
            };
            format!("{variance}{}", p.name.name)
        })
        .collect();
    if params.is_empty() { String::new() } else { format!("<{}>", params.join(", ")) }
}

fn fn_decl(d: &FnDecl) -> String {
    let bounds: Vec<_> = d.bounds.iter().map(|b| format!("{}: {}", b.param.name, b.bound.name)).collect();
    let bounds = if bounds.is_empty() { String::new() } else { format!(" where {}", bounds.join(", ")) };
    format!("{}{} {}{bounds}", d.name.name, type_params(&d.type_params), function(&d.func))
}

fn decl(d: &Decl) -> String {
    let attrs: String = d
        .attrs
        .iter()
        .map(|a| {
            let args: Vec<_> = a
                .args
                .iter()
                .map(|arg| {
                    let name = arg.name.as_ref().map(|name| format!("{}: ", name.name)).unwrap_or_default();
                    format!("{name}{:?}", arg.value)
                })
                .collect();
            format!("@{}({}) ", a.name.name, args.join(", "))
        })
        .collect();
    let public = if d.is_pub { "pub " } else { "" };
    let body = match &d.kind {
        DeclKind::Fn(f) => fn_decl(f),
        DeclKind::Pipeline(p) => {
            let extends =
                p.extends.as_ref().map(|base| format!(" extends {}", base.name)).unwrap_or_default();
            format!("{}{extends} {}", p.name.name, function(&p.func))
        }
        DeclKind::Tool(t) => {
            let fields: String =
                t.fields.iter().map(|f| format!(" {}={}", f.name.name, expr(&f.value))).collect();
            format!("{} {:?}{fields} {}", t.name.name, t.description, function(&t.func))
        }
        DeclKind::Skill(s) => {
            let fields: Vec<_> =
                s.fields.iter().map(|f| format!("{}: {}", f.key.name, expr(&f.value))).collect();
            format!("{} {{{}}}", s.name.name, fields.join(", "))
        }
        DeclKind::EvalPack(p) => {
            let fields: Vec<_> =
                p.fields.iter().map(|f| format!("{}: {}", f.key.name, expr(&f.value))).collect();
            let stmts: Vec<_> = p.stmts.iter().map(stmt).collect();
            let summarize =
                p.summarize.as_ref().map(|b| format!(" summarize {}", block(b))).unwrap_or_default();
            format!("{} {:?} {{{}}} [{}]{summarize}", p.name.name, p.id, fields.join(", "), stmts.join("; "))
        }
        DeclKind::Enum(e) => {
            let variants: Vec<_> = e
                .variants
                .iter()
                .map(|v| {
                    let fields: Vec<_> = v
                        .fields
                        .iter()
                        .map(|f| match (&f.name, &f.ty) {
                            (Some(name), Some(t)) => format!("{}: {}", name.name, ty(t)),
                            (Some(name), None) => name.name.to_string(),
                            (None, Some(t)) => format!("type {}", ty(t)),
                            (None, None) => "nothing".into(),
                        })
                        .collect();
                    if fields.is_empty() {
                        v.name.name.to_string()
                    } else {
                        format!("{}({})", v.name.name, fields.join(", "))
                    }
                })
                .collect();
            format!("{}{} {{{}}}", e.name.name, type_params(&e.type_params), variants.join(", "))
        }
        DeclKind::Struct(s) => {
            let fields: Vec<_> = s
                .fields
                .iter()
                .map(|f| {
                    let t = f.ty.as_ref().map(|t| format!(": {}", ty(t))).unwrap_or_default();
                    format!("{}{}{t}", f.name.name, if f.optional { "?" } else { "" })
                })
                .collect();
            format!("{}{} {{{}}}", s.name.name, type_params(&s.type_params), fields.join(", "))
        }
        DeclKind::Type(t) => format!("{}{} = {}", t.name.name, type_params(&t.type_params), ty(&t.ty)),
        DeclKind::Interface(i) => {
            let types = i.assoc_types.iter().map(|a| {
                format!(
                    "type {}{}",
                    a.name.name,
                    a.default.as_ref().map(|t| format!(" = {}", ty(t))).unwrap_or_default()
                )
            });
            let methods = i.methods.iter().map(|m| {
                let params: Vec<_> = m.params.iter().map(param).collect();
                let ret = m.ret.as_ref().map(|t| format!(" -> {}", ty(t))).unwrap_or_default();
                format!("fn {}{}({}){ret}", m.name.name, type_params(&m.type_params), params.join(", "))
            });
            let members: Vec<_> = types.chain(methods).collect();
            format!("{}{} {{{}}}", i.name.name, type_params(&i.type_params), members.join("; "))
        }
        DeclKind::Impl(i) => {
            let methods: Vec<_> = i
                .methods
                .iter()
                .map(|m| format!("{}fn {}", if m.is_pub { "pub " } else { "" }, fn_decl(&m.decl)))
                .collect();
            format!("{} {{{}}}", i.name.name, methods.join("; "))
        }
    };
    format!("{attrs}{public}{} {body}", d.kind.keyword())
}
