//! The built-in reminder providers: when they fire and which reminders they create.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

use super::{Propagate, Reminder, ReminderError, RoleHint, Source};
use crate::prose::{Prose, ProseError, agent_asset};
use crate::value::{flag, present};

/// Events that a provider may subscribe to.
pub const EVENTS: [&str; 8] = [
    "session_start",
    "pre_turn",
    "post_turn",
    "post_tool",
    "post_compact",
    "session_resume",
    "daemon_idle",
    "budget_pressure",
];

/// The maximum number of enabled providers.
pub(crate) const MAX_PROVIDERS: usize = 8;

/// A built-in provider.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its id; also the stem of its asset, after `reminder_`.
    pub id: &'static str,
    /// The events it subscribes to.
    pub subscribes_to: &'static [&'static str],
    /// Returns whether an event with this payload triggers a reminder under this configuration.
    pub fires: fn(&Map<String, Value>, &Map<String, Value>) -> bool,
    /// The keys of its configuration; their values are non-negative integers.
    pub settings: &'static [&'static str],
    /// The tag of its reminders.
    pub tag: &'static str,
    /// The lifetime of its reminders in turns.
    pub ttl_turns: u64,
    /// The preferred position of its reminders in the request.
    pub role_hint: RoleHint,
    /// The sub-agents into which its reminders are copied.
    pub propagate: Propagate,
    /// Whether its reminders survive compaction.
    pub preserve_on_compact: bool,
}

/// The defaults of built-in providers.
const ORDINARY: BuiltIn = BuiltIn {
    id: "",
    subscribes_to: &[],
    fires: |_, _| true,
    settings: &[],
    tag: "",
    ttl_turns: 1,
    role_hint: RoleHint::System,
    propagate: Propagate::None,
    preserve_on_compact: false,
};

/// The built-in providers, in order of evaluation.
pub const BUILT_IN: [BuiltIn; 6] = [
    BuiltIn {
        id: "token_pressure",
        subscribes_to: &["pre_turn"],
        fires: |payload, _| payload.contains_key("level"),
        settings: &["context_window"],
        tag: "token_pressure",
        ttl_turns: 2,
        role_hint: RoleHint::Developer,
        propagate: Propagate::Session,
        ..ORDINARY
    },
    BuiltIn {
        id: "idle_nudge",
        subscribes_to: &["daemon_idle"],
        fires: |payload, config| {
            number(payload, "idle_seconds") >= number(config, "idle_seconds").or(Some(60))
        },
        settings: &["idle_seconds"],
        tag: "idle",
        ..ORDINARY
    },
    BuiltIn {
        id: "tool_output_truncated",
        subscribes_to: &["post_tool"],
        fires: |payload, _| flag(payload, "truncated"),
        tag: "truncation",
        ..ORDINARY
    },
    BuiltIn {
        id: "post_compact_recap",
        subscribes_to: &["post_compact"],
        tag: "recap",
        ttl_turns: 2,
        propagate: Propagate::Session,
        ..ORDINARY
    },
    BuiltIn {
        id: "resume_continuity",
        subscribes_to: &["session_resume"],
        tag: "resume_continuity",
        preserve_on_compact: true,
        ..ORDINARY
    },
    BuiltIn {
        id: "project_facts",
        subscribes_to: &["session_start", "budget_pressure"],
        fires: |payload, _| {
            payload.get("facts").and_then(Value::as_array).is_some_and(|facts| !facts.is_empty())
        },
        tag: "project_facts",
        propagate: Propagate::Session,
        ..ORDINARY
    },
];

