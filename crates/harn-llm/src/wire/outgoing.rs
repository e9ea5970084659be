//! Converts a conversation to turns that its provider accepts, whatever the conversation contains.
//!
//! The conversion pairs calls with results, makes ids unique in the provider's alphabet, maps names, converts arguments
//! to objects, removes blank parts, and makes user and model alternate. Formats serialize [`Turn`]s and do not see a
//! [`Message`].
//!
//! Each part is serialized once. A *unit* is a run of messages whose turns no later message can change. Its
//! serialization is cached in the conversation (see [`Written`]), so that a request serializes only new units.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::LazyLock;

use bytes::Bytes;
use harn_prompt::untrusted::{quote, quote_name};
use harn_value::{Data as Value, json};

use super::WireStyle;
use super::names::{digest, letters, wire_name};
use super::out::Items;
use super::written::{Key, Written};
use crate::capabilities::model_version;
use crate::conversation::Conversation;
use crate::dialect::Dialect;
use crate::error::CallError;
use crate::json::str_at;
use crate::media::{Document, Image, image_notice};
use crate::message::{ContentBlock, Message, Role, result_text};
use crate::request::Request;
use crate::result_parts::ResultParts;

/// The user turn that is appended when a conversation must not end with the model's turn.
const CONTINUE: &str = "Continue.";

/// The user turn that is inserted when a conversation must not start with the model's turn.
const BEGINNING: &str = "[earlier messages were removed]";

/// The result of a call without a result.
pub(crate) const NO_RESULT: &str = "[no result: the call was interrupted]";

/// From this version on, Claude rejects a conversation that ends with the model's turn.
const NO_PREFILL: (u32, u32) = (4, 6);

/// Returns whether a model continues a prefilled reply. Only newer versions of Claude reject it.
pub(super) fn takes_prefill(model: &str) -> bool {
    model_version(model).is_none_or(|version| version < NO_PREFILL)
}

/// Returns whether a model is one of Anthropic's.
pub(super) fn is_claude(model: &str) -> bool {
    model.contains("claude")
}

/// The author of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    System,
    Developer,
    User,
    Model,
}

/// A turn: consecutive content of one side. It has at least one part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn<'m> {
    pub(super) side: Side,
    /// Tool results come first, in the order of their calls.
    pub(super) parts: Vec<Part<'m>>,
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part<'m> {
    /// Non-blank text.
    Text {
        text: Cow<'m, str>,
        /// Its `cache_control`, if the message sets one.
        mark: Option<&'m Value>,
        /// Whether it is the first text of a message, and thus separated from preceding text.
        apart: bool,
        /// Its opaque provider data.
        data: Option<&'m Value>,
    },
    Image(Cow<'m, Image>),
    Document(Cow<'m, Document>),
    /// Reasoning that is sent back.
    Thought {
        text: &'m str,
        signature: Option<&'m str>,
    },
    Call(Call<'m>),
    Result(Answer<'m>),
    /// A block in the provider's own form: the caller's, or opaque data of an earlier reply.
    Own(&'m Value),
}

/// A tool call. Each has a result in the user turn that follows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call<'m> {
    pub(super) id: Cow<'m, str>,
    pub(super) name: Cow<'m, str>,
    /// Always an object.
    pub(super) arguments: Cow<'m, Value>,
    /// Its opaque provider data.
    pub(super) data: Option<&'m Value>,
}

/// The result of a call in the preceding model turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer<'m> {
    pub(super) id: Cow<'m, str>,
    pub(super) name: Cow<'m, str>,
    pub(super) content: Cow<'m, Value>,
    /// The content, split into text, images and documents.
    pub(super) parts: ResultParts,
    pub(super) failed: bool,
    /// The opaque provider data of the call.
    pub(super) data: Option<&'m Value>,
}

impl Turn<'_> {
    fn user(text: &'static str) -> Turn<'static> {
        let part = Part::Text { text: text.into(), mark: None, apart: true, data: None };
        Turn { side: Side::User, parts: vec![part] }
    }

    /// Returns the calls of the turn.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call<'_>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the provider's own data in the turn.
    pub(super) fn own(&self) -> impl Iterator<Item = &Value> {
        self.parts.iter().filter_map(|part| match part {
            Part::Own(value) => Some(*value),
            _ => None,
        })
    }

    /// Returns the turn's text. Text of different messages is separated by an empty line.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let Part::Text { text, apart, .. } = part {
                if *apart && !out.is_empty() {
                    out.push_str("\n\n");
                }
                out.push_str(text);
            }
        }
        out
    }

    /// Returns the reasoning of the turn.
    pub(super) fn thoughts(&self) -> String {
        let thought = |part: &Part<'_>| match part {
            Part::Thought { text, .. } => Some((*text).to_owned()),
            _ => None,
        };
        self.parts.iter().filter_map(thought).collect()
    }
}

