//! System reminders: context for the next turns that expires automatically.
//!
//! A reminder is an event of a transcript, never a message. [`transcript`] implements its lifecycle (inject, clear,
//! count down, compact, inherit), [`slot`] its form in a request, [`providers`] the built-in providers.

pub mod effects;
pub mod providers;
pub mod slot;
pub mod transcript;

use harn_value::{Data as Value, data::Map};

pub use effects::{HostMode, hook_effects, host_reminder, provider_reminders};
pub use slot::{Placed, SlotCaps, place};
pub use transcript::{
    Cleared, Injected, Lifecycle, Survivors, clear, clear_reminders, compact, inherited, inject,
    inject_reminder, mark_fired, pending, post_turn, reminder_event, transcript_of,
};

use crate::value::{object, present};

/// An invalid reminder. Programs catch the display form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReminderError {
    /// An option is unknown.
    #[error("{function}: unknown option '{key}' ({code})")]
    UnknownKey {
        /// The function or producer.
        function: String,
        /// The diagnostic code.
        code: &'static str,
        /// The option.
        key: String,
    },
    /// An option has a wrong shape.
    #[error("{function}: {field} must be {expected} ({code})")]
    Field {
        /// The function or producer.
        function: String,
        /// The diagnostic code.
        code: &'static str,
        /// The option.
        field: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The first argument is not a transcript.
    #[error("{0}: argument must be a transcript")]
    NotATranscript(&'static str),
    /// The selector for reminders is missing.
    #[error("{0}: at least one of id, tag, dedupe_key is required")]
    NoSelector(String),
    /// Too many providers are enabled.
    #[error("reminders: {0} providers are enabled, at most 8 may be (HARN-RMD-007)")]
    TooManyProviders(usize),
    /// The option `reminders` names an unknown provider.
    #[error("reminders: unknown provider '{id}'; known are {} (HARN-RMD-001)", known.join(", "))]
    UnknownProvider {
        /// The unknown id.
        id: String,
        /// The built-in and registered providers.
        known: Vec<String>,
    },
    /// A provider subscribes to an unknown event.
    #[error("register_reminder_provider: unknown event '{0}'; known are {known}", known = providers::EVENTS.join(", "))]
    UnknownEvent(String),
    /// A hook of an event that does not support reminder effects returned one.
    #[error("{0}: this hook event takes no reminder effects (HARN-RMD-008)")]
    NoEffects(String),
}

impl ReminderError {
    /// Creates the error of an option of `function` with a wrong shape.
    #[must_use]
    pub fn option(function: &str, field: &str, expected: &'static str) -> Self {
        let (function, field) = (function.to_owned(), field.to_owned());
        Self::Field { function, code: Origin::Options.code(), field, expected }
    }

    /// Creates the error of an option that `function` does not have.
    #[must_use]
    pub fn unknown_option(function: &str, key: &str) -> Self {
        Self::UnknownKey { function: function.to_owned(), code: Origin::Options.code(), key: key.to_owned() }
    }
}

/// The origin of a reminder's fields; it determines the code of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Options of a builtin.
    Options,
    /// A host notification.
    Host,
    /// The result of a provider or hook.
    Provider,
}

impl Origin {
    fn code(self) -> &'static str {
        match self {
            Self::Options => "HARN-RMD-001",
            Self::Host => "HARN-RMD-002",
            Self::Provider => "HARN-RMD-006",
        }
    }
}

/// Declares an enum whose variants have names.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? } default $default:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// Returns the name used in records.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns the variant with the given name.
            #[must_use]
            pub fn named(word: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|variant| variant.as_str() == word)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }
    };
}

words! {
    /// The sub-agents into which a reminder is copied.
    Propagate {
        /// All levels.
        All = "all",
        /// Direct children only.
        Session = "session",
        /// None.
        None = "none",
    } default Session
}

words! {
    /// The preferred position of the reminder in the request.
    RoleHint {
        /// The system prompt.
        System = "system",
        /// A developer message.
        Developer = "developer",
        /// A block of the user message.
        UserBlock = "user_block",
        /// A block of the user message that ends the cached prefix.
        EphemeralCache = "ephemeral_cache",
    } default System
}

words! {
    /// The producer of the reminder.
    Source {
        /// A built-in or registered provider.
        StdlibProvider = "stdlib_provider",
        /// A hook.
        Hook = "hook",
        /// The host.
        Bridge = "bridge",
        /// The program itself.
        InPipeline = "in_pipeline",
        /// A copy from the parent agent.
        Inherited = "inherited",
    } default InPipeline
}

words! {
    /// The authority of a reminder: contracts are rendered first, then corrections, then advice.
    Authority {
        /// Part of an agreed contract.
        Contract = "contract",
        /// A correction.
        Corrective = "corrective",
        /// Advice.
        Advisory = "advisory",
    } default Advisory
}