impl BuiltIn {
    /// Finds a built-in provider by its id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        BUILT_IN.into_iter().find(|provider| provider.id == id)
    }

    /// Creates the provider's reminder for an event, if the event triggers one. The payload contains the bindings of
    /// the asset `reminder_<id>`. Its `tool_name` is part of the key of `tool_output_truncated`, and at the highest
    /// pressure level the reminder survives compaction.
    ///
    /// # Errors
    /// The asset cannot be rendered.
    pub fn reminder(
        &self,
        id: &str,
        payload: &Map<String, Value>,
        config: &Map<String, Value>,
        prose: &dyn Prose,
    ) -> Result<Option<Reminder>, ProseError> {
        if !(self.fires)(payload, config) {
            return Ok(None);
        }
        let body = prose.render(&agent_asset(&format!("reminder_{}", self.id)), payload)?;
        let key = match payload.get("tool_name").and_then(Value::as_str) {
            Some(tool) if self.id == "tool_output_truncated" => format!("{}:{tool}", self.id),
            _ => self.id.to_owned(),
        };
        Ok(Some(Reminder {
            id: id.to_owned(),
            body: body.trim().to_owned(),
            tags: vec![self.tag.to_owned()],
            dedupe_key: Some(key),
            ttl_turns: Some(self.ttl_turns),
            preserve_on_compact: self.preserve_on_compact
                || number(payload, "level") == LEVELS.first().copied(),
            propagate: self.propagate,
            role_hint: self.role_hint,
            source: Source::StdlibProvider,
            ..Reminder::default()
        }))
    }
}

/// Checks the configuration of a built-in provider; the program's own providers check theirs.
fn check_settings(id: &str, settings: &Map<String, Value>) -> Result<(), ReminderError> {
    let Some(provider) = BuiltIn::named(id) else { return Ok(()) };
    let function = format!("reminders: config.{id}");
    for (key, value) in settings {
        if !provider.settings.contains(&key.as_str()) {
            return Err(ReminderError::unknown_option(&function, key));
        }
        if !value.is_null() && value.as_u64().is_none() {
            return Err(ReminderError::option(&function, key, "an int of at least 0 or nil"));
        }
    }
    Ok(())
}

fn number(map: &Map<String, Value>, key: &str) -> Option<u64> {
    map.get(key).and_then(Value::as_u64)
}

/// Pressure levels in percent, highest first.
const LEVELS: [u64; 3] = [95, 85, 70];

/// Returns the pressure level of a limit: 70, 85 or 95 percent, `None` below.
#[must_use]
pub fn pressure_level(used: u64, limit: u64) -> Option<u64> {
    let percent = used.saturating_mul(100).checked_div(limit)?;
    LEVELS.into_iter().find(|level| percent >= *level)
}

/// The providers that the option `reminders` selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Ids of the enabled providers, in order of evaluation.
    pub enabled: Vec<String>,
    /// Provider id to its configuration.
    pub config: BTreeMap<String, Map<String, Value>>,
}

/// Parses the option `reminders`. `registered` are the ids of the program's own providers, which run after the built-in
/// ones. `false` and `{enabled: false}` disable all providers, `"-id"` disables one, and plain ids enable only those.
///
/// # Errors
/// The option has a wrong shape, a provider is unknown, or more than eight are enabled.
pub fn select(option: &Value, registered: &[String]) -> Result<Selection, ReminderError> {
    let wrong = |field: &str, expected| ReminderError::option("reminders", field, expected);
    let none = Map::new();
    let dict = match option {
        Value::Null | Value::Bool(true) => &none,
        Value::Bool(false) => return Ok(Selection::default()),
        other => other.as_object().ok_or_else(|| wrong("option", "a bool or a dict"))?,
    };
    if let Some(key) = dict.keys().find(|key| !["enabled", "providers", "config"].contains(&key.as_str())) {
        return Err(ReminderError::unknown_option("reminders", key));
    }
    match present(dict, "enabled") {
        None | Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Ok(Selection::default()),
        Some(_) => return Err(wrong("enabled", "a bool or nil")),
    }
    let mut enabled: Vec<String> = BUILT_IN.iter().map(|provider| provider.id.to_owned()).collect();
    enabled.extend(registered.iter().cloned());
    let known = enabled.clone();
    let check = |id: &str| match known.iter().any(|known| known == id) {
        true => Ok(()),
        false => Err(ReminderError::UnknownProvider { id: id.to_owned(), known: known.clone() }),
    };
    if let Some(list) = present(dict, "providers") {
        let list = list.as_array().ok_or_else(|| wrong("providers", "a list of provider ids"))?;
        let list: Vec<String> = list.iter().map(Value::printed).collect();
        list.iter().try_for_each(|id| check(id.trim_start_matches('-')))?;
        let kept: Vec<&String> = list.iter().filter(|id| !id.starts_with('-')).collect();
        let dropped = |id: &str| list.iter().any(|entry| entry.strip_prefix('-') == Some(id));
        enabled.retain(|id| (kept.is_empty() || kept.contains(&id)) && !dropped(id));
    }
    if enabled.len() > MAX_PROVIDERS {
        return Err(ReminderError::TooManyProviders(enabled.len()));
    }
    let mut config = BTreeMap::new();
    if let Some(given) = present(dict, "config") {
        for (id, settings) in given.as_object().ok_or_else(|| wrong("config", "a dict of dicts"))? {
            check(id)?;
            let settings = settings.as_object().ok_or_else(|| wrong("config", "a dict of dicts"))?;
            check_settings(id, settings)?;
            config.insert(id.clone(), settings.clone());
        }
    }
    Ok(Selection { enabled, config })
}

