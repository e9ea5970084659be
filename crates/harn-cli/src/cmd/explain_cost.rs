//! `harn run --explain-cost`: estimates the cost of a program's model calls without running it.

use harn_check::CallSite;
use harn_runtime::CallEstimate;
use harn_syntax::signature::{GivenOption, Signature};

use crate::program::{self, End, Program};
use crate::table;

/// The builtins that call a model and are included.
const CALLS: [&str; 8] = [
    "llm_call",
    "llm_call_safe",
    "llm_call_structured",
    "llm_call_structured_safe",
    "llm_call_structured_result",
    "llm_completion",
    "llm_stream",
    "agent_loop",
];

/// Prints the estimates.
///
/// # Errors
/// The program cannot be parsed.
pub(crate) fn explain_cost(program: &Program) -> Result<u8, End> {
    let sites = program.calls(|name| CALLS.contains(&name)).map_err(End::Refused)?;
    if sites.is_empty() {
        crate::out::write("The program contains no model calls.\n");
        return Ok(0);
    }
    let vm = program::session_vm(std::rc::Rc::new(harn_system::Real::new()));
    let runtime = harn_runtime::llm_runtime_at(&vm, program.dir());
    let ask = |is_loop: bool, given: &[GivenOption], texts: &[&str]| {
        harn_runtime::estimate_call(&runtime, is_loop, given, texts)
    };
    let mut total = Some(0.0);
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for site in &sites {
        let Some(signature) = vm.builtin(&site.name).map(harn_vm::Builtin::check_signature) else { continue };
        let (line, column) = program.line_column(site.span);
        let (place, name) = (format!("{line}:{column}"), site.name.clone());
        let row = match estimate(&ask, site, &signature) {
            Ok(Estimate { call, is_whole, is_known }) => {
                let cost = call.cost_usd.filter(|_| is_known);
                total = total.zip(cost).map(|(sum, cost)| sum + cost);
                let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
                vec![
                    place,
                    name,
                    or_unknown(is_known.then(|| format!("{}:{}", call.provider, call.model))),
                    format!("{}{}", if is_whole { "" } else { ">" }, call.input_tokens),
                    or_unknown(call.output_tokens.map(|most| most.to_string())),
                    call.calls.to_string(),
                    or_unknown(cost.map(|usd| format!("{usd:.4}"))),
                ]
            }
            Err(why) => {
                total = None;
                notes.push(format!("{place}: {why}"));
                vec![place, name, "?".into(), "?".into(), "?".into(), "?".into(), "?".into()]
            }
        };
        rows.push(row);
    }
    // The numbers are the purpose of the table, so their columns are not shortened.
    let table = table::draw_all_but(&["PLACE", "CALL", "MODEL", "IN", "OUT", "CALLS", "USD"], &rows, 2);
    let total = match total {
        Some(usd) => {
            format!("At most ${usd:.4}, if every line runs once and its prompt is complete.")
        }
        None => "Total unknown: a price, a model or a limit is missing.".to_owned(),
    };
    let notes: String = notes.iter().map(|note| format!("{}\n", harn_syntax::printable(note))).collect();
    crate::out::write(&format!(
        "{table}\n{notes}{total}\n\n\
         IN: tokens of literal prompts, four bytes per token; `>` is a lower bound.\n\
         OUT: maximum output tokens. CALLS: maximum number of calls; the history and tools\n\
         of a loop are not counted. USD: maximum cost.\n"
    ));
    Ok(0)
}

struct Estimate {
    call: CallEstimate,
    /// All prompts are literals in the program.
    is_whole: bool,
    /// All options that select the model are literals in the program.
    is_known: bool,
}

/// Estimates the cost of a call from its options and prompts. The first argument is whether it is an agent loop.
type Ask<'a> = &'a dyn Fn(bool, &[GivenOption], &[&str]) -> Result<CallEstimate, String>;

fn estimate(ask: Ask<'_>, site: &CallSite, signature: &Signature) -> Result<Estimate, String> {
    let of = |name: &str| {
        let at = signature.parameters.iter().position(|parameter| parameter.name == name)?;
        site.args.get(at)
    };
    let texts: Vec<_> = ["prompt", "system"].into_iter().filter_map(of).collect();
    let options = of("options");
    let given = options.map_or(&[][..], |options| &options.options);
    let words: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    let is_loop = site.name == "agent_loop";
    let call = ask(is_loop, given, &words)?;
    let adds = ["messages", "transcript", "tools", "system", "prompt", "session_id"];
    let is_open = options.is_some_and(|options| options.options.is_empty() && !options.is_complete);
    let is_whole = texts.iter().all(|text| text.is_whole)
        && !is_loop
        && !is_open
        && !given.iter().any(|option| adds.contains(&option.name.as_str()) && option.value.is_none());
    let chooses = [
        "provider",
        "model",
        "model_tier",
        "route_policy",
        "fallback_chain",
        "max_tokens",
        "thinking",
        "max_iterations",
    ];
    let is_known = !is_open
        && !given.iter().any(|option| chooses.contains(&option.name.as_str()) && option.value.is_none());
    Ok(Estimate { call, is_whole, is_known })
}
