//! The arguments of a `launch` request.

use std::path::PathBuf;

use harn_syntax::suggest;
use harn_value::{Data as Json, data::Map};

/// The program to run and its settings.
#[derive(Debug, Default)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) task: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) replies: Option<PathBuf>,
    pub(super) stop_on_entry: bool,
    pub(super) observed: bool,
}

/// Arguments for the debugger.
const KEYS: [&str; 7] = ["program", "args", "task", "cwd", "llmMock", "stopOnEntry", "noDebug"];

/// Arguments that editors add for their own use.
const EDITORS: [&str; 12] = [
    "type",
    "request",
    "name",
    "presentation",
    "preLaunchTask",
    "postDebugTask",
    "internalConsoleOptions",
    "debugServer",
    "serverReadyAction",
    "suppressMultipleSessionWarning",
    "restart",
    "console",
];

/// Parses the arguments of a request.
///
/// # Errors
/// A message that names a missing, unknown or mistyped argument.
pub(super) fn read(arguments: &Json) -> Result<Launch, String> {
    let empty = Map::new();
    let given = match arguments {
        Json::Null => &empty,
        Json::Object(given) => given,
        _ => return Err("the arguments of `launch` must be an object".to_owned()),
    };
    for key in given.keys() {
        let known = KEYS.contains(&key.as_str()) || EDITORS.contains(&key.as_str()) || key.starts_with("__");
        if !known {
            let close = suggest::nearest(key, KEYS);
            let all = || format!("there are {}", KEYS.map(|known| format!("`{known}`")).join(", "));
            let fix = close.map_or_else(all, |close| format!("did you mean `{close}`?"));
            return Err(format!("`{key}` is not known: {fix}"));
        }
    }
    let wrong = |key: &str, what: &str, found: &Json| format!("`{key}` must be {what}, not {found}");
    let text = |key: &str| match given.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(key, "text", other)),
    };
    let flag = |key: &str| match given.get(key) {
        None | Some(Json::Null) => Ok(false),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong(key, "true or false", other)),
    };
    let args = match given.get("args") {
        None | Some(Json::Null) => Vec::new(),
        Some(list @ Json::Array(items)) => {
            let texts: Option<Vec<_>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(|| wrong("args", "a list of texts", list))?
        }
        Some(other) => return Err(wrong("args", "a list of texts", other)),
    };
    let program = text("program")?.filter(|program| !program.is_empty());
    Ok(Launch {
        program: program.ok_or("`program` is missing: the file to run")?.into(),
        args,
        task: text("task")?,
        cwd: text("cwd")?.filter(|folder| !folder.is_empty()),
        replies: text("llmMock")?.filter(|file| !file.is_empty()).map(PathBuf::from),
        stop_on_entry: flag("stopOnEntry")?,
        observed: !flag("noDebug")?,
    })
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn wrong_arguments_are_named() {
        let told = |arguments: Json| read(&arguments).unwrap_err();
        assert_eq!(told(json!(1)), "the arguments of `launch` must be an object");
        assert_eq!(told(json!({})), "`program` is missing: the file to run");
        assert_eq!(told(json!({"program": ""})), "`program` is missing: the file to run");
        assert_eq!(told(json!({"program": 3})), "`program` must be text, not 3");
        assert_eq!(told(json!({"program": "a", "taks": "x"})), "`taks` is not known: did you mean `task`?");
        assert_eq!(
            told(json!({"program": "a", "environment": {}})),
            "`environment` is not known: there are `program`, `args`, `task`, `cwd`, `llmMock`, `stopOnEntry`, `noDebug`"
        );
        assert_eq!(told(json!({"program": "a", "args": "x"})), "`args` must be a list of texts, not \"x\"");
        assert_eq!(
            told(json!({"program": "a", "args": ["x", 1]})),
            "`args` must be a list of texts, not [\"x\",1]"
        );
        assert_eq!(told(json!({"program": "a", "task": ["x"]})), "`task` must be text, not [\"x\"]");
        assert_eq!(told(json!({"program": "a", "cwd": 1})), "`cwd` must be text, not 1");
        assert_eq!(told(json!({"program": "a", "llmMock": {}})), "`llmMock` must be text, not {}");
        assert_eq!(
            told(json!({"program": "a", "stopOnEntry": "yes"})),
            "`stopOnEntry` must be true or false, not \"yes\""
        );
        assert_eq!(told(json!({"program": "a", "noDebug": 1})), "`noDebug` must be true or false, not 1");
    }

    #[test]
    fn what_editors_add_is_no_matter() {
        let launch = read(&json!({
            "type": "harn", "request": "launch", "name": "x", "__sessionId": "1", "preLaunchTask": "y", "program": "a",
            "args": ["x"], "task": null, "noDebug": true,
        }))
        .unwrap();
        assert_eq!((launch.program, launch.args), (PathBuf::from("a"), vec!["x".to_owned()]));
        assert!(launch.task.is_none() && !launch.observed && !launch.stop_on_entry);
    }
}
