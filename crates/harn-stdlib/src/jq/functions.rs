//! The functions of jq.

use std::cmp::Ordering;

use harn_schema::search;
use harn_value::{Dict, Value, View, json, steps};

use super::eval::{each, limit};
use super::expr::{Expr, Function, Run, Scope};
use super::order::{order, same};
use super::values::{
    add, array, children, dict, from_number, holds, index, indices, json_text, object, shown, split, text,
    type_name,
};
use super::view::{entries, items, number};
use super::{Flow, Out, Stop, fail};
use crate::args::with_stack;

/// Finds a function by name and number of arguments.
///
/// # Errors
/// The supported numbers of arguments; empty if the name is unknown.
pub(super) fn find(name: &str, arity: usize) -> Result<&'static Function, Vec<usize>> {
    let named = || FUNCTIONS.iter().filter(|function| function.name == name);
    named()
        .find(|function| function.arity == arity)
        .ok_or_else(|| named().map(|function| function.arity).collect())
}

/// Names of jq 1.7 that are not supported.
pub(super) const UNSUPPORTED: &[&str] = &[
    "GROUP_BY",
    "IN",
    "INDEX",
    "acos",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "break",
    "bsearch",
    "builtins",
    "capture",
    "cbrt",
    "cos",
    "cosh",
    "date",
    "dateadd",
    "datesub",
    "debug",
    "def",
    "del",
    "delpaths",
    "env",
    "fma",
    "frexp",
    "fromdate",
    "fromdateiso8601",
    "fromstream",
    "gamma",
    "get_search_list",
    "getpath",
    "gmtime",
    "gsub",
    "halt",
    "halt_error",
    "import",
    "include",
    "input",
    "input_filename",
    "input_line_number",
    "inputs",
    "label",
    "ldexp",
    "leaf_paths",
    "lgamma",
    "localtime",
    "match",
    "mktime",
    "modf",
    "modulemeta",
    "nearbyint",
    "now",
    "path",
    "paths",
    "repeat",
    "pick",
    "scalb",
    "scan",
    "setpath",
    "significand",
    "sin",
    "sinh",
    "splits",
    "stderr",
    "strflocaltime",
    "strftime",
    "strptime",
    "sub",
    "tan",
    "tanh",
    "tgamma",
    "toarray",
    "todate",
    "todateiso8601",
    "tostream",
    "trunc",
    "truncate_stream",
];

impl Function {
    pub(super) fn call(&self, arguments: &[Expr], input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
        match self.run {
            Run::Plain(run) => out(run(input)?),
            Run::With(run) => {
                combine(arguments, &mut Vec::new(), input, scope, &mut |values| out(run(input, values)?))
            }
            Run::Form(run) => run(arguments, input, scope, out),
        }
    }
}

fn combine(
    arguments: &[Expr],
    values: &mut Vec<Value>,
    input: &Value,
    scope: Scope<'_>,
    run: &mut dyn FnMut(&[Value]) -> Flow,
) -> Flow {
    let Some((last, before)) = arguments.split_last() else { return run(values) };
    last.eval(input, scope, &mut |value| {
        values.insert(0, value);
        let flow = combine(before, values, input, scope, run);
        values.remove(0);
        flow
    })
}

/// As [`combine`], but the first argument is the outermost loop.
fn in_order(
    arguments: &[Expr],
    values: &mut Vec<Value>,
    input: &Value,
    scope: Scope<'_>,
    run: &mut dyn FnMut(&[Value]) -> Flow,
) -> Flow {
    let Some((first, rest)) = arguments.split_first() else { return run(values) };
    first.eval(input, scope, &mut |value| {
        values.push(value);
        let flow = in_order(rest, values, input, scope, run);
        values.pop();
        flow
    })
}

const fn plain(name: &'static str, run: fn(&Value) -> Flow<Value>) -> Function {
    Function { name, arity: 0, run: Run::Plain(run) }
}

const fn with(name: &'static str, arity: usize, run: fn(&Value, &[Value]) -> Flow<Value>) -> Function {
    Function { name, arity, run: Run::With(run) }
}

type Form = fn(&[Expr], &Value, Scope<'_>, Out<'_>) -> Flow;

