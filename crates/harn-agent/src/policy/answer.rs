//! The program's answers to questions about a call.

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// A list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleList {
    /// Calls that are granted.
    Allow,
    /// Calls that are denied, even if they are also granted.
    Deny,
    /// Calls that run without a question.
    AutoApprove,
    /// Calls that are denied without a question.
    AutoDeny,
    /// Calls that run if a human approves.
    RequireApproval,
}

impl RuleList {
    /// Returns the option and the list's key in it.
    pub fn place(self) -> (&'static str, &'static str) {
        match self {
            RuleList::Allow => ("permissions", "allow"),
            RuleList::Deny => ("permissions", "deny"),
            RuleList::AutoApprove => ("approval_policy", "auto_approve"),
            RuleList::AutoDeny => ("approval_policy", "auto_deny"),
            RuleList::RequireApproval => ("approval_policy", "require_approval"),
        }
    }

    /// Returns whether the list grants calls. If so, a condition that cannot be evaluated does not match; otherwise it
    /// does.
    pub fn permits(self) -> bool {
        matches!(self, RuleList::Allow | RuleList::AutoApprove)
    }

    /// Describes the effect of a condition that cannot be evaluated.
    pub fn undecided(self) -> &'static str {
        match self {
            RuleList::Allow | RuleList::Deny | RuleList::AutoDeny => "the call is not allowed",
            RuleList::AutoApprove => "the call is not approved by this rule",
            RuleList::RequireApproval => "the call needs approval",
        }
    }
}

/// The answer of `on_escalation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalated {
    /// Whether the call may run.
    pub granted: bool,
    /// Whether the same call may run again in the session without a question.
    pub for_session: bool,
    /// The reason.
    pub reason: Option<String>,
    /// The approver.
    pub approver: Option<String>,
}

impl Escalated {
    /// Reads the return value of `on_escalation`.
    ///
    /// # Errors
    /// A message that names the invalid part.
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
