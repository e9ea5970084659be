//! Supervisors handle the ends of children as a small model of the rules predicts.

use std::path::Path;

use proptest::prelude::*;

/// A child: the outcomes of its starts in order (further starts succeed), and its policy.
#[derive(Clone, Debug)]
struct Child {
    succeeds: Vec<bool>,
    mode: &'static str,
    most: Option<u64>,
}

/// The final state of a child.
#[derive(Default)]
struct End {
    status: &'static str,
    restarts: u64,
    failed: u64,
    stopped: u64,
    suppressed: u64,
}

/// The rules of restarts according to the contract: 04, section 12.
fn model(child: &Child) -> End {
    let mut end = End::default();
    let mut ends = child.succeeds.iter().copied().chain(std::iter::repeat(true));
    loop {
        let succeeds = ends.next().unwrap_or(true);
        end.status = if succeeds { "stopped" } else { "failed" };
        *(if succeeds { &mut end.stopped } else { &mut end.failed }) += 1;
        let goes_on = match child.mode {
            "never" => false,
            "always" => true,
            _ => !succeeds,
        };
        if !goes_on {
            return end;
        }
        let too_often =
            child.most.is_some_and(|most| if succeeds { end.restarts >= most } else { end.failed > most });
        if too_often {
            end.suppressed += 1;
            end.status = "suppressed";
            return end;
        }
        end.restarts += 1;
    }
}

fn child() -> impl Strategy<Value = Child> {
    let ends = proptest::collection::vec(any::<bool>(), 0..6);
    let policy = prop_oneof![
        proptest::option::of(0u64..5).prop_map(|most| ("never", most)),
        proptest::option::of(0u64..5).prop_map(|most| ("on_failure", most)),
        // Without a limit it would run forever.
        (0u64..5).prop_map(|most| ("always", Some(most))),
    ];
    (ends, policy).prop_map(|(succeeds, (mode, most))| Child { succeeds, mode, most })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn children_end_as_the_rules_say(children in proptest::collection::vec(child(), 1..5)) {
        let mut text = String::from("fn child(ends, restart) {\n  let starts = atomic()\n  return {restart: restart, task: { ->\n    let at = atomic_add(starts, 1)\n    if at < len(ends) && !ends[at] { throw \"no\" }\n  }}\n}\nlet sup = supervisor_start({children: [\n");
        for Child { succeeds, mode, most } in &children {
            let most = most.map_or("nil".to_owned(), |most| most.to_string());
            text += &format!("  child({succeeds:?}, {{mode: \"{mode}\", window_ms: 0, max_restarts: {most}}}),\n");
        }
        text += "]})\nwhile supervisor_state(sup).status == \"running\" { sleep(1ms) }\n\
                 for c in supervisor_state(sup).children { println(\"${c.status} ${c.restart_count} ${c.last_error}\") }\n\
                 println(supervisor_metrics(sup))\n\
                 println(supervisor_events(sup).map({ e -> e.seq }) == range(0, len(supervisor_events(sup))).to_list())\n\
                 println(supervisor_state(sup).status)\n";
        let run = super::common::run("supervisors.harn", &text, Path::new("/"));
        let ends: Vec<End> = children.iter().map(model).collect();
        let mut expected = String::new();
        for end in &ends {
            let error = if end.failed > 0 { "Thrown: no" } else { "nil" };
            expected += &format!("{} {} {error}\n", end.status, end.restarts);
        }
        let sum = |count: fn(&End) -> u64| ends.iter().map(count).sum::<u64>();
        let restarted = sum(|end| end.restarts);
        expected += &format!(
            "{{escalated: 0, failed: {}, restarted: {restarted}, started: {}, stopped: {}, suppressed: {}}}\ntrue\ncompleted\n",
            sum(|end| end.failed),
            restarted + children.len() as u64,
            sum(|end| end.stopped),
            sum(|end| end.suppressed),
        );
        prop_assert_eq!(run.error, None, "{}", text);
        prop_assert_eq!(run.output, expected, "{}", text);
    }
}
