//! Runs a file with a minimal set of builtins, for work on the VM itself.
#![allow(missing_docs, clippy::unwrap_used, reason = "a tool")]
use std::rc::Rc;

use harn_system::Real;
use harn_vm::{Value, VmBuilder, block_on, builtins, load, read_source, uncaught};

builtins! {
    static MINI: "mini";
    /// Prints.
    Output fn println(cx, x: Value) -> "nil" { cx.print(&format!("{x}\n"))?; Ok(Value::NIL) }
    /// Ok.
    Pure fn make_ok = "Ok"(cx, x: Value) -> "any" { Value::ok(x) }
    /// Err.
    Pure fn make_err = "Err"(cx, x: Value) -> "any" { Value::err(x) }
    /// Waits.
    Clock async fn sleep(cx, ms: Value) -> "nil" { cx.sleep(harn_vm::concurrency::millis(&ms).unwrap_or_default()).await?; Ok(Value::NIL) }
    /// Length.
    Pure fn len(cx, x: Value) -> "int" { x.as_list().map_or(0, |l| l.len()) }
    /// As in the standard library.
    Pure fn to_int(cx, x: Value) -> "int" { x.as_number().map_or_else(|| x.to_string().parse().unwrap_or(0), |f| f as i64) }
    /// As in the standard library.
    Pure fn sqrt(cx, x: Value) -> "float" { x.as_number().unwrap_or_default().sqrt() }
    /// Map.
    Pure async fn map(cx, x: Value, f: Value) -> "list" {
        let mut out = Vec::new();
        for v in x.as_list().unwrap().iter() { out.push(cx.call(&f, [v.clone()]).await?); }
        Ok(Value::list(out))
    }
}

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let vm = VmBuilder::new(Rc::new(Real::new()))
        .builtins([MINI])
        .global("argv", Value::list(std::env::args().skip(2).map(Value::from).collect()))
        .build();
    let source = read_source(&**vm.system(), &path).unwrap();
    let file = harn_syntax::SourceFile::new(source.name.as_str(), source.text.as_str());
    let program = match load(&vm, &source) {
        Ok(p) => p,
        Err(e) => {
            for d in e.diagnostics(&file) {
                eprint!("{}", d.render(&file, false));
            }
            std::process::exit(1)
        }
    };
    if std::env::var("LIST").is_ok() {
        println!("{}", program.listing());
    }
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    if let Err(e) = &outcome.result {
        let (d, f) = uncaught(&vm, e);
        eprint!(
            "{}",
            match f {
                Some(f) => d.render(&f, false),
                None => d.render_plain(false),
            }
        );
    }
    std::process::exit(outcome.exit_code().0);
}
