//! The form of pending reminders in a request: a developer message, a block of the user message, or part of the system
//! prompt.

use harn_value::{Data as Value, data::Map};

use super::{Reminder, RoleHint};
use crate::fragment::Fragment;
use crate::untrusted;
use crate::value::object;

/// The relevant capabilities of a request's route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCaps {
    /// Capability `prefers_role_developer`.
    pub prefers_role_developer: bool,
    /// The request uses the Anthropic wire format.
    pub anthropic_wire: bool,
    /// Capability `prompt_caching`.
    pub prompt_caching: bool,
    /// Capability `prefers_xml_scaffolding`.
    pub prefers_xml_scaffolding: bool,
}

/// The placed reminders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// The messages of the request, with attached reminders. The messages of the transcript are not changed.
    pub messages: Vec<Value>,
    /// Reminders that become part of the system prompt, for [`crate::CallParts::reminders`].
    pub fragments: Vec<Fragment>,
}

/// Places each reminder in one request. `reminders` are ordered oldest first; those with higher authority are placed
/// first.
#[must_use]
pub fn place(reminders: &[Reminder], messages: &[Value], caps: SlotCaps) -> Placed {
    let plain = |body: &str| format!("System reminder:\n{}", untrusted::quote(body.trim()));
    let mut ordered: Vec<&Reminder> = reminders.iter().collect();
    ordered.sort_by_key(|reminder| reminder.authority);
    let mut developer = Vec::new();
    let mut blocks = Vec::new();
    let mut fragments = Vec::new();
    for reminder in ordered {
        let in_user_message = matches!(reminder.role_hint, RoleHint::UserBlock | RoleHint::EphemeralCache);
        if caps.prefers_role_developer {
            let content = plain(&reminder.body);
            developer.push(object([("role", "developer".into()), ("content", content.into())]));
        } else if caps.anthropic_wire && in_user_message {
            blocks.push(block(reminder, caps.prompt_caching));
        } else {
            let body = if caps.prefers_xml_scaffolding { xml(&reminder.body) } else { plain(&reminder.body) };
            let name = reminder.dedupe_key.as_ref().unwrap_or(&reminder.id);
            fragments.push(Fragment::new(format!("reminder:{name}"), "reminder", body));
        }
    }
    Placed { messages: attach(messages, developer, blocks), fragments }
}

fn xml(body: &str) -> String {
    let escaped = body.trim().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<system-reminder>\n{escaped}\n</system-reminder>")
}

fn block(reminder: &Reminder, caching: bool) -> Value {
    let mut block = Map::new();
    block.insert("type".into(), "text".into());
    block.insert("text".into(), xml(&reminder.body).into());
    if caching && reminder.role_hint == RoleHint::EphemeralCache {
        block.insert("cache_control".into(), object([("type", "ephemeral".into())]));
    }
    block.into()
}

fn attach(messages: &[Value], developer: Vec<Value>, blocks: Vec<Value>) -> Vec<Value> {
    let mut messages = messages.to_vec();
    let last_user = messages.iter().rposition(|m| m.get("role").and_then(Value::as_str) == Some("user"));
    if !blocks.is_empty() {
        match last_user {
            Some(index) => prepend_blocks(&mut messages[index], blocks),
            None => messages.push(object([("role", "user".into()), ("content", blocks.into())])),
        }
    }
    let place = last_user.unwrap_or(messages.len());
    messages.splice(place..place, developer);
    messages
}