/// The reasoning that is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Thoughts {
    None,
    /// Signed reasoning, together with the calls that it led to.
    Signed,
    All,
}

/// The call ids that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Alphabet {
    /// Any string of at most this many bytes.
    Any(usize),
    /// `^[a-zA-Z0-9_-]{1,64}$`
    Word,
    /// `^[a-zA-Z0-9]{9}$`, for the chat templates of Mistral.
    Nine,
}

/// The restrictions of a request's provider.
#[derive(Debug, Clone, Hash)]
pub(super) struct Rules {
    style: WireStyle,
    provider: String,
    model: String,
    /// Whether system messages are turns.
    has_system: bool,
    thoughts: Thoughts,
    ids: Alphabet,
    user_first: bool,
    user_last: bool,
    /// Whether the model accepts images.
    images: bool,
}

impl Rules {
    /// Returns the rules of a request's provider; `thoughts` is the reasoning that its format sends back.
    pub(super) fn of(request: &Request, thoughts: Thoughts) -> Rules {
        let route = &request.route;
        let (style, model) = (route.style, route.model.as_str());
        let turns = !style.has_system_role();
        let mistral = is_mistral(model);
        Rules {
            style,
            provider: route.provider.clone(),
            model: model.to_owned(),
            has_system: !turns && !request.system_hoisted,
            thoughts,
            ids: match style {
                WireStyle::Anthropic | WireStyle::Bedrock | WireStyle::OpenAiResponses => Alphabet::Word,
                WireStyle::OpenAiChat if mistral => Alphabet::Nine,
                WireStyle::OpenAiChat if matches!(route.dialect, Dialect::Openai | Dialect::Azure) => {
                    Alphabet::Any(40)
                }
                _ => Alphabet::Any(512),
            },
            user_first: turns,
            images: route.caps.vision_supported,
            user_last: match style {
                WireStyle::Anthropic => !takes_prefill(model),
                // On Bedrock, only older versions of Claude continue a turn.
                WireStyle::Bedrock => !(is_claude(model) && takes_prefill(model)),
                WireStyle::Gemini => true,
                WireStyle::OpenAiChat => mistral,
                _ => false,
            },
        }
    }

    fn key(&self) -> Key {
        digest(self)
    }

    /// Returns the side of a message, or `None` if nothing of the message is sent.
    fn side(&self, message: &Message) -> Option<Side> {
        let side = match message.role {
            Role::System | Role::Developer if !self.has_system => return None,
            Role::System => Side::System,
            Role::Developer => Side::Developer,
            Role::User => Side::User,
            Role::Assistant => Side::Model,
        };
        let thoughts = self.thoughts == Thoughts::All && side == Side::Model;
        (!message.is_blank(thoughts)).then_some(side)
    }

    /// Returns whether the opaque data of a message is sent back: only to the provider and in the format from which it
    /// came. For a gateway, models of different vendors are treated as different providers.
    pub(super) fn is_origin(&self, message: &Message) -> bool {
        let vendor = |model: &str| model.split_once('/').map(|(vendor, _)| vendor.to_owned());
        message.origin().is_none_or(|(provider, wire, model)| {
            provider == self.provider && wire == self.style.word() && vendor(model) == vendor(&self.model)
        })
    }

    /// Returns whether an opaque part is sent, which may depend on whether the message has calls.
    fn sends(&self, data: &Value, message: &Message) -> bool {
        let calling = message.tool_calls().next().is_some();
        let kind = str_at(data, "type").unwrap_or_default();
        match self.style {
            // Reasoning is sent back with the calls that it led to, and only while thinking is on.
            WireStyle::Anthropic if matches!(kind, "thinking" | "redacted_thinking") => {
                self.thoughts == Thoughts::Signed && calling
            }
            // The API rejects a search without its result.
            WireStyle::Anthropic if kind == "server_tool_use" => {
                message.is_paused() || message.is_answered(data)
            }
            WireStyle::Bedrock => calling && self.thoughts == Thoughts::Signed,
            WireStyle::OpenAiChat if data.get("reasoning_content").is_some() => {
                self.thoughts != Thoughts::All && calling
            }
            _ => true,
        }
    }