const fn form(name: &'static str, arity: usize, run: Form) -> Function {
    Function { name, arity, run: Run::Form(run) }
}

macro_rules! select {
    ($name:literal, $test:expr) => {
        form($name, 0, |_, input, _, out| {
            let test: fn(&Value) -> bool = $test;
            if test(input) { out(input.clone()) } else { Ok(()) }
        })
    };
}

macro_rules! float {
    ($name:literal, $function:expr) => {
        plain($name, |input| {
            let function: fn(f64) -> f64 = $function;
            match number(input) {
                Some(n) => Ok(from_number(function(n))),
                None => fail(format!("{} number required", shown(input))),
            }
        })
    };
}

static FUNCTIONS: &[Function] = &[
    form("empty", 0, |_, _, _, _| Ok(())),
    plain("not", |input| Ok(Value::bool(!holds(input)))),
    plain("error", |input| Err(Stop::Error(input.clone()))),
    with("error", 1, |_, args| Err(Stop::Error(args[0].clone()))),
    plain("type", |input| Ok(Value::str(type_name(input)))),
    plain("length", length),
    plain("utf8bytelength", |input| match input.as_str() {
        Some(text) => Ok(Value::from(text.len())),
        None => fail(format!("{} only strings have UTF-8 byte length", shown(input))),
    }),
    plain("keys", keys),
    plain("keys_unsorted", keys),
    with("has", 1, |input, args| has(input, &args[0])),
    with("in", 1, |input, args| has(&args[0], input)),
    plain("add", |input| match children(input) {
        Some(children) => sum(&children),
        None => fail(format!("cannot iterate over {}", shown(input))),
    }),
    form("add", 1, |args, input, scope, out| out(sum(&args[0].collect(input, scope)?)?)),
    select!("values", |value| !value.is_nil()),
    select!("nulls", Value::is_nil),
    select!("booleans", |value| value.as_bool().is_some()),
    select!("numbers", |value| type_name(value) == "number"),
    select!("strings", |value| type_name(value) == "string"),
    select!("arrays", |value| type_name(value) == "array"),
    select!("objects", |value| type_name(value) == "object"),
    select!("iterables", |value| children(value).is_some()),
    select!("scalars", |value| children(value).is_none()),
    form("select", 1, |args, input, scope, out| {
        args[0].eval(input, scope, &mut |value| if holds(&value) { out(input.clone()) } else { Ok(()) })
    }),
    form("map", 1, |args, input, scope, out| {
        let mut all = Vec::new();
        each(input, &mut |item| {
            args[0].eval(&item, scope, &mut |value| {
                steps::push(&mut all, value);
                Ok(())
            })
        })?;
        out(Value::list(all))
    }),
    form("map_values", 1, |args, input, scope, out| {
        let first = |item: &Value| {
            let mut found = None;
            limit(1, &args[0], item, scope, &mut |value| {
                found = Some(value);
                Ok(())
            })
            .map(|()| found)
        };
        if type_name(input) == "object" {
            let mut changed = Dict::new();
            for (key, item) in entries(input) {
                if let Some(value) = first(&item)? {
                    changed.insert(key, value);
                }
            }
            return out(Value::dict(changed));
        }
        let mut changed = Vec::new();
        each(input, &mut |item| {
            changed.extend(first(&item)?);
            Ok(())
        })?;
        out(Value::list(changed))
    }),
    form("recurse", 0, |_, input, _, out| {
        recurse(
            input,
            &mut |value, out| children(value).unwrap_or_default().into_iter().try_for_each(out),
            out,
        )
    }),
    form("recurse", 1, |args, input, scope, out| {
        recurse(input, &mut |value, out| args[0].eval(value, scope, out), out)
    }),
    form("recurse", 2, |args, input, scope, out| {
        recurse(
            input,
            &mut |value, out| {
                args[0].eval(value, scope, &mut |value| {
                    args[1].eval(&value, scope, &mut |holding| {
                        if holds(&holding) { out(value.clone()) } else { Ok(()) }
                    })
                })
            },
            out,
        )
    }),
    form("while", 2, |args, input, scope, out| {
        let holding = |value: &Value, out: Out<'_>| {
            args[0].eval(value, scope, &mut |test| if holds(&test) { out(value.clone()) } else { Ok(()) })
        };
        holding(input, &mut |start| {
            recurse(
                &start,
                &mut |value, out| args[1].eval(value, scope, &mut |next| holding(&next, out)),
                out,
            )
        })
    }),
    form("until", 2, |args, input, scope, out| {
        let done =
            |value: &Value| first(&args[0], value, scope).map(|test| test.is_some_and(|test| holds(&test)));
        let mut pass = |value: Value| if done(&value)? { out(value) } else { Ok(()) };
        recurse(
            input,
            &mut |value, out| if done(value)? { Ok(()) } else { args[1].eval(value, scope, out) },
            &mut pass,
        )
    }),
    form("range", 1, |args, input, scope, out| {
        args[0].eval(input, scope, &mut |end| range(&Value::int(0), &end, &Value::int(1), out))
    }),
    form("range", 2, |args, input, scope, out| {
        in_order(args, &mut Vec::new(), input, scope, &mut |args| {
            range(&args[0], &args[1], &Value::int(1), out)
        })
    }),
    form("range", 3, |args, input, scope, out| {
        in_order(args, &mut Vec::new(), input, scope, &mut |args| range(&args[0], &args[1], &args[2], out))
    }),
    form("limit", 2, |args, input, scope, out| {
        args[0].eval(input, scope, &mut |count| match number(&count) {
            // jq 1.7 passes all results for a negative count.
            Some(n) if n < 0.0 => args[1].eval(input, scope, out),
            Some(n) => limit(n.ceil() as usize, &args[1], input, scope, out),
            None => fail(format!("the count of 'limit' must be a number, got {}", shown(&count))),
        })
    }),
    plain("first", |input| index(input, &Value::int(0))),
    plain("last", |input| index(input, &Value::int(-1))),
    with("nth", 1, |input, args| index(input, &args[0])),
    form("first", 1, |args, input, scope, out| limit(1, &args[0], input, scope, out)),
    form("last", 1, |args, input, scope, out| {
        let mut last = None;
        args[0].eval(input, scope, &mut |value| {
            last = Some(value);
            Ok(())
        })?;
        last.map_or(Ok(()), out)
    }),
    form("nth", 2, |args, input, scope, out| {
        args[0].eval(input, scope, &mut |n| {
            let Some(n) = number(&n).filter(|n| *n >= 0.0) else {
                return fail("'nth' does not support negative indices");
            };
            let mut last = None;
            let mut count = 0.0;
            limit(n as usize + 1, &args[1], input, scope, &mut |value| {
                last = Some(value);
                count += 1.0;
                Ok(())
            })?;
            last.filter(|_| count > n).map_or(Ok(()), &mut *out)
        })
    }),
    form("isempty", 1, |args, input, scope, out| out(Value::bool(first(&args[0], input, scope)?.is_none()))),
    form("any", 0, |_, input, _, out| out(Value::bool(quantified(true, &mut |out| each(input, out))?))),
    form("all", 0, |_, input, _, out| out(Value::bool(quantified(false, &mut |out| each(input, out))?))),
    form("any", 1, |args, input, scope, out| {
        let tests = &mut |out: Out<'_>| each(input, &mut |item| args[0].eval(&item, scope, out));
        out(Value::bool(quantified(true, tests)?))
    }),
    form("all", 1, |args, input, scope, out| {
        let tests = &mut |out: Out<'_>| each(input, &mut |item| args[0].eval(&item, scope, out));
        out(Value::bool(quantified(false, tests)?))
    }),
    form("any", 2, |args, input, scope, out| {
        let tests =
            &mut |out: Out<'_>| args[0].eval(input, scope, &mut |item| args[1].eval(&item, scope, out));
        out(Value::bool(quantified(true, tests)?))
    }),
    form("all", 2, |args, input, scope, out| {
        let tests =
            &mut |out: Out<'_>| args[0].eval(input, scope, &mut |item| args[1].eval(&item, scope, out));
        out(Value::bool(quantified(false, tests)?))
    }),
    plain("flatten", |input| flattened(input, f64::INFINITY)),
    with("flatten", 1, |input, args| match number(&args[0]) {
        Some(depth) if depth >= 0.0 => flattened(input, depth),
        _ => fail("the depth of 'flatten' must not be negative"),
    }),
    plain("reverse", |input| match input.view() {
        View::Nil => Ok(Value::list(Vec::new())),
        _ => {
            let mut all = array(input, "reversed, as it is not an array")?;
            all.reverse();
            Ok(Value::list(all))
        }
    }),
    plain("sort", |input| Ok(Value::list(sorted(array(input, "sorted, as it is not an array")?)))),
    form("sort_by", 1, |args, input, scope, out| {
        let keyed = keyed("sorted, as it is not an array", &args[0], input, scope)?;
        out(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
    }),
    form("group_by", 1, |args, input, scope, out| {
        let keyed = keyed("grouped, as it is not an array", &args[0], input, scope)?;
        out(Value::list(groups(keyed).into_iter().map(Value::list).collect()))
    }),
    plain("unique", |input| {
        let mut all = sorted(array(input, "sorted, as it is not an array")?);
        all.dedup_by(|b, a| same(a, b));
        Ok(Value::list(all))
    }),
    form("unique_by", 1, |args, input, scope, out| {
        let keyed = keyed("grouped, as it is not an array", &args[0], input, scope)?;
        out(Value::list(groups(keyed).into_iter().filter_map(|group| group.into_iter().next()).collect()))
    }),
    plain("min", |input| {
        Ok(extreme(array(input, "searched for its minimum")?.into_iter().map(|v| (v.clone(), v)), false))
    }),
    plain("max", |input| {
        Ok(extreme(array(input, "searched for its maximum")?.into_iter().map(|v| (v.clone(), v)), true))
    }),
    form("min_by", 1, |args, input, scope, out| {
        out(extreme(with_keys("searched for its minimum", &args[0], input, scope)?.into_iter(), false))
    }),
    form("max_by", 1, |args, input, scope, out| {
        out(extreme(with_keys("searched for its maximum", &args[0], input, scope)?.into_iter(), true))
    }),
    with("contains", 1, |input, args| contains(input, &args[0]).map(Value::bool)),
    with("inside", 1, |input, args| contains(&args[0], input).map(Value::bool)),
    with("indices", 1, |input, args| indices(input, &args[0])),
    with("index", 1, |input, args| {
        Ok(items(&indices(input, &args[0])?).first().cloned().unwrap_or_default())
    }),
    with("rindex", 1, |input, args| {
        Ok(items(&indices(input, &args[0])?).last().cloned().unwrap_or_default())
    }),
    plain("transpose", |input| {
        let rows = array(input, "transposed")?;
        let rows = rows.iter().map(|row| array(row, "transposed")).collect::<Flow<Vec<_>>>()?;
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let column = |at: usize| rows.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect();
        Ok(Value::list(steps::gather((0..width).map(|at| Value::list(column(at))))))
    }),
    form("combinations", 0, |_, input, _, out| {
        combinations(&array(input, "combined")?, &mut Vec::new(), out)
    }),
    form("walk", 1, |args, input, scope, out| walk(&args[0], input, scope, out)),
    plain("to_entries", to_entries),
    plain("from_entries", from_entries),
    form("with_entries", 1, |args, input, scope, out| {
        let mut all = Vec::new();
        each(&to_entries(input)?, &mut |entry| {
            args[0].eval(&entry, scope, &mut |value| {
                steps::push(&mut all, value);
                Ok(())
            })
        })?;
        out(from_entries(&Value::list(all))?)
    }),
    plain("tostring", |input| Ok(Value::from(text(input)))),
    plain("tojson", |input| Ok(Value::from(json_text(input)))),
    plain("fromjson", |input| match input.as_str().map(|text| json::parse(text)) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => fail(format!("{error} (while parsing '{}')", text(input))),
        None => fail(format!("{} cannot be parsed as JSON", shown(input))),
    }),
    plain("tonumber", |input| {
        if type_name(input) == "number" {
            return Ok(input.clone());
        }
        let parsed = input.as_str().and_then(|text| json::parse(text.trim()).ok());
        match parsed.filter(|value| type_name(value) == "number") {
            Some(value) => Ok(value),
            None => fail(format!("{} cannot be parsed as a number", shown(input))),
        }
    }),
    with("startswith", 1, |input, args| match (input.as_str(), args[0].as_str()) {
        (Some(text), Some(part)) => Ok(Value::bool(text.starts_with(part.as_str()))),
        _ => fail("startswith() requires string inputs"),
    }),
    with("endswith", 1, |input, args| match (input.as_str(), args[0].as_str()) {
        (Some(text), Some(part)) => Ok(Value::bool(text.ends_with(part.as_str()))),
        _ => fail("endswith() requires string inputs"),
    }),
    with("ltrimstr", 1, |input, args| {
        let rest =
            input.as_str().zip(args[0].as_str()).and_then(|(text, part)| text.strip_prefix(part.as_str()));
        Ok(rest.map_or_else(|| input.clone(), Value::str))
    }),
    with("rtrimstr", 1, |input, args| {
        let rest =
            input.as_str().zip(args[0].as_str()).and_then(|(text, part)| text.strip_suffix(part.as_str()));
        Ok(rest.map_or_else(|| input.clone(), Value::str))
    }),
    plain("trim", |input| trimmed(input, str::trim)),
    plain("ltrim", |input| trimmed(input, str::trim_start)),
    plain("rtrim", |input| trimmed(input, str::trim_end)),
    plain("explode", |input| match input.as_str() {
        Some(text) => {
            Ok(Value::list(steps::gather(text.chars().map(|c| Value::int(i64::from(u32::from(c)))))))
        }
        None => fail(format!("{} cannot be exploded", shown(input))),
    }),
    plain("implode", |input| {
        let code = |item: &Value| {
            let code = item.as_int().and_then(|code| u32::try_from(code).ok());
            code.and_then(char::from_u32)
                .map_or_else(|| fail(format!("{} is not a code point", shown(item))), Ok)
        };
        Ok(Value::from(array(input, "imploded")?.iter().map(code).collect::<Flow<String>>()?))
    }),
    with("split", 1, |input, args| match (input.as_str(), args[0].as_str()) {
        (Some(text), Some(separator)) => Ok(split(text, separator)),
        _ => fail("split input and separator must be strings"),
    }),
    with("join", 1, |input, args| {
        let Some(items) = children(input) else {
            return fail(format!("cannot iterate over {}", shown(input)));
        };
        let mut out = String::new();
        for (at, item) in items.iter().enumerate() {
            let part = match type_name(item) {
                "null" => "".into(),
                "boolean" | "number" | "string" => text(item),
                _ => {
                    return fail(format!("{} and {} cannot be added", shown(&Value::str(&out)), shown(item)));
                }
            };
            match args[0].as_str() {
                Some(separator) if at > 0 => out.push_str(separator),
                Some(_) => {}
                None if args[0].is_nil() => {}
                None => return fail(format!("{} cannot be a separator", shown(&args[0]))),
            }
            steps::reserve(&mut out, part.len());
            out.push_str(&part);
        }
        Ok(Value::from(out))
    }),
    plain("ascii_downcase", |input| cased(input, |text| text.to_ascii_lowercase(), "ascii_downcase")),
    plain("ascii_upcase", |input| cased(input, |text| text.to_ascii_uppercase(), "ascii_upcase")),
    with("test", 1, |input, args| test(input, &args[0], &Value::NIL)),
    with("test", 2, |input, args| test(input, &args[0], &args[1])),
    float!("floor", f64::floor),
    float!("ceil", f64::ceil),
    float!("round", f64::round),
    float!("fabs", f64::abs),
    float!("sqrt", f64::sqrt),
    float!("exp", f64::exp),
    float!("exp2", f64::exp2),
    float!("exp10", |n| 10f64.powf(n)),
    float!("log", f64::ln),
    float!("log2", f64::log2),
    float!("log10", f64::log10),
    plain("abs", |input| match number(input) {
        Some(n) if n < 0.0 => Ok(super::values::negated(input).unwrap_or_default()),
        _ => Ok(input.clone()),
    }),
    with("pow", 2, |_, args| match (number(&args[0]), number(&args[1])) {
        (Some(base), Some(exponent)) => Ok(from_number(base.powf(exponent))),
        _ => fail("pow() number required"),
    }),
    plain("infinite", |_| Ok(Value::float(f64::INFINITY))),
    plain("nan", |_| Ok(Value::float(f64::NAN))),
    plain("isinfinite", |input| float_test(input, f64::is_infinite)),
    plain("isnan", |input| float_test(input, f64::is_nan)),
    plain("isnormal", |input| float_test(input, f64::is_normal)),
];

