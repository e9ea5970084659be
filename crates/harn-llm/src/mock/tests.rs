use super::*;

thread_local! {
    static NO_TOOLS: &'static NativeTools = Box::leak(Box::default());
}

fn ask<'a>(messages: &'a Conversation, thinking: &'a Value) -> Ask<'a> {
    let tools = NO_TOOLS.with(|tools| *tools);
    Ask {
        model: "m",
        messages,
        system: None,
        tools,
        thinking,
        cache: false,
        in_words: false,
        schema: None,
        unechoed: None,
    }
}

fn user(text: &str) -> Conversation {
    Conversation::from_json(&[json!({"role": "user", "content": text})]).unwrap()
}

fn text_of(state: &mut MockState, prompt: &str) -> String {
    let messages = user(prompt);
    match state.scripted(&ask(&messages, &Value::Null)) {
        Some(Ok(answer)) => answer.response.text,
        Some(Err(e)) => format!("error: {e}"),
        None => "-".into(),
    }
}

#[test]
fn fifo_first_then_patterns_in_order() {
    let mut state = MockState::default();
    for dict in [
        json!({"text": "p1", "match": "*plan*", "consume_match": true}),
        json!({"text": "p2", "match": "*plan*"}),
        json!({"text": "exact", "match": "say it"}),
        json!({"text": "fifo"}),
    ] {
        state.push(&dict).unwrap();
    }
    assert_eq!(text_of(&mut state, "make a plan"), "fifo");
    assert_eq!(text_of(&mut state, "make a plan"), "p1");
    assert_eq!(text_of(&mut state, "make a plan"), "p2");
    assert_eq!(text_of(&mut state, "make a plan"), "p2");
    assert_eq!(text_of(&mut state, "say it"), "exact");
    assert_eq!(text_of(&mut state, "other"), "-");
}

#[test]
fn the_default_reply_echoes() {
    let mut state = MockState::default();
    let messages = user("Hello world");
    let answer = state.default_answer(&ask(&messages, &Value::Null));
    assert_eq!(answer.response.text, "Mock response to 2-word prompt: Hello world");
    assert_eq!((answer.response.usage.input, answer.response.usage.output), (Some(11), Some(30)));
    assert_eq!(answer.chunks.concat(), answer.response.text);
    let empty = state.default_answer(&ask(&Conversation::new(), &Value::Null));
    assert_eq!(empty.response.text, "Mock LLM response");
    let streamed = state.default_answer(&Ask { in_words: true, ..ask(&messages, &Value::Null) });
    assert_eq!(
        (streamed.response.text.as_str(), streamed.chunks),
        ("Helloworld", vec!["Hello".into(), "world".into()])
    );
    let mut done = ask(&messages, &Value::Null);
    done.system = Some("use <done>");
    done.unechoed = Some("world");
    assert_eq!(
        state.default_answer(&done).response.text,
        "<assistant_prose>Mock response to 2-word prompt: Hello </assistant_prose>\n<done>##DONE##</done>"
    );
}

#[test]
fn the_default_reply_calls_the_first_tool() {
    let mut state = MockState::default();
    let (messages, thinking) = (user("x"), Value::Null);
    let tools = NativeTools::new(vec![
        json!({"type": "tool_search", "execution": "server"}),
        json!({"type": "function", "function": {"name": "t", "parameters": {"type": "object",
            "properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "array"}},
            "required": ["a", "n"]}}}),
    ]);
    let mut with_tools = ask(&messages, &thinking);
    with_tools.tools = &tools;
    let answer = state.default_answer(&with_tools).response;
    assert_eq!(
        answer.tool_calls_json(),
        [json!({"id": "mock_call_1", "name": "t", "arguments": {"a": "", "n": 0}, "type": "tool_call"})]
    );
    assert_eq!((answer.text.as_str(), answer.usage.output), ("", Some(20)));
}

#[test]
fn errors_carry_category_and_hint() {
    let mut state = MockState::default();
    state
        .push(&json!({"error": {"category": "rate_limit", "message": "slow", "retry_after_ms": 1500}}))
        .unwrap();
    let messages = user("x");
    let error = state.scripted(&ask(&messages, &Value::Null)).unwrap().unwrap_err();
    assert_eq!((error.message.as_str(), error.retry_after_ms), ("slow\nretry-after: 1.5", Some(1500)));
}

