//! Every promise of the page about durable runs (`docs/runs/durable.md`) has a test.

use std::collections::BTreeSet;

use crate::common::repository;

/// How a promise begins, and what holds it: a file and a test in it, or a folder of conformance cases and a case.
const HELD: &[(&str, &[(&str, &str)])] = &[
    // What is promised.
    (
        "**What a program has is not asked for again.**",
        &[
            (JOURNAL, "a_replay_is_equal_and_touches_nothing"),
            (RUNS, "a_replay_prints_the_same_and_does_nothing"),
            ("conformance/runs/files", "a_file_that_was_read_is_not_read_again"),
            ("conformance/runs/agents", "a_model_is_not_asked_again"),
        ],
    ),
    (
        "**Nothing that changes something is done twice without your saying so.**",
        &[
            (KILLS, "an_agent_with_everything_is_killed_and_does_nothing_twice"),
            (FAULTS, "a_disk_that_takes_nothing_stops_the_run_and_a_good_one_goes_on"),
            (FAULTS, "a_full_disk_stops_the_run_and_room_goes_on"),
            ("crates/harn-store/tests/it/crash.rs", "a_killed_process_leaves_what_was_answered"),
        ],
    ),
    (
        "**Parallel tasks keep their order.**",
        &[
            (JOURNAL, "a_replay_is_equal_and_touches_nothing"),
            (SUITE, "cases_end_the_same_from_a_journal_and_broken_off"),
        ],
    ),
    (
        "**Agents are programs.**",
        &[
            (RUNS, "an_agent_killed_at_any_moment_asks_nothing_twice_and_does_nothing_twice"),
            ("conformance/runs/agents", "a_tool_that_has_run_does_not_run_again"),
            ("conformance/runs/agents", "cost_and_counts_go_on"),
        ],
    ),
    ("**Output is not repeated.**", &[(JOURNAL, "what_was_printed_is_not_printed_again")]),
    (
        "**Deadlines do not wait.**",
        &[
            (RUNS, "a_run_that_only_waits_holds_no_process"),
            (PEOPLE, "the_time_of_a_request_goes_on_without_a_process"),
        ],
    ),
    (
        "**Keys stay outside.**",
        &[(JOURNAL, "keys_never_enter_a_journal"), (RUNS, "keys_are_taken_from_the_environment_again")],
    ),
    (
        "**One process at a time.**",
        &[(WORKERS, "a_process_that_was_stopped_cannot_write_over_its_successor")],
    ),
    // Waiting for people.
    (
        "`ask_user`, `request_approval`, `dual_control` and `escalate_to` wait so",
        &[
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
            ("conformance/runs/agents", "a_person_lets_a_tool_run"),
            ("conformance/runs/questions", "a_host_that_answers_spares_the_person"),
        ],
    ),
    (
        "`harn answer` takes JSON or text for a question",
        &[
            (PEOPLE, "a_question_takes_no_yes_and_a_wrong_name_is_told"),
            ("conformance/runs/agents", "a_person_changes_what_a_tool_is_given"),
        ],
    ),
    ("`--by NAME` says who answers", &[(PEOPLE, "approvals_are_for_those_who_are_named")]),
    (
        "An answer is kept with who gave it",
        &[
            (PEOPLE, "an_answer_to_something_else_does_not_count"),
            (JOURNAL, "another_question_needs_another_answer"),
        ],
    ),
    (
        "Other tasks go on while one waits.",
        &[
            (PEOPLE, "an_answer_wakes_a_process_that_waits"),
            ("conformance/runs/together", "work_and_a_question_side_by_side"),
        ],
    ),
    (
        "`timeout` and `deadline` go on while no process runs.",
        &[
            ("conformance/runs/timeouts", "an_answer_in_time_counts"),
            ("conformance/runs/timeouts", "an_answer_that_came_too_late_does_not"),
        ],
    ),
    (
        "`harn runs show ID --json` lists what a run asks",
        &[(PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on")],
    ),
    // In doubt.
    (
        "| reading files, environment, clock |",
        &[(JOURNAL, "broken_off_anywhere_a_run_goes_on_to_the_same_end")],
    ),
    ("| model calls |", &[(KILLS, "an_agent_with_everything_is_killed_and_does_nothing_twice")]),
    (
        "| requests with GET, HEAD, OPTIONS, PUT, DELETE |",
        &[(JOURNAL, "a_request_in_doubt_is_an_error_unless_it_may_be_sent_twice")],
    ),
    ("| replacing, copying, making folders |", &[(JOURNAL, FILES_IN_DOUBT)]),
    ("| removing, moving |", &[(JOURNAL, FILES_IN_DOUBT)]),
    (
        "| appending |",
        &[
            (JOURNAL, FILES_IN_DOUBT),
            (JOURNAL, "an_append_that_somebody_else_has_touched_is_in_doubt_unless_it_may_be_made_twice"),
            (PEOPLE, "a_file_in_doubt_has_the_category_of_doubt"),
        ],
    ),
    (
        "| other requests, and programs |",
        &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")],
    ),
    (
        "`idempotent: true` (options of",
        &[(KILLS, "an_agent_with_everything_is_killed_and_does_nothing_twice")],
    ),
    ("`on_uncertain: \"retry\"` says only the former", &[(PEOPLE, "a_person_decides_what_is_done_again")]),
    ("A tool of an agent can say the same", &[(PEOPLE, "a_tool_says_what_becomes_of_what_its_handler_does")]),
    (
        "`harn resume ID --retry-in-doubt`",
        &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")],
    ),
];

const JOURNAL: &str = "crates/harn-journal/tests/it/main.rs";
const RUNS: &str = "crates/harn-cli/tests/runs.rs";
const PEOPLE: &str = "crates/harn-cli/tests/people.rs";
const WORKERS: &str = "crates/harn-cli/tests/workers.rs";
const KILLS: &str = "crates/harn-cli/tests/agent_kills.rs";
const FAULTS: &str = "crates/harn-cli/tests/run_faults.rs";
const SUITE: &str = "crates/harn-cli/tests/conformance.rs";
const FILES_IN_DOUBT: &str = "a_change_of_files_in_doubt_ends_the_same_whether_it_had_happened_or_not";

/// The points and rows of the sections that promise something.
fn promises(page: &str) -> Vec<String> {
    let sections = ["## What is promised", "## Waiting for people", "## In doubt"];
    let mut found = Vec::new();
    for section in sections {
        let (_, rest) =
            page.split_once(&format!("{section}\n")).unwrap_or_else(|| panic!("{section} is missing"));
        let text = rest.split("\n## ").next().unwrap_or_default();
        let mut is_example = false;
        for line in text.lines() {
            is_example ^= line.starts_with("```");
            let row = line.starts_with("| ") && !line.starts_with("| ---") && !line.starts_with("| Effect ");
            match line.strip_prefix("- ") {
                _ if is_example => {}
                Some(point) => found.push(point.to_owned()),
                None if row => found.push(line.to_owned()),
                None => {}
            }
        }
    }
    found
}

#[test]
fn every_promise_of_the_page_is_held_by_a_test() {
    let page = std::fs::read_to_string(repository().join("docs/runs/durable.md")).unwrap();
    let promises = promises(&page);
    let mut used = BTreeSet::new();
    for promise in &promises {
        let held = HELD.iter().find(|(start, _)| promise.starts_with(start));
        let (start, tests) = held.unwrap_or_else(|| panic!("no test is named for: {promise}"));
        assert!(used.insert(*start), "two promises begin with {start}");
        for (file, test) in *tests {
            let path = repository().join(file);
            let is_there = match path.is_dir() {
                true => path.join(format!("{test}.harn")).exists(),
                false => std::fs::read_to_string(&path)
                    .is_ok_and(|text| text.contains(&format!("#[test]\nfn {test}()"))),
            };
            assert!(is_there, "{file} has no test {test}, which is to hold: {promise}");
        }
    }
    let gone: Vec<&str> =
        HELD.iter().map(|(start, _)| *start).filter(|start| !used.contains(start)).collect();
    assert_eq!(gone, [""; 0], "what the page does not promise any more");
}