fn first(expr: &Expr, input: &Value, scope: Scope<'_>) -> Flow<Option<Value>> {
    let mut found = None;
    limit(1, expr, input, scope, &mut |value| {
        found = Some(value);
        Ok(())
    })?;
    Ok(found)
}

fn length(input: &Value) -> Flow<Value> {
    match input.view() {
        View::Nil => Ok(Value::int(0)),
        View::Str(text) => Ok(Value::from(text.char_count())),
        View::Bytes(bytes) => Ok(Value::from(bytes.len())),
        View::List(list) => Ok(Value::from(list.len())),
        View::Set(set) => Ok(Value::from(set.len())),
        View::Int(int) if int >= 0 => Ok(input.clone()),
        View::Float(_) | View::Int(_) => Ok(from_number(number(input).unwrap_or(0.0).abs())),
        _ => match dict(input) {
            Some(dict) => Ok(Value::from(dict.len())),
            None => fail(format!("{} has no length", shown(input))),
        },
    }
}

fn keys(input: &Value) -> Flow<Value> {
    match type_name(input) {
        "array" => Ok(Value::list(steps::gather((0..items(input).len()).map(Value::from)))),
        "object" => Ok(Value::list(entries(input).into_iter().map(|(key, _)| Value::from(key)).collect())),
        _ => fail(format!("{} has no keys", shown(input))),
    }
}

