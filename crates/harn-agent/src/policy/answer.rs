//! What a program says when it is asked about a call.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// The two lists of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleList {
    /// What is granted.
    Allow,
    /// What is refused, whatever is granted.
    Deny,
}

impl RuleList {
    /// Returns the key of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleList::Allow => "allow",
            RuleList::Deny => "deny",
        }
    }
}

/// What `on_escalation` said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalated {
    /// Whether the call may run.
    pub granted: bool,
    /// Whether the same call may run again in the session without asking.
    pub for_session: bool,
    /// Why.
    pub reason: Option<String>,
    /// Who said so.
    pub approver: Option<String>,
}

impl Escalated {
    /// Reads the value that `on_escalation` returned.
    ///
    /// # Errors
    /// A text that names what cannot be understood.
    pub fn read(value: &Json) -> Result<Escalated, String> {
        let plain = |granted, for_session| Escalated { granted, for_session, reason: None, approver: None };
        let wrong = || {
            format!(
                "permissions on_escalation must return false, true, 'once', 'session', or {{grant}}, got {}",
                value.type_name()
            )
        };
        match value {
            Json::Null | Json::Bool(false) => Ok(plain(false, false)),
            Json::Bool(true) => Ok(plain(true, false)),
            Json::String(word) => match word.as_str() {
                "once" => Ok(plain(true, false)),
                "session" => Ok(plain(true, true)),
                other => Err(format!("permissions on_escalation returned unsupported grant scope '{other}'")),
            },
            Json::Object(map) => {
                let grant = map.get("grant").or_else(|| map.get("granted")).ok_or_else(wrong)?;
                if grant.is_object() || grant.is_array() || grant.is_number() {
                    return Err(wrong());
                }
                let text = |key| map.get(key).filter(|v| !v.is_null()).map(Json::printed);
                Ok(Escalated {
                    reason: text("reason"),
                    approver: text("approver"),
                    ..Escalated::read(grant)?
                })
            }
            _ => Err(wrong()),
        }
    }
}