/// One reminder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reminder {
    /// Name of this reminder.
    pub id: String,
    /// The content.
    pub body: String,
    /// Tags for selection.
    pub tags: Vec<String>,
    /// A newer reminder with the same key replaces pending ones.
    pub dedupe_key: Option<String>,
    /// The number of turns after which it expires; `None`: until it is cleared or removed by compaction.
    pub ttl_turns: Option<u64>,
    /// Whether it survives compaction.
    pub preserve_on_compact: bool,
    /// The sub-agents into which it is copied.
    pub propagate: Propagate,
    /// Its authority.
    pub authority: Authority,
    /// Its preferred position in the request.
    pub role_hint: RoleHint,
    /// Its producer.
    pub source: Source,
    /// The turn in which it was first shown.
    pub fired_at_turn: Option<u64>,
    /// The agent it was inherited from.
    pub originating_agent_id: Option<String>,
}

const KEYS: [&str; 12] = [
    "id",
    "body",
    "tags",
    "dedupe_key",
    "ttl_turns",
    "preserve_on_compact",
    "propagate",
    "authority",
    "role_hint",
    "source",
    "fired_at_turn",
    "originating_agent_id",
];

impl Reminder {
    /// Parses a reminder from options. `fresh_id` and `source` are used when the options do not set them.
    ///
    /// # Errors
    /// An option is unknown, the body is blank, or a value has a wrong shape.
    pub fn parse(
        function: &str,
        origin: Origin,
        options: &Value,
        fresh_id: &str,
        source: Source,
    ) -> Result<Self, ReminderError> {
        let reader = Reader { function, origin };
        let map = options.as_object().ok_or_else(|| reader.wrong("reminder", "a dict"))?;
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(ReminderError::UnknownKey {
                function: function.to_owned(),
                code: origin.code(),
                key: key.clone(),
            });
        }
        let body = map.get("body").and_then(Value::as_str).filter(|body| !body.trim().is_empty());
        Ok(Self {
            id: reader.text(map, "id")?.unwrap_or_else(|| fresh_id.to_owned()),
            body: body.ok_or_else(|| reader.wrong("body", "a non-blank string"))?.to_owned(),
            tags: reader.tags(map)?,
            dedupe_key: reader.text(map, "dedupe_key")?,
            ttl_turns: reader.positive(map, "ttl_turns")?,
            preserve_on_compact: reader.bool(map, "preserve_on_compact")?,
            propagate: reader.word(map, "propagate", "all, session or none", Propagate::named)?,
            authority: reader.word(map, "authority", "contract, corrective or advisory", Authority::named)?,
            role_hint: reader.word(
                map,
                "role_hint",
                "system, developer, user_block or ephemeral_cache",
                RoleHint::named,
            )?,
            source: match present(map, "source") {
                None => source,
                Some(_) => reader.word(
                    map,
                    "source",
                    "stdlib_provider, hook, bridge, in_pipeline or inherited",
                    Source::named,
                )?,
            },
            fired_at_turn: reader.whole(map, "fired_at_turn")?,
            originating_agent_id: reader.text(map, "originating_agent_id")?,
        })
    }

    /// Parses a record leniently: values with a wrong shape get their default. Returns `None` without a body.
    #[must_use]
    pub fn from_record(record: &Value) -> Option<Self> {
        let map = record.as_object()?;
        let text = |key| crate::value::text(map, key).map(str::to_owned);
        let word = |key| map.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            id: text("id").unwrap_or_default(),
            body: text("body")?,
            tags: map.get("tags").map(crate::value::names).unwrap_or_default(),
            dedupe_key: text("dedupe_key"),
            ttl_turns: map.get("ttl_turns").and_then(Value::as_u64).filter(|n| *n > 0),
            preserve_on_compact: crate::value::flag(map, "preserve_on_compact"),
            propagate: Propagate::named(word("propagate")).unwrap_or_default(),
            authority: Authority::named(word("authority")).unwrap_or_default(),
            role_hint: RoleHint::named(word("role_hint")).unwrap_or_default(),
            source: Source::named(word("source")).unwrap_or_default(),
            fired_at_turn: map.get("fired_at_turn").and_then(Value::as_u64),
            originating_agent_id: text("originating_agent_id"),
        })
    }

    /// Returns the record: all fields, nil where unset.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("id", self.id.clone().into()),
            ("body", self.body.clone().into()),
            ("tags", self.tags.clone().into()),
            ("dedupe_key", self.dedupe_key.clone().into()),
            ("ttl_turns", self.ttl_turns.into()),
            ("preserve_on_compact", self.preserve_on_compact.into()),
            ("propagate", self.propagate.as_str().into()),
            ("authority", self.authority.as_str().into()),
            ("role_hint", self.role_hint.as_str().into()),
            ("source", self.source.as_str().into()),
            ("fired_at_turn", self.fired_at_turn.into()),
            ("originating_agent_id", self.originating_agent_id.clone().into()),
        ])
    }
}

/// Parses options; errors name function, option and code.
struct Reader<'a> {
    function: &'a str,
    origin: Origin,
}