    /// Returns whether the model requires a signature in the first call of each of its turns.
    pub(super) fn demands_signature(&self) -> bool {
        let family = self.model.rsplit('/').next().unwrap_or_default().strip_prefix("gemini-");
        family.is_some_and(|rest| rest.starts_with(|c: char| ('3'..='9').contains(&c)))
    }

    /// Returns the id of a call on the wire, which is different from all earlier ids.
    fn id<'m>(&self, given: &'m str, at: usize, ids: &mut Ids<'_>) -> Cow<'m, str> {
        let mut id = self.ids.fit(given);
        let mut n = at;
        while ids.is_used(&id) {
            id = Cow::Owned(self.ids.numbered(given, n));
            n += 1;
        }
        ids.new.push(digest(&*id));
        id
    }
}

/// Returns whether a model is one of Mistral's.
fn is_mistral(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ["mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral"]
        .iter()
        .any(|family| model.contains(family))
}

impl Alphabet {
    fn fit(self, given: &str) -> Cow<'_, str> {
        let most = match self {
            Alphabet::Any(most) => most,
            Alphabet::Word => 64,
            Alphabet::Nine => {
                let fits = given.len() == 9 && given.bytes().all(|b| b.is_ascii_alphanumeric());
                return if fits { given.into() } else { letters(digest(given), 9).into() };
            }
        };
        match self {
            Alphabet::Word => word(given, most),
            _ if given.is_empty() => "call".into(),
            _ => shortened(given, most),
        }
    }

    /// Returns an alternative id for a call whose id is already used.
    fn numbered(self, given: &str, n: usize) -> String {
        match self {
            Alphabet::Any(most) => format!("{}_{n}", crate::json::clip(&shortened(given, most), most - 21)),
            Alphabet::Word => format!("{}_{n}", crate::json::clip(&word(given, 64), 43)),
            Alphabet::Nine => letters(digest(&(given, n)), 9),
        }
    }
}

/// Shortens a string to at most `most` bytes: its start and a digest.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let end = text.floor_char_boundary(most - 9);
    format!("{}_{}", &text[..end], letters(digest(text), 8)).into()
}

/// Maps a string to letters, digits, `_` and `-`; other characters become `_`.
fn word(text: &str, most: usize) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.len() <= most && text.chars().all(fits) {
        return text.into();
    }
    let mapped: String = text.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let mapped = if mapped.is_empty() { "_".to_owned() } else { mapped };
    // Different strings may map to the same id; `Rules::id` makes the ids unique.
    if mapped.len() <= most { mapped.into() } else { shortened(&mapped, most).into_owned().into() }
}

/// The ids of the calls written so far.
struct Ids<'k> {
    kept: &'k HashMap<u64, usize>,
    new: Vec<u64>,
}

impl Ids<'_> {
    fn is_used(&self, id: &str) -> bool {
        let id = digest(id);
        self.kept.contains_key(&id) || self.new.contains(&id)
    }
}

/// Serializes a turn as items of a list.
type WriteTurn<'a> = dyn Fn(&Turn<'_>, &mut Items<'_>) -> Result<(), CallError> + 'a;

