//! Option dicts that structs describe.

use std::time::Duration;

use harn_schema::options::{self, Options, Value};
use harn_value::Dict;

/// Options of a window.
#[derive(Options)]
struct Window {
    /// Width in pixels.
    #[option(default = 80)]
    width: i64,
    /// Whether it is on top of the others.
    on_top: bool,
    /// Title.
    title: Option<String>,
    #[option(flatten)]
    fade: Fade,
    /// Frame.
    frame: Option<Frame>,
}

#[derive(Options)]
struct Fade {
    /// Time of the
    /// animation.
    #[option(default = Duration::from_secs(1), shown = "1s")]
    fade_ms: Duration,
}

#[derive(Options)]
#[options(short = "color")]
struct Frame {
    /// Color.
    #[option(ty = "string", with = color)]
    color: u32,
    /// Only a part of the type.
    _style: Option<String>,
    /// nil is a value.
    #[option(nil, name = "fill")]
    filling: Option<Value>,
}

fn color(value: &Value) -> Result<u32, String> {
    match value.to_string().as_str() {
        "red" => Ok(1),
        other => Err(format!("must be a color, got {other}")),
    }
}

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    entries.into_iter().collect::<Dict>().into()
}

fn window(given: &Value) -> Result<Window, String> {
    options::read(given)
}

#[test]
fn the_type_lists_the_options() {
    let frame = "string | {color?: string, style?: string, fill?: any}?";
    assert_eq!(Frame::TYPE, frame);
    assert_eq!(
        Window::TYPE,
        format!("{{width?: int, on_top?: bool, title?: string, fade_ms?: duration | int, frame?: {frame}}}?")
    );
    let rows: Vec<_> = Window::FIELDS.iter().map(|field| (field.name, field.default, field.doc)).collect();
    assert_eq!(rows[0], ("width", Some("80"), "Width in pixels."));
    assert_eq!(rows[1], ("on_top", Some("false"), "Whether it is on top of the others."));
    assert_eq!(rows[2], ("title", None, "Title."));
    assert_eq!(rows[3], ("fade_ms", Some("1s"), "Time of the animation."));
    assert_eq!(rows.len(), 5);
}

#[test]
fn missing_options_have_their_defaults() {
    let read = window(&Value::NIL).ok().unwrap();
    assert_eq!(
        (read.width, read.on_top, read.title.is_none(), read.frame.is_none()),
        (80, false, true, true)
    );
    assert_eq!(read.fade.fade_ms, Duration::from_secs(1));
    let given = dict([("width", Value::NIL), ("fade_ms", Value::duration(5)), ("title", "a".into())]);
    let read = window(&given).ok().unwrap();
    assert_eq!((read.width, read.fade.fade_ms.as_millis(), read.title.as_deref()), (80, 5, Some("a")));
}

#[test]
fn a_short_form_is_the_value_of_one_option() {
    for frame in [Value::from("red"), dict([("color", "red".into())])] {
        let read = window(&dict([("frame", frame)])).ok().unwrap();
        let frame = read.frame.unwrap();
        assert_eq!((frame.color, frame.filling.is_none()), (1, true));
    }
    let filled = dict([("color", "red".into()), ("fill", Value::NIL)]);
    let read = window(&dict([("frame", filled)])).ok().unwrap();
    assert!(read.frame.unwrap().filling.is_some_and(|fill| fill.is_nil()));
}

#[test]
fn wrong_values_are_named_with_their_place() {
    let error = |name: &str, value: Value| window(&dict([(name, value)])).err().unwrap();
    assert_eq!(error("width", "x".into()), "width must be int, got string");
    assert_eq!(error("fade_ms", Value::int(-1)), "fade_ms must be a duration or a number of milliseconds");
    assert_eq!(error("frame", dict([("color", "blue".into())])), "frame.color must be a color, got blue");
    assert_eq!(error("frame", "blue".into()), "frame.color must be a color, got blue");
}
