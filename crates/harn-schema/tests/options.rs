//! Option dicts that structs describe.

use std::time::Duration;

use harn_schema::options::{self, Data, DataOptions, Options, Value};
use harn_schema::shape::Shape;
use harn_value::{Dict, json};

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

/// Options of a search, in a dict of data.
#[derive(Options)]
#[options(data)]
struct Search {
    /// Words to search for.
    #[option(shape = Shape::Text, foreign = ["q", "term"])]
    query: Option<String>,
    /// Results per page.
    #[option(range = 1.., default = 10)]
    limit: u32,
    /// Least score.
    #[option(range = 0.0..=1.0)]
    score: Option<f64>,
    /// Order.
    #[option(one_of = ["up", "down"], shown = "\"up\"")]
    order: Option<String>,
    /// Kinds of results.
    kinds: Vec<String>,
    /// nil switches it off.
    #[option(ty = "string", nil)]
    cache: Option<Data>,
    /// Only a part of the description.
    #[option(ty = "function", shape = Shape::Closure, dependent)]
    _ranking: (),
    #[option(group = Area, with = Area::size)]
    area: u32,
    #[option(flatten)]
    page: Page,
    #[option(skip)]
    rounds: u32,
}

#[derive(Options)]
#[options(data)]
struct Area {
    /// Width.
    width: Option<u32>,
    /// Height.
    height: Option<u32>,
}

impl Area {
    fn size(given: Area) -> Result<u32, String> {
        match (given.width, given.height) {
            (Some(width), Some(height)) => Ok(width * height),
            (None, None) => Ok(0),
            _ => Err("width needs height".to_owned()),
        }
    }
}

#[derive(Options)]
#[options(data)]
struct Page {
    /// Number of the page.
    #[option(ty = "int", default = 1, with = |value: &Data| value.as_u64().ok_or("page must be a number"))]
    page: u64,
}

fn search(options: Data) -> Result<Search, String> {
    Search::read(options.as_object().expect("a dict"))
}

#[test]
fn dicts_of_data_are_described_by_their_fields() {
    let names: Vec<_> = Search::FIELDS.iter().map(|field| field.name).collect();
    let all = ["query", "limit", "score", "order", "kinds", "cache", "ranking", "width", "height", "page"];
    assert_eq!(names, all);
    let takes: Vec<_> = Search::FIELDS.iter().map(|field| field.takes()).collect();
    assert_eq!(
        takes,
        [
            "a string that is not blank",
            "an int of at least 1",
            "a number from 0 to 1",
            "one of up, down",
            "a list of strings",
            "string",
            "a closure",
            "an int of at least 0",
            "an int of at least 0",
            "int"
        ]
    );
    let field = &Search::FIELDS[0];
    assert_eq!((field.foreign, field.is_dependent, field.ty), (&["q", "term"][..], false, "string"));
    assert!(Search::FIELDS[6].is_dependent && Search::FIELDS[3].default == Some("\"up\""));
}

#[test]
fn dicts_of_data_are_read() {
    let read =
        search(json!({"limit": null, "kinds": "a", "cache": null, "width": 2, "height": 3, "other": 1}));
    let read = read.ok().unwrap();
    assert_eq!((read.query, read.limit, read.score, read.order), (None, 10, None, None));
    assert_eq!((read.kinds, read.cache, read.area), (vec!["a".to_owned()], Some(Data::Null), 6));
    assert_eq!((read.page.page, read.rounds), (1, 0));
    let read =
        search(json!({"query": "x", "limit": 2, "score": 1, "order": "down", "page": 7})).ok().unwrap();
    assert_eq!((read.query.as_deref(), read.limit, read.score), (Some("x"), 2, Some(1.0)));
    assert_eq!((read.order.as_deref(), read.page.page, read.cache), (Some("down"), 7, None));
}

#[test]
fn wrong_data_is_named() {
    for (options, problem) in [
        (json!({"query": " "}), "query must be a string that is not blank, got string ` `"),
        (json!({"limit": 0}), "limit must be an int of at least 1, got int `0`"),
        (json!({"score": 2}), "score must be a number from 0 to 1, got int `2`"),
        (json!({"order": "left"}), "order must be one of up, down, got string `left`"),
        (json!({"kinds": [1]}), "kinds[0] must be a string that is not blank, got int `1`"),
        (json!({"ranking": 1}), "ranking must be a closure, got int `1`"),
        (json!({"width": 1}), "width needs height"),
        (json!({"page": "x"}), "page must be a number"),
    ] {
        assert_eq!(search(options).err().as_deref(), Some(problem));
    }
}