/// Serializes a conversation as items of a JSON list, followed by `prefill`, which is already serialized.
pub(super) fn items(
    conversation: &Conversation,
    rules: &Rules,
    prefill: Option<Vec<u8>>,
    write: &WriteTurn<'_>,
) -> Result<Vec<Bytes>, CallError> {
    let key = rules.key();
    if let Some(base) = conversation.take_base() {
        // Other conversations continue from the same messages, so the base is serialized for all of them.
        items(&base, rules, None, write)?;
        let begun = base.written(|kept| (kept.key == key).then(|| kept.up_to(base.len())));
        if let Some(begun) = begun {
            conversation.written(|kept| {
                if kept.is_empty() {
                    *kept = begun;
                }
            });
        }
    }
    conversation.written(|kept| {
        if kept.key != key {
            *kept = Written { key, ..Written::default() };
        }
        conversation.with(|messages| {
            // A clone of the list may have serialized more messages. Then the message that ends the last unit is not
            // part of this conversation.
            let mut shorter;
            let own = if kept.done >= messages.len() {
                shorter = kept.up_to(messages.len());
                &mut shorter
            } else {
                kept
            };
            let mut open = Vec::new();
            let mut ends = None;
            while own.done < messages.len() {
                let (at, end) = (own.done, unit_end(messages, own.done, rules));
                let mut ids = Ids { kept: &own.ids, new: Vec::new() };
                let mut turns = turns_of(&messages[at..end], at, rules, &mut ids);
                let ids = ids.new;
                let begins = own.full.is_empty() && own.tail.is_empty();
                if begins && rules.user_first && turns.first().is_some_and(|turn| turn.side == Side::Model) {
                    turns.insert(0, Turn::user(BEGINNING));
                }
                let write_all = |items: &mut Items<'_>| turns.iter().try_for_each(|turn| write(turn, items));
                if end == messages.len() {
                    ends = turns.last().map(|turn| turn.side);
                    write_all(&mut Items::new(&mut open))?;
                    break;
                }
                own.add(end, ids, write_all)?;
            }
            let paused = messages.last().is_some_and(|last| last.is_paused());
            let answered = paused || ends.is_some_and(|side| side != Side::Model);
            if ends.is_none() || (!answered && (rules.user_last || prefill.is_some())) {
                let any = !open.is_empty();
                write(&Turn::user(CONTINUE), &mut Items::behind(&mut open, any))?;
            }
            if let Some(prefill) = prefill {
                Items::behind(&mut open, true).written(&prefill);
            }
            let mut out = own.pieces();
            if !open.is_empty() {
                if !out.is_empty() {
                    out.push(Bytes::from_static(b","));
                }
                out.push(Bytes::from(open));
            }
            Ok(out)
        })
    })
}

/// Passes each turn of a conversation to `take`, for formats without a list of messages.
pub(super) fn each_turn(conversation: &Conversation, rules: &Rules, mut take: impl FnMut(&Turn<'_>)) {
    conversation.with(|messages| {
        let (mut at, mut used) = (0, HashMap::new());
        while at < messages.len() {
            let end = unit_end(messages, at, rules);
            let mut ids = Ids { kept: &used, new: Vec::new() };
            turns_of(&messages[at..end], at, rules, &mut ids).iter().for_each(&mut take);
            let new = ids.new;
            used.extend(new.into_iter().map(|id| (id, end)));
            at = end;
        }
    });
}

/// Returns the end of the unit that starts at `at`: a turn of user or system, or a model turn with the results of its
/// calls and the messages after them.
fn unit_end(messages: &[Rc<Message>], at: usize, rules: &Rules) -> usize {
    let (mut first, mut called, mut answering) = (None, false, false);
    for (n, message) in messages.iter().enumerate().skip(at) {
        let Some(side) = rules.side(message) else { continue };
        let goes_on = match first {
            None => true,
            Some(Side::Model) if answering => side != Side::Model,
            Some(Side::Model) => side == Side::Model || called,
            Some(first) => first == side && side == Side::User,
        };
        if !goes_on {
            return n;
        }
        first.get_or_insert(side);
        called |= side == Side::Model && message.tool_calls().next().is_some();
        answering = first == Some(Side::Model) && side != Side::Model;
    }
    messages.len()
}

/// A call of a unit, and its result once it is found.
struct Open<'m> {
    given: &'m str,
    id: Cow<'m, str>,
    name: Cow<'m, str>,
    data: Option<&'m Value>,
    answer: Option<(Cow<'m, Value>, bool)>,
}

/// Returns the turns of a unit that starts at `at`.
fn turns_of<'m>(unit: &'m [Rc<Message>], at: usize, rules: &Rules, ids: &mut Ids<'_>) -> Vec<Turn<'m>> {
    let mut model = Turn { side: Side::Model, parts: Vec::new() };
    let mut calls: Vec<Open<'m>> = Vec::new();
    let mut behind: Vec<Turn<'m>> = Vec::new();
    for (n, message) in unit.iter().enumerate() {
        let Some(side) = rules.side(message) else { continue };
        if side == Side::Model {
            push_said(message, at + n, rules, &mut model, &mut calls, ids);
            continue;
        }
        let mut turn = match behind.pop_if(|last| last.side == side && side == Side::User) {
            Some(last) => last,
            None => Turn { side, parts: Vec::new() },
        };
        push_heard(message, rules, &mut turn, &mut calls);
        // A message that contains only results has no separate turn.
        if !turn.parts.is_empty() {
            behind.push(turn);
        }
    }
    let mut out = Vec::new();
    if !model.parts.is_empty() {
        out.push(model);
    }
    if !calls.is_empty() {
        let answers: Vec<Answer<'m>> = calls.into_iter().map(|call| answer(call, rules)).collect();
        let media =
            answers.iter().filter(|_| !rules.style.has_media_in_results()).flat_map(Answer::following);
        let media: Vec<Part<'m>> = media.collect();
        let parts = answers.into_iter().map(Part::Result).chain(media).collect();
        let mut results = Turn { side: Side::User, parts };
        if behind.first().is_some_and(|turn| turn.side == Side::User) {
            results.parts.append(&mut behind.remove(0).parts);
        }
        out.push(results);
    }
    // Merges adjacent user turns, which occur after results.
    for mut turn in behind {
        match out.last_mut().filter(|last| last.side == Side::User && turn.side == Side::User) {
            Some(last) => last.parts.append(&mut turn.parts),
            None => out.push(turn),
        }
    }
    out
}

fn answer<'m>(call: Open<'m>, rules: &Rules) -> Answer<'m> {
    static NONE: LazyLock<Value> = LazyLock::new(|| NO_RESULT.into());
    let (content, failed) = call.answer.unwrap_or_else(|| (Cow::Owned(NONE.clone()), true));
    let mut parts = ResultParts::of(&content);
    if !rules.images {
        parts.without_images();
    }
    Answer { id: call.id, name: call.name, content, parts, failed, data: call.data }
}