#[test]
fn wrong_dicts_are_named() {
    let error = |v: Value| Mock::from_json(&v).unwrap_err();
    assert_eq!(error(json!(1)), "llm_mock: expected a dict argument");
    assert_eq!(
        error(json!({"error": "x"})),
        "llm_mock: error must be a dict {category, message, retry_after_ms?}"
    );
    assert_eq!(error(json!({"error": {}})), "llm_mock: error.category is required");
    assert_eq!(error(json!({"error": {"category": "zzz"}})), "llm_mock: unknown error category `zzz`");
    assert_eq!(
        error(json!({"error": {"category": "auth", "retry_after_ms": -1}})),
        "llm_mock: error.retry_after_ms must be a non-negative int"
    );
}

#[test]
fn scopes_stash_and_restore() {
    let mut state = MockState::default();
    state.push(&json!({"text": "outer"})).unwrap();
    state.push_scope();
    assert!(!state.is_active());
    state.push(&json!({"text": "inner"})).unwrap();
    state.pop_scope().unwrap();
    assert_eq!(text_of(&mut state, "x"), "outer");
    assert_eq!(state.pop_scope().unwrap_err(), "llm_mock_pop_scope: no scope to pop");
}

#[test]
fn the_imagined_cache_is_written_then_read() {
    let mut state = MockState::default();
    let messages = user("cached");
    let thinking = Value::Null;
    let mut cached = ask(&messages, &thinking);
    cached.cache = true;
    let first = state.default_answer(&cached).response.usage;
    let second = state.default_answer(&cached).response.usage;
    assert_eq!((first.cache_write, first.cache_read), (Some(6), None));
    assert_eq!((second.cache_write, second.cache_read), (None, Some(6)));
}

#[test]
fn fixtures_round_trip_and_name_bad_lines() {
    let mock = Mock::from_json(
        &json!({"text": "a b", "tool_calls": [{"name": "t", "args": {"k": 1}}], "stop_reason": "stop"}),
    );
    let answer = mock.unwrap().answer(3).unwrap().response;
    let line = fixture_line(Ok(&answer));
    let again = parse_fixtures("f", &format!("\n{line}\n")).unwrap()[0].answer(0).unwrap().response;
    assert_eq!((again.text, again.tool_calls, again.usage), (answer.text, answer.tool_calls, answer.usage));
    let error = parse_fixtures("f.jsonl", "{}\n\nnope").unwrap_err();
    assert_eq!(error, "invalid JSON in f.jsonl line 3: expected ident at column 2");
    assert!(
        parse_fixtures("f", "\u{feff}{\"text\": \"x\"}").is_ok(),
        "a byte order mark is no part of the text"
    );
    let error = parse_fixtures("f.jsonl", "{\"txt\": \"x\"}").unwrap_err();
    assert_eq!(
        error,
        "invalid --llm-mock fixture in f.jsonl line 1: unknown key `txt` (did you mean `text`?)"
    );
    let error = parse_fixtures("f.jsonl", "{\"bad\": 1}").unwrap_err();
    assert!(
        error.starts_with(
            "invalid --llm-mock fixture in f.jsonl line 1: unknown key `bad`; there are asked, "
        ),
        "{error}"
    );
}

#[test]
fn replay_without_a_match_is_an_error() {
    let mut state = MockState::default();
    state.set_replay(parse_fixtures("f", "{\"match\": \"x*\"}").unwrap());
    assert_eq!(text_of(&mut state, "hello"), "error: No --llm-mock fixture matched prompt: \"hello\"");
}

#[test]
fn globs_anchor_their_ends() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("abc", "abc", true),
        ("abc", "abcd", false),
        ("a*c", "abbc", true),
        ("a*c", "abcd", false),
        ("*b*d*", "abcde", true),
        ("ab*b", "ab", false),
    ] {
        assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn wrong_fields_of_fixtures_are_named() {
    let error = |line: &str| parse_fixtures("f", line).unwrap_err();
    for (line, reason) in [
        ("[]", "fixture line must be a JSON object"),
        (r#"{"text": 5}"#, "`text` must be a string"),
        (r#"{"input_tokens": "5"}"#, "`input_tokens` must be an integer"),
        (r#"{"call": "1"}"#, "`call` must be an integer"),
        (r#"{"call": -1}"#, "call must be an int of at least 1, got int `-1`"),
        (r#"{"tool_calls": {}}"#, "tool_calls must be an array"),
        (r#"{"tool_calls": [{"args": {}}]}"#, "tool_calls[0] is missing string field `name`"),
        (r#"{"error": {}}"#, "error.category is required"),
        (r#"{"error": {"category": "x"}}"#, "unknown error category `x`"),
        (
            r#"{"error": {"category": "timeout", "retry_after_ms": -1}}"#,
            "error.retry_after_ms must be a non-negative integer",
        ),
    ] {
        assert_eq!(error(line), format!("invalid --llm-mock fixture in f line 1: {reason}"));
    }
}
