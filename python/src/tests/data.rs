use std::rc::Rc;
use std::sync::Arc;

use harn_value::Value;

use super::{call, failure, loaded, loaded_with, returning, show};
use crate::data::{Data, MAX_DEPTH, to_data, to_value};
use crate::host::Object;
use crate::machine::MachineState;

fn text(text: &str) -> Data {
    Data::Str(text.to_owned())
}

fn there_and_back(state: &Rc<MachineState>, data: &Data) -> Data {
    to_data(state, &to_value(state, data).unwrap(), 0).unwrap()
}

#[test]
fn plain_data_survives_the_way_there_and_back() {
    let state = MachineState::detached();
    for data in [
        Data::Nil,
        Data::Bool(true),
        Data::Int(i64::MIN),
        Data::Int(i64::MAX),
        Data::Float(0.5),
        Data::Float(f64::INFINITY),
        text(""),
        text("ünïcode \0 😀"),
        Data::Bytes(vec![0, 255]),
        Data::Duration(-1500),
        Data::List(vec![Data::Int(1), Data::List(Vec::new())]),
        Data::Set(vec![Data::Int(1), Data::Int(2)]),
        Data::Pair(Box::new([Data::Int(1), text("x")])),
        Data::Range(3, 9),
        Data::Range(3, 3),
    ] {
        assert_eq!(show(&there_and_back(&state, &data)), show(&data));
    }
    assert_eq!(state.exported_count(), 0, "plain data is not exported");
}

#[test]
fn dicts_keep_the_order_in_which_they_were_written() {
    let entries = ["z", "a", "m"].map(|key| (key.to_owned(), text(key)));
    let data = Data::Dict(entries.into());
    assert_eq!(show(&there_and_back(&MachineState::detached(), &data)), r#"{z: "z", a: "a", m: "m"}"#);
}

#[test]
fn nan_stays_nan() {
    let Data::Float(back) = there_and_back(&MachineState::detached(), &Data::Float(f64::NAN)) else {
        panic!("expected a float");
    };
    assert!(back.is_nan());
}

#[test]
fn data_may_be_nested_to_the_limit_and_no_deeper() {
    let state = MachineState::detached();
    let nested = |levels: usize| (0..levels).fold(Value::NIL, |inner, _| Value::list(vec![inner]));
    assert!(to_data(&state, &nested(MAX_DEPTH), 0).is_ok());
    let error = to_data(&state, &nested(MAX_DEPTH + 1), 0).err().unwrap();
    assert_eq!(error, "data is nested too deeply: more than 512 levels");
}

#[test]
fn inclusive_ranges_exclude_the_end_outside() {
    let program = loaded("fn f() { return [1 to 3, 1 to 3 exclusive] }");
    assert_eq!(show(&call(&program, "f", Vec::new())), "[1..4, 1..3]");
}

#[test]
fn an_object_of_the_host_comes_back_as_itself() {
    let state = MachineState::detached();
    let object = returning(|_| Data::Nil);
    for data in [Data::Opaque(object.clone()), Data::Callable(object.clone())] {
        let (Data::Opaque(back) | Data::Callable(back)) = there_and_back(&state, &data) else {
            panic!("expected an object of the host");
        };
        assert!(Arc::ptr_eq(&back, &object));
    }
}

#[test]
fn objects_of_the_host_are_equal_by_identity_also_in_sets() {
    let (one, two): (Object, Object) = (returning(|_| Data::Nil), returning(|_| Data::Nil));
    let program = loaded("fn same(a, b) { return [a == b, set([a, b]).count()] }");
    let same = |a: &Object, b: &Object| {
        show(&call(&program, "same", vec![Data::Opaque(a.clone()), Data::Opaque(b.clone())]))
    };
    assert_eq!(same(&one, &one), "[true, 1]");
    assert_eq!(same(&one, &two), "[false, 2]");
}

const TYPES: &str = "
struct Point { x: int, y: int }
enum Shape { Circle(r), Empty }
fn point() { return Point { x: 1, y: 2 } }
fn circle() { return Shape.Circle(3) }
fn name(v) { return type_of(v) }
fn sum(p) { return p.x + p.y }
fn is_circle(s) { match s { Shape.Circle(r) -> { return r == 3 } _ -> { return false } } }
fn same(v) { return v }
fn ok() { return Ok(1) }
fn err() { return Err(\"no\") }
fn add() { return { a, b -> a + b } }
fn numbers() { return stream([1]) }
gen fn stream(items) { for item in items { emit item } }
";

#[test]
fn structs_and_enums_are_themselves_in_their_own_program() {
    let program = loaded(TYPES);
    let point = call(&program, "point", Vec::new());
    assert_eq!(show(&point), "Point {x: 1, y: 2}");
    assert_eq!(show(&call(&program, "name", vec![point])), r#""struct""#);
    let circle = call(&program, "circle", Vec::new());
    assert_eq!(show(&circle), "Shape.Circle(3)");
    assert_eq!(show(&call(&program, "is_circle", vec![circle])), "true");
}

#[test]
fn structs_are_copied_to_another_program() {
    let (one, two) = (loaded(TYPES), loaded(TYPES));
    let point = call(&one, "point", Vec::new());
    assert_eq!(show(&call(&two, "sum", vec![point])), "3");
}

#[test]
fn enums_are_rejected_by_another_program() {
    let (one, two) = (loaded(TYPES), loaded(TYPES));
    let circle = call(&one, "circle", Vec::new());
    let failure = failure(&two.call("same".to_owned(), vec![circle]));
    assert_eq!((failure.kind, &*failure.message), ("value", "Shape.Circle belongs to another program"));
}

#[test]
fn results_are_copied_to_another_program() {
    let (one, two) = (loaded(TYPES), loaded(TYPES));
    for (function, shown) in [("ok", "Result.Ok(1)"), ("err", r#"Result.Err("no")"#)] {
        let result = call(&one, function, Vec::new());
        assert_eq!(show(&call(&two, "same", vec![result])), shown);
    }
}

#[test]
fn functions_and_streams_stay_in_their_program() {
    let (one, two) = (loaded(TYPES), loaded(TYPES));
    for (function, shown) in [("add", "function closure"), ("numbers", "stream stream")] {
        let data = call(&one, function, Vec::new());
        assert_eq!(show(&data), shown);
        let failure = failure(&two.call("same".to_owned(), vec![data]));
        assert!(failure.message.ends_with("belongs to another program"), "{}", failure.message);
    }
}

#[test]
fn functions_of_the_host_are_closures() {
    let add = returning(|args| match args {
        [Data::Int(a), Data::Int(b)] => Data::Int(a + b),
        _ => Data::Nil,
    });
    let program = loaded_with(
        "fn f() { return [type_of(add), add(1, 2), [1, 2].map({ x -> add(x, 10) })] }",
        vec![("add", Data::Callable(add))],
    );
    assert_eq!(show(&call(&program, "f", Vec::new())), r#"["closure", 3, [11, 12]]"#);
}