impl<'m> Answer<'m> {
    /// Returns all parts of the content, for formats whose results can contain media.
    pub(super) fn each_part(&self) -> impl Iterator<Item = Part<'_>> {
        let text = Some(&*self.parts.text).filter(|text| !text.trim().is_empty());
        let text = text.map(|text| Part::Text { text: text.into(), mark: None, apart: true, data: None });
        text.into_iter().chain(self.parts.media.iter().filter_map(media))
    }

    /// Returns its images and documents, for formats whose results are text.
    fn following(&self) -> impl Iterator<Item = Part<'m>> {
        self.parts.media.iter().filter_map(|block| match media(block)? {
            Part::Image(image) => Some(Part::Image(Cow::Owned(image.into_owned()))),
            Part::Document(document) => Some(Part::Document(Cow::Owned(document.into_owned()))),
            _ => None,
        })
    }
}

fn media(block: &ContentBlock) -> Option<Part<'_>> {
    match block {
        ContentBlock::Image(image) => Some(Part::Image(Cow::Borrowed(image))),
        ContentBlock::Document(document) => Some(Part::Document(Cow::Borrowed(document))),
        _ => None,
    }
}

impl Message {
    /// Returns the reasoning, for formats that send it back unchanged.
    fn thoughts(&self) -> impl Iterator<Item = Part<'_>> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::Reasoning { text, .. } => Some(Part::Thought { text, signature: None }),
            _ => None,
        })
    }

    /// Returns whether the message contains the result of a provider-side tool call.
    fn is_answered(&self, asked: &Value) -> bool {
        let id = str_at(asked, "id");
        let results = self.content.iter().filter_map(|block| match block {
            ContentBlock::Provider(at) => self.part_data(*at),
            _ => None,
        });
        id.is_some() && results.into_iter().any(|data| str_at(data, "tool_use_id") == id)
    }
}

/// Adds a message of the model to its turn.
fn push_said<'m>(
    message: &'m Message,
    at: usize,
    rules: &Rules,
    turn: &mut Turn<'m>,
    calls: &mut Vec<Open<'m>>,
    ids: &mut Ids<'_>,
) {
    let calling = message.tool_calls().next().is_some();
    let is_origin = rules.is_origin(message);
    let own_data = |part: &str, id: Option<&str>| message.data_of(part, id).filter(|_| is_origin);
    let mut text_data = own_data("text", None);
    let mut apart = true;
    for block in &message.content {
        match block {
            ContentBlock::Text(text) => push_text(text, message, &mut apart, text_data.take(), turn),
            ContentBlock::Provider(at) => {
                if let Some(data) =
                    message.part_data(*at).filter(|data| is_origin && rules.sends(data, message))
                {
                    turn.parts.push(Part::Own(data));
                    if data.get("reasoning_content").is_some() {
                        turn.parts.extend(message.thoughts());
                    }
                }
            }
            ContentBlock::Image(image) => push_model_media("image", &image.media_type, &mut apart, turn),
            ContentBlock::Document(document) => {
                push_model_media("document", &document.media_type, &mut apart, turn);
            }
            ContentBlock::Reasoning { text, signature } => {
                let sent = match rules.thoughts {
                    Thoughts::None => false,
                    Thoughts::Signed => calling && is_origin && signature.is_some(),
                    Thoughts::All => !text.is_empty(),
                };
                if sent {
                    turn.parts.push(Part::Thought { text, signature: signature.as_deref() });
                }
            }
            ContentBlock::ToolUse(call) => {
                let id = rules.id(&call.id, at, ids);
                let name = wire_name(&call.name);
                let data = own_data("call", Some(&call.id));
                calls.push(Open { given: &call.id, id: id.clone(), name: name.clone(), data, answer: None });
                let arguments = match &call.arguments {
                    object @ Value::Object(_) => Cow::Borrowed(object),
                    Value::Null => Cow::Owned(json!({})),
                    other => Cow::Owned(json!({"value": other})),
                };
                turn.parts.push(Part::Call(Call { id, name, arguments, data }));
            }
            ContentBlock::ToolResult { name, content, .. } => {
                push_stray_result(name.as_deref(), content, &mut apart, turn);
            }
            ContentBlock::Other(value) => push_other(value, rules, &mut apart, turn),
        }
    }
}