impl Reader<'_> {
    fn wrong(&self, field: &str, expected: &'static str) -> ReminderError {
        // Errors of `propagate` have their own code for every origin.
        let code = if field == "propagate" { "HARN-RMD-005" } else { self.origin.code() };
        ReminderError::Field { function: self.function.to_owned(), code, field: field.to_owned(), expected }
    }

    fn text(&self, map: &Map<String, Value>, key: &str) -> Result<Option<String>, ReminderError> {
        match present(map, key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "a non-blank string or nil")),
        }
    }

    fn tags(&self, map: &Map<String, Value>) -> Result<Vec<String>, ReminderError> {
        let Some(value) = present(map, "tags") else { return Ok(Vec::new()) };
        let items =
            value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        items.flatten().ok_or_else(|| self.wrong("tags", "a list of strings"))
    }

    fn whole(&self, map: &Map<String, Value>, key: &str) -> Result<Option<u64>, ReminderError> {
        match present(map, key) {
            None => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| self.wrong(key, "an int of at least 0 or nil"))
            }
        }
    }

    fn positive(&self, map: &Map<String, Value>, key: &str) -> Result<Option<u64>, ReminderError> {
        match present(map, key) {
            None => Ok(None),
            Some(value) => {
                let turns = value.as_u64().filter(|turns| *turns >= 1);
                turns.map(Some).ok_or_else(|| self.wrong(key, "an int of at least 1 or nil"))
            }
        }
    }

    fn bool(&self, map: &Map<String, Value>, key: &str) -> Result<bool, ReminderError> {
        match present(map, key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, "a bool")),
        }
    }

    fn word<T: Default>(
        &self,
        map: &Map<String, Value>,
        key: &str,
        expected: &'static str,
        named: fn(&str) -> Option<T>,
    ) -> Result<T, ReminderError> {
        match present(map, key) {
            None => Ok(T::default()),
            Some(value) => value.as_str().and_then(named).ok_or_else(|| self.wrong(key, expected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn parse(options: Value) -> Result<Reminder, String> {
        Reminder::parse("f", Origin::Options, &options, "r1", Source::InPipeline).map_err(|e| e.to_string())
    }

    #[test]
    fn a_reminder_has_its_defaults() {
        assert_eq!(
            parse(json!({"body": "b"})).unwrap().to_json(),
            json!({"id": "r1", "body": "b", "tags": [], "dedupe_key": null, "ttl_turns": null, "preserve_on_compact": false,
                "propagate": "session", "authority": "advisory", "role_hint": "system", "source": "in_pipeline",
                "fired_at_turn": null, "originating_agent_id": null})
        );
    }

    #[test]
    fn a_record_reads_back() {
        let full = json!({"id": "x", "body": "b", "tags": ["t"], "dedupe_key": "k", "ttl_turns": 2, "preserve_on_compact": true,
            "propagate": "all", "authority": "contract", "role_hint": "user_block", "source": "hook", "fired_at_turn": 0,
            "originating_agent_id": "a"});
        let reminder = parse(full.clone()).unwrap();
        assert_eq!(reminder.to_json(), full);
        assert_eq!(Reminder::from_record(&full), Some(reminder));
        assert_eq!(
            Reminder::from_record(&json!({"body": "b", "ttl_turns": -1, "propagate": 3})).unwrap().ttl_turns,
            None
        );
        assert_eq!(Reminder::from_record(&json!({"body": " "})), None);
    }

    #[test]
    fn wrong_options_are_named_with_their_code() {
        let error = |options: Value| parse(options).unwrap_err();
        assert_eq!(error(json!({})), "f: body must be a non-blank string (HARN-RMD-001)");
        assert_eq!(error(json!({"body": " "})), "f: body must be a non-blank string (HARN-RMD-001)");
        assert_eq!(error(json!({"body": "b", "colour": 1})), "f: unknown option 'colour' (HARN-RMD-001)");
        assert_eq!(
            error(json!({"body": "b", "ttl_turns": 0})),
            "f: ttl_turns must be an int of at least 1 or nil (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"body": "b", "propagate": "x"})),
            "f: propagate must be all, session or none (HARN-RMD-005)"
        );
        assert_eq!(
            error(json!({"body": "b", "role_hint": "x"})),
            "f: role_hint must be system, developer, user_block or ephemeral_cache (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"body": "b", "tags": "t"})),
            "f: tags must be a list of strings (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"body": "b", "tags": [1]})),
            "f: tags must be a list of strings (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"body": "b", "dedupe_key": ""})),
            "f: dedupe_key must be a non-blank string or nil (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"body": "b", "preserve_on_compact": 1})),
            "f: preserve_on_compact must be a bool (HARN-RMD-001)"
        );
        assert_eq!(error(json!("b")), "f: reminder must be a dict (HARN-RMD-001)");
        let host =
            Reminder::parse("session/remind", Origin::Host, &json!({}), "r", Source::Bridge).unwrap_err();
        assert_eq!(host.to_string(), "session/remind: body must be a non-blank string (HARN-RMD-002)");
    }
}
