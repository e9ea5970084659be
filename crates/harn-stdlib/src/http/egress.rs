//! Egress rules of a program, from `egress_policy` or the environment.

use std::cell::RefCell;
use std::sync::Arc;

use harn_system::{Blocked, Egress, EgressRule};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result, Vm};
use url::Url;

use super::mock::redacted_url;

const ALLOW: &str = "HARN_EGRESS_ALLOW";
const DENY: &str = "HARN_EGRESS_DENY";
const DEFAULT: &str = "HARN_EGRESS_DEFAULT";

/// The rules of a program.
#[derive(Default)]
struct Policy(RefCell<Option<Known>>);

/// The effective rules. `None` means that the environment has no rules, either.
#[derive(Clone)]
enum Known {
    None,
    Rules(&'static str, Arc<Egress>),
}

/// Returns the effective rules with their source.
fn known(vm: &Vm) -> Result<Known> {
    let policy = vm.extension::<Policy>();
    if let Some(known) = &*policy.0.borrow() {
        return Ok(known.clone());
    }
    let found = match of_environment(vm).map_err(Error::thrown)? {
        Some(rules) => Known::Rules("environment", Arc::new(rules)),
        None => Known::None,
    };
    *policy.0.borrow_mut() = Some(found.clone());
    Ok(found)
}

/// Returns the effective rules of a program. Each request carries them to where its connections are established.
///
/// # Errors
/// The environment contains an invalid rule.
pub fn egress_rules(vm: &Vm) -> Result<Option<Arc<Egress>>> {
    Ok(match known(vm)? {
        Known::None => None,
        Known::Rules(_, rules) => Some(rules),
    })
}

/// Checks a request of a program; throws `{type: "EgressBlocked", ..}` if a rule blocks it. `surface` is the builtin
/// that sends it.
///
/// # Errors
/// A rule blocks it, or the environment contains an invalid rule, which blocks all requests.
pub fn check_egress(cx: &Cx, surface: &str, url: &str) -> Result<()> {
    let Some(rules) = egress_rules(cx.vm())? else { return Ok(()) };
    let parsed =
        Url::parse(url).map_err(|reason| Error::thrown(format!("{surface}: invalid URL: {reason}")))?;
    rules.check(&parsed).map_err(|blocked| error(surface, url, &blocked))
}

/// Returns the error of a request that was blocked while it was sent; `text` is the message of the
/// [`HttpError`](harn_system::HttpError).
pub fn egress_error(surface: &str, text: &str) -> Error {
    match Blocked::parse(text) {
        Some((url, blocked)) => error(surface, url, &blocked),
        None => Error::thrown(format!("{surface}: a rule about egress blocks the request")),
    }
}

fn error(surface: &str, url: &str, blocked: &Blocked) -> Error {
    let Blocked { host, port, reason } = blocked;
    let url = redacted_url(url);
    let at = port.map(|port| format!(":{port}")).unwrap_or_default();
    let mut dict = Dict::new();
    dict.insert("type", "EgressBlocked");
    dict.insert("category", "egress_blocked");
    dict.insert("message", format!("EgressBlocked: {surface} blocked {host}{at} for {url} ({reason})"));
    dict.insert("surface", surface);
    dict.insert("url", url);
    dict.insert("host", host.as_str());
    dict.insert("port", port.map(i64::from));
    dict.insert("reason", reason.as_str());
    Error::thrown(Value::dict(dict))
}

/// Installs the rules of `egress_policy`, which is possible once; returns the effective rules.
pub(crate) fn install(cx: &Cx, config: &Value) -> Result<Dict> {
    if let Known::Rules(source, _) = known(cx.vm())? {
        return Err(Error::thrown(format!("egress_policy: policy already configured from {source}")));
    }
    let config = config.to_dict().ok_or_else(|| Error::thrown("egress_policy: requires a config dict"))?;
    let rules = of_config(&config).map_err(|reason| Error::thrown(format!("egress_policy: {reason}")))?;
    let described = describe("stdlib", &rules);
    *cx.state::<Policy>().0.borrow_mut() = Some(Known::Rules("stdlib", Arc::new(rules)));
    Ok(described)
}

fn describe(source: &str, rules: &Egress) -> Dict {
    let texts = |rules: &[EgressRule]| rules.iter().map(|rule| rule.text().into()).collect::<Vec<Value>>();
    let mut dict = Dict::new();
    dict.insert("configured", true);
    dict.insert("source", source);
    dict.insert("default", if rules.open { "allow" } else { "deny" });
    dict.insert("allow", texts(&rules.allow));
    dict.insert("deny", texts(&rules.deny));
    dict
}

fn of_config(config: &Dict) -> std::result::Result<Egress, String> {
    let get = |name: &str| config.get_str(name).filter(|value| !value.is_nil());
    let list = |name: &str| {
        let Some(given) = get(name) else { return Ok(Vec::new()) };
        let list = given.as_list().ok_or_else(|| format!("{name} must be a list"))?;
        let rules = list.iter().map(|rule| match rule.as_str() {
            Some(text) => rule_of(name, text),
            None => Err(format!("{name} must hold strings, got {}", rule.type_name())),
        });
        rules.collect()
    };
    let open = get("default").map_or(Ok(true), |word| match word.as_str() {
        Some(word) => is_open("default", word),
        None => Err(format!("default must be `allow` or `deny`, got `{}`", crate::args::printed(word))),
    })?;
    Ok(Egress { allow: list("allow")?, deny: list("deny")?, open })
}

/// Returns the rules of the environment; `None` if no variable is set.
fn of_environment(vm: &Vm) -> std::result::Result<Option<Egress>, String> {
    // The environment of the process: an environment that a program sets for a scope does not change the rules.
    let get = |name: &str| vm.system().env(name).filter(|text| !text.trim().is_empty());
    let (allow, deny, default) = (get(ALLOW), get(DENY), get(DEFAULT));
    if allow.is_none() && deny.is_none() && default.is_none() {
        return Ok(None);
    }
    let list = |name: &str, text: Option<String>| {
        let text = text.unwrap_or_default();
        let parts = text.split([',', ';', '\n']).map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| rule_of(name, part)).collect::<std::result::Result<Vec<_>, _>>()
    };
    let open = default.map_or(Ok(true), |word| is_open(DEFAULT, word.trim()))?;
    Ok(Some(Egress { allow: list(ALLOW, allow)?, deny: list(DENY, deny)?, open }))
}

fn is_open(name: &str, word: &str) -> std::result::Result<bool, String> {
    match word {
        "allow" => Ok(true),
        "deny" => Ok(false),
        _ => Err(format!("{name} must be `allow` or `deny`, got `{word}`")),
    }
}

fn rule_of(name: &str, text: &str) -> std::result::Result<EgressRule, String> {
    // A URL may contain a password.
    EgressRule::parse(text)
        .map_err(|reason| format!("{name}: `{}` is no rule: {reason}", redacted_url(text.trim())))
}