/// Adds a message of user or system to a turn, and its results to their calls.
fn push_heard<'m>(message: &'m Message, rules: &Rules, turn: &mut Turn<'m>, calls: &mut [Open<'m>]) {
    let mut apart = true;
    for block in &message.content {
        match block {
            ContentBlock::Text(text) => push_text(text, message, &mut apart, None, turn),
            ContentBlock::Image(image) if rules.images => turn.parts.push(Part::Image(Cow::Borrowed(image))),
            ContentBlock::Image(image) => push_own_text(image_notice(image).into(), &mut apart, turn),
            ContentBlock::Document(document) => turn.parts.push(Part::Document(Cow::Borrowed(document))),
            ContentBlock::Reasoning { .. } | ContentBlock::Provider(_) => {}
            // Calls in other messages become text, because only the model can make calls.
            ContentBlock::ToolUse(call) => {
                let text =
                    format!("[call of {}: {}]", quote_name(&call.name), quote(&call.arguments.to_string()));
                push_own_text(text.into(), &mut apart, turn);
            }
            ContentBlock::ToolResult { id, name, content, failed } => {
                match calls.iter_mut().find(|call| call.answer.is_none() && call.given == id) {
                    Some(call) => call.answer = Some((Cow::Borrowed(content), *failed)),
                    None => push_stray_result(name.as_deref(), content, &mut apart, turn),
                }
            }
            ContentBlock::Other(value) => push_other(value, rules, &mut apart, turn),
        }
    }
}

fn push_text<'m>(
    text: &'m str,
    message: &'m Message,
    apart: &mut bool,
    data: Option<&'m Value>,
    turn: &mut Turn<'m>,
) {
    if !text.trim().is_empty() {
        let mark = message.cache_mark(text);
        turn.parts.push(Part::Text { text: text.into(), mark, apart: std::mem::take(apart), data });
    }
}

fn push_own_text<'m>(text: Cow<'m, str>, apart: &mut bool, turn: &mut Turn<'m>) {
    // Text of the runtime is never joined with other text.
    turn.parts.push(Part::Text { text, mark: None, apart: true, data: None });
    *apart = true;
}

/// Adds a notice instead of an image or document in the model's turn, which every provider rejects.
fn push_model_media(kind: &str, media_type: &str, apart: &mut bool, turn: &mut Turn<'_>) {
    push_own_text(format!("[{} {kind}]", quote_name(media_type)).into(), apart, turn);
}

/// Adds a result without a matching call in the preceding model turn, as text.
fn push_stray_result<'m>(name: Option<&str>, content: &Value, apart: &mut bool, turn: &mut Turn<'m>) {
    let name = quote_name(name.unwrap_or("tool"));
    let text = result_text(content);
    push_own_text(
        format!("[result of {name}]\n{}\n[end of {name} result]", quote(&text)).into(),
        apart,
        turn,
    );
}

/// Adds a block of an unknown type: unchanged if the format supports it, else as text.
fn push_other<'m>(value: &'m Value, rules: &Rules, apart: &mut bool, turn: &mut Turn<'m>) {
    if rules.style.has_block(value, turn.side == Side::Model) {
        turn.parts.push(Part::Own(value));
        return;
    }
    let text = match str_at(value, "text").filter(|text| !text.trim().is_empty()) {
        Some(text) => Cow::Borrowed(text),
        None => {
            let kind = quote_name(str_at(value, "type").unwrap_or("unknown"));
            Cow::Owned(format!("[{kind} block omitted: the provider does not accept it]"))
        }
    };
    push_own_text(text, apart, turn);
}
