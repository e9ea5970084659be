//! Tests of machines and of the conversion of data. They need no Python.

mod contract;
mod data;
mod machine;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use harn_vm::Source;

use crate::data::Data;
use crate::host::{HostObject, Object, Reply};
use crate::machine::{Machine, MachineOptions};
use crate::pending::{Failure, Outcome, Pending};

/// The limit of a wait that is expected to end.
const LIMIT: Duration = Duration::from_secs(30);

type Call = dyn Fn(Vec<Data>, Reply) -> Result<(), String> + Send + Sync;

/// A function of the host.
struct HostFunction(Box<Call>);

impl HostObject for HostFunction {
    fn identity(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn call(&self, args: Vec<Data>, reply: Reply) -> Result<(), String> {
        (self.0)(args, reply)
    }
}

fn host_function(call: impl Fn(Vec<Data>, Reply) -> Result<(), String> + Send + Sync + 'static) -> Object {
    Arc::new(HostFunction(Box::new(call)))
}

/// A function of the host that returns at once.
fn returning(call: impl Fn(&[Data]) -> Data + Send + Sync + 'static) -> Object {
    host_function(move |args, reply| {
        reply.send(Ok(call(&args)));
        Ok(())
    })
}

fn options(code: &str) -> MachineOptions {
    let source = Source { name: "test.harn".into(), text: code.into(), dir: crate::machine::work_dir() };
    MachineOptions {
        source,
        argv: Vec::new(),
        task: None,
        globals: Vec::new(),
        mocks: Vec::new(),
        env: HashMap::new(),
        capture: true,
        project: false,
    }
}

fn result(pending: &Pending) -> Outcome {
    assert!(pending.slot.wait(LIMIT), "the call did not end");
    pending.slot.take().expect("a result that was not taken")
}

fn value(pending: &Pending) -> Data {
    result(pending).unwrap_or_else(|failure| panic!("{}: {}", failure.kind, failure.message))
}

fn failure(pending: &Pending) -> Box<Failure> {
    match result(pending) {
        Ok(data) => panic!("expected a failure, got {}", show(&data)),
        Err(failure) => failure,
    }
}

/// A program whose top level has run.
fn loaded_with(code: &str, globals: Vec<(&str, Data)>) -> Machine {
    let mut options = options(code);
    options.globals = globals.into_iter().map(|(name, data)| (name.to_owned(), data)).collect();
    let machine = Machine::start(options).unwrap();
    value(&machine.ready());
    value(&machine.begin());
    machine
}

fn loaded(code: &str) -> Machine {
    loaded_with(code, Vec::new())
}

fn call(machine: &Machine, name: &str, args: Vec<Data>) -> Data {
    value(&machine.call(name.to_owned(), args))
}

/// Formats data. Remote values are shown by their type, objects of the host by a letter.
fn show(data: &Data) -> String {
    let all = |items: &[Data]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    let entries = |entries: &[(String, Data)]| {
        entries.iter().map(|(key, value)| format!("{key}: {}", show(value))).collect::<Vec<_>>().join(", ")
    };
    match data {
        Data::Nil => "nil".to_owned(),
        Data::Bool(b) => b.to_string(),
        Data::Int(i) => i.to_string(),
        Data::Float(f) => format!("{f:?}"),
        Data::Str(text) => format!("{text:?}"),
        Data::Bytes(bytes) => format!("bytes {bytes:?}"),
        Data::Duration(ms) => format!("{ms}ms"),
        Data::List(items) => format!("[{}]", all(items)),
        Data::Dict(items) => format!("{{{}}}", entries(items)),
        Data::Set(items) => format!("set [{}]", all(items)),
        Data::Pair(parts) => format!("({}, {})", show(&parts[0]), show(&parts[1])),
        Data::Range(start, end) => format!("{start}..{end}"),
        Data::Record { name, fields, .. } => format!("{name} {{{}}}", entries(fields)),
        Data::Variant { name, variant, fields, .. } => format!("{name}.{variant}({})", all(fields)),
        Data::Function(remote) => format!("function {}", remote.type_name),
        Data::Stream(remote) => format!("stream {}", remote.type_name),
        Data::Remote(remote) => format!("remote {}", remote.type_name),
        Data::Callable(_) => "C".to_owned(),
        Data::Pull(_) => "P".to_owned(),
        Data::Opaque(_) => "O".to_owned(),
    }
}