fn prepend_blocks(message: &mut Value, blocks: Vec<Value>) {
    let Value::Object(map) = message else { return };
    let mut content = blocks;
    match map.get("content").cloned() {
        None | Some(Value::Null) => {}
        Some(Value::Array(own)) => content.extend(own),
        Some(Value::String(text)) => content.push(object([("type", "text".into()), ("text", text.into())])),
        Some(other) => content.push(other),
    }
    map.insert("content".into(), content.into());
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::reminder::Authority;

    fn reminder(id: &str, hint: RoleHint) -> Reminder {
        Reminder { id: id.into(), body: format!("{id} & <go>\n"), role_hint: hint, ..Reminder::default() }
    }

    fn messages() -> Vec<Value> {
        vec![
            json!({"role": "user", "content": "first"}),
            json!({"role": "assistant", "content": "a"}),
            json!({"role": "user", "content": "last"}),
            json!({"role": "assistant", "content": "b"}),
        ]
    }

    const XML: SlotCaps = SlotCaps {
        prefers_xml_scaffolding: true,
        anthropic_wire: true,
        prompt_caching: true,
        prefers_role_developer: false,
    };

    #[test]
    fn developer_routes_get_messages_before_the_last_user_message() {
        let caps = SlotCaps { prefers_role_developer: true, ..XML };
        let placed =
            place(&[reminder("a", RoleHint::System), reminder("b", RoleHint::UserBlock)], &messages(), caps);
        assert_eq!(placed.fragments, []);
        assert_eq!(placed.messages[2], json!({"role": "developer", "content": "System reminder:\na & <go>"}));
        assert_eq!(placed.messages[3]["content"], "System reminder:\nb & <go>");
        assert_eq!(placed.messages[4]["content"], "last");
        assert_eq!(placed.messages.len(), 6);
        let none = place(&[reminder("a", RoleHint::System)], &[], caps);
        assert_eq!(none.messages.len(), 1);
    }

    #[test]
    fn anthropic_blocks_stand_first_in_the_last_user_message() {
        let placed = place(
            &[reminder("a", RoleHint::UserBlock), reminder("b", RoleHint::EphemeralCache)],
            &messages(),
            XML,
        );
        assert_eq!(
            placed.messages[2],
            json!({"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\na &amp; &lt;go&gt;\n</system-reminder>"},
                {"type": "text", "text": "<system-reminder>\nb &amp; &lt;go&gt;\n</system-reminder>", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "last"}]})
        );
        let uncached = place(
            &[reminder("b", RoleHint::EphemeralCache)],
            &messages(),
            SlotCaps { prompt_caching: false, ..XML },
        );
        assert!(uncached.messages[2]["content"][0].get("cache_control").is_none());
        let alone = place(&[reminder("a", RoleHint::UserBlock)], &[], XML);
        assert_eq!(alone.messages[0]["role"], "user");
        assert_eq!(alone.messages[0]["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn blocks_join_blocks() {
        let own =
            [json!({"role": "user", "content": [{"type": "text", "text": "x"}]}), json!({"role": "user"})];
        let placed = place(&[reminder("a", RoleHint::UserBlock)], &own[..1], XML);
        assert_eq!(placed.messages[0]["content"].as_array().unwrap().len(), 2);
        let empty = place(&[reminder("a", RoleHint::UserBlock)], &own[1..], XML);
        assert_eq!(empty.messages[0]["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn everything_else_is_system_text() {
        let keyed = Reminder { dedupe_key: Some("k".into()), ..reminder("a", RoleHint::Developer) };
        let xml = place(std::slice::from_ref(&keyed), &messages(), XML);
        assert_eq!(xml.fragments[0].id, "reminder:k");
        assert_eq!(xml.fragments[0].source, "reminder");
        assert_eq!(xml.fragments[0].body, "<system-reminder>\na &amp; &lt;go&gt;\n</system-reminder>");
        let plain = place(&[reminder("b", RoleHint::UserBlock)], &messages(), SlotCaps::default());
        assert_eq!(plain.fragments[0].id, "reminder:b");
        assert_eq!(plain.fragments[0].body, "System reminder:\nb & <go>");
        assert_eq!(plain.messages, messages());
    }

    #[test]
    fn authority_goes_first_and_age_decides_among_equals() {
        let with = |id: &str, authority| Reminder { authority, ..reminder(id, RoleHint::System) };
        let list = [
            with("a", Authority::Advisory),
            with("b", Authority::Corrective),
            with("c", Authority::Contract),
            with("d", Authority::Advisory),
        ];
        let placed = place(&list, &[], SlotCaps::default());
        let ids: Vec<_> = placed.fragments.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["reminder:c", "reminder:b", "reminder:a", "reminder:d"]);
    }
}
