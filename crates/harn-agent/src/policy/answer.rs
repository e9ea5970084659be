//! What a program says when it is asked about a call.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// A list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleList {
    /// What is granted.
    Allow,
    /// What is denied, whatever is granted.
    Deny,
    /// What runs without a question.
    AutoApprove,
    /// What is denied without a question.
    AutoDeny,
    /// What runs if a human approves.
    RequireApproval,
}

impl RuleList {
    /// Returns the option and the key of the list in it.
    pub fn place(self) -> (&'static str, &'static str) {
        match self {
            RuleList::Allow => ("permissions", "allow"),
            RuleList::Deny => ("permissions", "deny"),
            RuleList::AutoApprove => ("approval_policy", "auto_approve"),
            RuleList::AutoDeny => ("approval_policy", "auto_deny"),
            RuleList::RequireApproval => ("approval_policy", "require_approval"),
        }
    }

    /// Whether a rule of the list lets a call pass: then a condition that cannot be decided does not match, else it does.
    pub fn permits(self) -> bool {
        matches!(self, RuleList::Allow | RuleList::AutoApprove)
    }

    /// Describes the effect of a condition that cannot be decided.
    pub fn undecided(self) -> &'static str {
        match self {
            RuleList::Allow | RuleList::Deny | RuleList::AutoDeny => "the call is not allowed",
            RuleList::AutoApprove => "the call is not approved by this rule",
            RuleList::RequireApproval => "the call needs approval",
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
