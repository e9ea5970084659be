//! Renders the prompt of one model call in a run: the called model, the prompt, and its common prefix with the previous
//! call.

use super::layout::wrap;
use super::margin::{changes, joined, prompt};
use super::{Paint, Style, count};
use crate::compare::{Difference, compare};
use crate::reduce::Assembly;

/// Information about a model call in addition to its prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallHead<'a> {
    /// The number of the call in the run, counted from 1.
    pub number: usize,
    /// The called model, such as `anthropic/claude-sonnet-4-6, turn 2 of an agent loop`.
    pub to: &'a str,
    /// Lines about the other parts of the request.
    pub details: &'a [String],
}

/// Renders a call: a rule, its head, the prompt with the margin of [`super::explanation`], and the number of bytes that
/// it shares with the prompt of the previous call, if there is one.
#[must_use]
pub fn call(head: CallHead<'_>, assembly: &Assembly, before: Option<&Assembly>, style: Style) -> String {
    let mut out = vec![style.paint(Paint::Quiet, &"─".repeat(style.width))];
    let title = wrap(&format!("Call {}: {}", head.number, head.to), style.width);
    out.extend(title.iter().map(|line| style.paint(Paint::Heading, line)));
    for detail in head.details {
        out.extend(
            wrap(&format!("  {detail}"), style.width).iter().map(|line| style.paint(Paint::Quiet, line)),
        );
    }
    out.push(String::new());
    out.extend(prompt(assembly, style));
    if let Some(before) = before {
        let difference = compare(before, assembly);
        out.push(String::new());
        out.extend(wrap(&shared(head.number - 1, &difference, assembly), style.width));
        out.extend(changes(&difference, style));
    }
    joined(&out)
}

fn shared(number: usize, difference: &Difference<'_>, assembly: &Assembly) -> String {
    let (shared, total) = (difference.shared_prefix, assembly.as_str().len());
    if total == 0 {
        return format!("Shared with call {number}: nothing, there is no prompt."); // prose-ok: for the terminal
    }
    let size = format!("Shared with call {number}: {shared} of {}", count(total, "byte"));
    match difference.first_difference {
        None => format!("{size}, the whole prompt."),
        Some(id) => format!("{size}. `{id}` is the first fragment that differs."),
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::explain::explain;

    fn assembly(options: harn_value::Data) -> Assembly {
        explain(&options).unwrap().assembly
    }

    #[test]
    fn a_call_says_what_it_shares_with_the_one_before() {
        let todo = json!({"name": "todo", "guidance": "Tick items."});
        let first = assembly(json!({"system": "You help."}));
        let second = assembly(json!({"system": "You help.", "tools": [todo]}));
        let details = ["1 message, the last from user: Hi".to_owned()];
        let head = CallHead { number: 2, to: "mock/mock", details: &details };
        let expected = "\
────────────────────────────────────────────────────────────────────────────────
Call 2: mock/mock
  1 message, the last from user: Hi

System prompt: 2 of 2 fragments, 22 bytes

 primary                      │ You help.
 unconditional                │
 9 bytes                      │

 tool:todo.guidance           │ Tick items.
 tool(s) present: todo        │
 11 bytes                     │

Cacheable prefix: the first 11 of 22 bytes. The next fragment,
`tool:todo.guidance`, changes with the active tools or skills.

Shared with call 1: 9 of 22 bytes. `tool:todo.guidance` is the first fragment
that differs.
  added tool:todo.guidance
";
        assert_eq!(call(head, &second, Some(&first), Style::default()), expected);
    }

    #[test]
    fn equal_and_missing_prompts_are_told() {
        let some = assembly(json!({"system": "You help."}));
        let none = assembly(json!({}));
        let last = |now, before| {
            let head = CallHead { number: 2, to: "mock/mock", details: &[] };
            call(head, now, before, Style::default()).lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(last(&some, Some(&some)), "Shared with call 1: 9 of 9 bytes, the whole prompt.");
        assert_eq!(last(&none, Some(&none)), "Shared with call 1: nothing, there is no prompt.");
        assert_eq!(last(&none, None), "No system prompt: 0 of 0 fragments");
        let cut = assembly(json!({"system": "You help.", "system_suffix": "S"}));
        let head = CallHead { number: 2, to: "mock/mock", details: &[] };
        let text = call(head, &some, Some(&cut), Style::default());
        assert!(
            text.ends_with(
                "`host:system_suffix` is the first fragment\nthat differs.\n  removed host:system_suffix\n"
            ),
            "{text}"
        );
    }
}