/// Checks the events of `register_reminder_provider`.
///
/// # Errors
/// The first unknown event.
pub fn check_events(events: &[String]) -> Result<(), ReminderError> {
    match events.iter().find(|event| !EVENTS.contains(&event.as_str())) {
        Some(event) => Err(ReminderError::UnknownEvent(event.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn prose(name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
        Ok(format!("{} {}\n", name.rsplit('/').next().unwrap(), Value::Object(bindings.clone()).printed()))
    }

    #[test]
    fn the_table_has_the_contracts_shapes() {
        let shape = |id: &str| {
            let p = BuiltIn::named(id).unwrap();
            (p.tag, p.ttl_turns, p.role_hint.as_str(), p.preserve_on_compact, p.propagate.as_str())
        };
        assert_eq!(shape("token_pressure"), ("token_pressure", 2, "developer", false, "session"));
        assert_eq!(shape("idle_nudge"), ("idle", 1, "system", false, "none"));
        assert_eq!(shape("tool_output_truncated"), ("truncation", 1, "system", false, "none"));
        assert_eq!(shape("post_compact_recap"), ("recap", 2, "system", false, "session"));
        assert_eq!(shape("resume_continuity"), ("resume_continuity", 1, "system", true, "none"));
        assert_eq!(shape("project_facts"), ("project_facts", 1, "system", false, "session"));
        assert!(BUILT_IN.iter().flat_map(|p| p.subscribes_to).all(|event| EVENTS.contains(event)));
    }

    fn reminder(id: &str, payload: Value, config: Value) -> Option<Reminder> {
        let (payload, config) = (payload.as_object().cloned().unwrap(), config.as_object().cloned().unwrap());
        BuiltIn::named(id).unwrap().reminder("r", &payload, &config, &prose).unwrap()
    }

    #[test]
    fn pressure_has_three_levels() {
        let levels: Vec<_> =
            [69, 70, 84, 85, 94, 95, 200].iter().map(|used| pressure_level(*used, 100)).collect();
        assert_eq!(levels, [None, Some(70), Some(70), Some(85), Some(85), Some(95), Some(95)]);
        assert_eq!(pressure_level(10, 0), None);
        let at = |level: u64| reminder("token_pressure", json!({"level": level}), json!({})).unwrap();
        assert!(!at(85).preserve_on_compact);
        let last = at(95);
        assert!(last.preserve_on_compact);
        assert_eq!(last.dedupe_key.as_deref(), Some("token_pressure"));
        assert_eq!(last.body, "reminder_token_pressure.harn.prompt {level: 95}");
    }

    #[test]
    fn providers_fire_when_there_is_something_to_remind_of() {
        let fires = |id: &str, payload: Value, config: Value| reminder(id, payload, config).is_some();
        assert!(!fires("token_pressure", json!({"used_tokens": 3}), json!({})));
        assert!(!fires("idle_nudge", json!({"idle_seconds": 59}), json!({})));
        assert!(fires("idle_nudge", json!({"idle_seconds": 60}), json!({})));
        assert!(fires("idle_nudge", json!({"idle_seconds": 5}), json!({"idle_seconds": 5})));
        assert!(!fires("idle_nudge", json!({}), json!({})));
        assert!(!fires("tool_output_truncated", json!({"truncated": false}), json!({})));
        assert!(fires("post_compact_recap", json!({}), json!({})));
        assert!(fires("resume_continuity", json!({}), json!({})));
        assert!(!fires("project_facts", json!({"facts": []}), json!({})));
        assert!(fires("project_facts", json!({"facts": ["a"]}), json!({})));
    }

    #[test]
    fn truncation_is_keyed_by_tool() {
        let reminder =
            reminder("tool_output_truncated", json!({"tool_name": "read", "truncated": true}), json!({}))
                .unwrap();
        assert_eq!(reminder.dedupe_key.as_deref(), Some("tool_output_truncated:read"));
        assert_eq!(reminder.source, Source::StdlibProvider);
    }

    #[test]
    fn the_option_selects_providers() {
        let own = ["mine".to_owned()];
        let ids = |option: Value| select(&option, &own).map(|s| s.enabled);
        assert_eq!(ids(json!(null)).unwrap().len(), 7);
        assert_eq!(ids(json!(true)).unwrap().last().map(String::as_str), Some("mine"));
        assert!(ids(json!(false)).unwrap().is_empty());
        assert!(ids(json!({"enabled": false})).unwrap().is_empty());
        assert!(
            !ids(json!({"providers": ["-token_pressure"]})).unwrap().contains(&"token_pressure".to_owned())
        );
        assert_eq!(ids(json!({"providers": ["mine", "idle_nudge", "-mine"]})).unwrap(), ["idle_nudge"]);
        let config = select(&json!({"config": {"idle_nudge": {"idle_seconds": 5}}}), &[]).unwrap().config;
        assert_eq!(config["idle_nudge"]["idle_seconds"], 5);
    }

    #[test]
    fn wrong_options_are_refused() {
        let many: Vec<String> = (0..3).map(|i| format!("p{i}")).collect();
        let error = |option: Value, own: &[String]| select(&option, own).unwrap_err().to_string();
        assert_eq!(
            error(json!(true), &many),
            "reminders: 9 providers are enabled, at most 8 may be (HARN-RMD-007)"
        );
        assert_eq!(error(json!("x"), &[]), "reminders: option must be a bool or a dict (HARN-RMD-001)");
        assert_eq!(error(json!({"x": 1}), &[]), "reminders: unknown option 'x' (HARN-RMD-001)");
        assert!(
            error(json!({"providers": ["-nobody"]}), &many[..1])
                .starts_with("reminders: unknown provider 'nobody'; known are token_pressure, idle_nudge, ")
        );
        assert!(
            error(json!({"config": {"idle": {}}}), &[]).starts_with("reminders: unknown provider 'idle'; ")
        );
        assert!(error(json!({"config": {"idle_nudge": 1}}), &[]).contains("a dict of dicts"));
        assert_eq!(
            error(json!({"config": {"idle_nudge": {"seconds": 1}}}), &[]),
            "reminders: config.idle_nudge: unknown option 'seconds' (HARN-RMD-001)"
        );
        assert!(
            error(json!({"config": {"idle_nudge": {"idle_seconds": -1}}}), &[])
                .contains("an int of at least 0")
        );
        assert_eq!(
            error(json!({"enabled": 5}), &[]),
            "reminders: enabled must be a bool or nil (HARN-RMD-001)"
        );
        assert!(select(&json!({"config": {"p0": {"any": "thing"}}}), &many[..1]).is_ok());
        assert_eq!(
            check_events(&["pre_turn".into(), "lunch".into()]).unwrap_err().to_string(),
            "register_reminder_provider: unknown event 'lunch'; known are session_start, pre_turn, post_turn, post_tool, post_compact, session_resume, daemon_idle, budget_pressure"
        );
        assert!(check_events(&EVENTS.map(str::to_owned)).is_ok());
    }
}