fn has(input: &Value, key: &Value) -> Flow<Value> {
    match (type_name(input), number(key), key.as_str()) {
        ("null", ..) => Ok(Value::FALSE),
        ("array", Some(n), _) => Ok(Value::bool(0.0 <= n && n < items(input).len() as f64)),
        ("object", _, Some(key)) => Ok(Value::bool(dict(input).is_some_and(|dict| dict.get(key).is_some()))),
        (kind, _, _) => fail(format!("cannot check whether {kind} has a {} key", type_name(key))),
    }
}

fn sum(values: &[Value]) -> Flow<Value> {
    if values.len() > 1 && values.iter().all(|value| value.as_str().is_some()) {
        let mut out = String::new();
        for value in steps::each(values) {
            let part = text(value);
            steps::reserve(&mut out, part.len());
            out.push_str(&part);
        }
        return Ok(Value::from(out));
    }
    if values.len() > 1 && values.iter().all(|value| value.as_list().is_some()) {
        return Ok(Value::list(steps::gather(values.iter().flat_map(items))));
    }
    values.iter().try_fold(Value::NIL, |sum, value| add(&sum, value))
}

/// Passes the input and recursively the results of `next`, parents first. The state is a list, so the depth does not
/// need stack space.
fn recurse(input: &Value, next: &mut dyn FnMut(&Value, Out<'_>) -> Flow, out: Out<'_>) -> Flow {
    let mut open = vec![Ok(input.clone())];
    while let Some(value) = open.pop() {
        let value = value?;
        out(value.clone())?;
        let start = open.len();
        let flow = next(&value, &mut |value| {
            steps::push(&mut open, Ok(value));
            Ok(())
        });
        // An error follows the results before it.
        open.extend(flow.err().map(Err));
        open[start..].reverse();
    }
    Ok(())
}

fn range(start: &Value, end: &Value, step: &Value, out: Out<'_>) -> Flow {
    let (Some(from), Some(to), Some(by)) = (number(start), number(end), number(step)) else {
        return fail("range bounds must be numeric");
    };
    let ints = |value: &Value| value.as_int();
    if let (Some(mut at), Some(by)) = (ints(start), ints(step)) {
        while (by > 0 && (at as f64) < to) || (by < 0 && at as f64 > to) || (by == 0 && (at as f64) < to) {
            steps::step();
            out(Value::int(at))?;
            let Some(next) = at.checked_add(by) else { return Ok(()) };
            at = next;
        }
        return Ok(());
    }
    let mut at = from;
    while (by >= 0.0 && at < to) || (by < 0.0 && at > to) {
        steps::step();
        out(from_number(at))?;
        at += by;
    }
    Ok(())
}

/// Returns whether any test is true (`wanted`), or else whether none is false.
fn quantified(wanted: bool, tests: &mut dyn FnMut(Out<'_>) -> Flow) -> Flow<bool> {
    let mut decided = false;
    let flow = tests(&mut |value| {
        decided = holds(&value) == wanted;
        if decided { Err(Stop::Break) } else { Ok(()) }
    });
    match flow {
        Err(Stop::Break) if decided => Ok(wanted),
        Err(stop) => Err(stop),
        Ok(()) => Ok(!wanted),
    }
}

fn flattened(input: &Value, depth: f64) -> Flow<Value> {
    fn flatten(values: Vec<Value>, depth: f64, all: &mut Vec<Value>) {
        for value in values {
            if type_name(&value) == "array" && depth > 0.0 {
                with_stack(|| flatten(items(&value), depth - 1.0, all));
            } else {
                steps::push(all, value);
            }
        }
    }
    let Some(children) = children(input) else {
        return fail(format!("cannot iterate over {}", shown(input)));
    };
    let mut all = Vec::new();
    flatten(children, depth, &mut all);
    Ok(Value::list(all))
}

fn sorted(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by(order);
    values
}

/// Returns the items of an array, each with the results of an expression as its key.
fn with_keys(name: &str, key: &Expr, input: &Value, scope: Scope<'_>) -> Flow<Vec<(Value, Value)>> {
    let keyed = |item: Value| Ok((Value::list(key.collect(&item, scope)?), item));
    array(input, name)?.into_iter().map(keyed).collect()
}

fn keyed(name: &str, key: &Expr, input: &Value, scope: Scope<'_>) -> Flow<Vec<(Value, Value)>> {
    let mut keyed = with_keys(name, key, input, scope)?;
    keyed.sort_by(|(a, _), (b, _)| order(a, b));
    Ok(keyed)
}

fn groups(keyed: Vec<(Value, Value)>) -> Vec<Vec<Value>> {
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keyed {
        match groups.last_mut().filter(|(last, _)| order(last, &key).is_eq()) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the first of the smallest or the last of the largest items by key.
fn extreme(mut keyed: impl Iterator<Item = (Value, Value)>, largest: bool) -> Value {
    let Some(first) = keyed.next() else { return Value::NIL };
    let best = keyed.fold(first, |best, item| match order(&item.0, &best.0) {
        Ordering::Less if !largest => item,
        Ordering::Greater | Ordering::Equal if largest => item,
        _ => best,
    });
    best.1
}

fn contains(a: &Value, b: &Value) -> Flow<bool> {
    steps::step();
    with_stack(|| match (type_name(a), type_name(b)) {
        ("string", "string") => Ok(text(a).contains(text(b).as_str())),
        ("array", "array") => {
            let own = items(a);
            for wanted in items(b) {
                let mut found = false;
                for item in &own {
                    found = found || type_name(item) == type_name(&wanted) && contains(item, &wanted)?;
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ("object", "object") => {
            for (key, wanted) in entries(b) {
                let own = dict(a).and_then(|dict| dict.get(&key).cloned());
                let fits = match own {
                    Some(own) if type_name(&own) == type_name(&wanted) => contains(&own, &wanted)?,
                    _ => false,
                };
                if !fits {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (one, other) if one == other && (one != "boolean" || same(a, b)) => Ok(same(a, b)),
        _ => fail(format!("{} and {} cannot have their containment checked", shown(a), shown(b))),
    })
}

fn combinations(rows: &[Value], chosen: &mut Vec<Value>, out: Out<'_>) -> Flow {
    let Some((row, rest)) = rows.split_first() else { return out(Value::list(chosen.clone())) };
    with_stack(|| {
        each(row, &mut |item| {
            chosen.push(item);
            let flow = combinations(rest, chosen, out);
            chosen.pop();
            flow
        })
    })
}

/// Applies a filter to every part, inner parts first.
fn walk(filter: &Expr, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
    let inner = |value: &Value| {
        let mut all = Vec::new();
        walk(filter, value, scope, &mut |value| {
            all.push(value);
            Ok(())
        })
        .map(|()| all)
    };
    with_stack(|| match type_name(input) {
        "array" => {
            let all = items(input).iter().map(inner).collect::<Flow<Vec<_>>>()?;
            filter.eval(&Value::list(all.into_iter().flatten().collect()), scope, out)
        }
        "object" => {
            let mut changed = Dict::new();
            for (key, value) in entries(input) {
                if let Some(value) = inner(&value)?.into_iter().next() {
                    changed.insert(key, value);
                }
            }
            filter.eval(&Value::dict(changed), scope, out)
        }
        _ => filter.eval(input, scope, out),
    })
}

fn to_entries(input: &Value) -> Flow<Value> {
    let names = items(&keys(input)?);
    let values = children(input).unwrap_or_default();
    let entry = |(key, value)| object([("key", key), ("value", value)]);
    Ok(Value::list(names.into_iter().zip(values).map(entry).collect()))
}

fn from_entries(input: &Value) -> Flow<Value> {
    let Some(all) = children(input) else { return fail(format!("cannot iterate over {}", shown(input))) };
    let mut built = Dict::new();
    for entry in all {
        let field = |names: &[&str]| {
            names.iter().try_fold(Value::NIL, |found, name| {
                if holds(&found) { Ok(found) } else { index(&entry, &Value::str(name)) }
            })
        };
        let keys = ["key", "k", "name", "Name", "Key", "K"];
        let mut key = field(&keys)?;
        if key.is_nil() {
            // A false key is used, unlike a missing one.
            let named = keys.iter().find_map(|name| dict(&entry)?.get_str(name).cloned());
            key = named.unwrap_or_default();
        }
        let name = match type_name(&key) {
            "string" | "number" | "boolean" | "null" => text(&key),
            _ => return fail(format!("cannot use {} as object key", shown(&key))),
        };
        let value = ["value", "v", "Value", "V"].iter().find_map(|name| dict(&entry)?.get_str(name).cloned());
        built.insert(name, value.unwrap_or_default());
    }
    Ok(Value::dict(built))
}

fn trimmed(input: &Value, trim: fn(&str) -> &str) -> Flow<Value> {
    match input.as_str() {
        Some(text) => Ok(Value::str(trim(text))),
        None => fail(format!("{} cannot be trimmed", shown(input))),
    }
}

fn cased(input: &Value, change: fn(&str) -> String, name: &str) -> Flow<Value> {
    match input.as_str() {
        Some(text) => Ok(Value::from(change(text))),
        None => fail(format!("{name} input must be a string")),
    }
}

fn float_test(input: &Value, test: fn(f64) -> bool) -> Flow<Value> {
    match number(input) {
        Some(n) => Ok(Value::bool(test(n))),
        None => fail(format!("{} number required", shown(input))),
    }
}

/// Returns whether a regular expression matches, in the dialect of `regex_match`.
fn test(input: &Value, pattern: &Value, flags: &Value) -> Flow<Value> {
    let Some(text) = input.as_str() else {
        return fail(format!("{} cannot be matched, as it is not a string", shown(input)));
    };
    let Some(source) = pattern.as_str() else { return fail(format!("{} is not a string", shown(pattern))) };
    let flags = match (flags.is_nil(), flags.as_str()) {
        (true, _) => "",
        (_, Some(flags)) => flags,
        _ => return fail(format!("{} is not a string", shown(flags))),
    };
    if let Some(flag) = flags.chars().find(|flag| !"gix".contains(*flag)) {
        return fail(format!("the flag '{flag}' of 'test' is not supported"));
    }
    match harn_schema::compiled(source, &flags.replace('g', "")) {
        Ok(pattern) => Ok(Value::bool(search::find(&pattern, text).next().is_some())),
        Err(_) => fail(format!("{source} is not a valid regular expression")),
    }
}
