//! Every promise of the pages about durable runs (`docs/runs/durable-reference.md`, `docs/runs/in-doubt.md`), of the threat model
//! and of `SECURITY.md` has a test.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::common::repository;

/// The beginning of a promise, and its evidence: a file and a test in it, or a directory of conformance cases and a
/// case.
const HELD: &[(&str, &[(&str, &str)])] = &[
    (
        "A durable run can be killed at any moment",
        &[(RUNS, "an_interrupted_run_goes_on"), (SUITE, "cases_end_the_same_from_a_journal_and_broken_off")],
    ),
    // Commands.
    ("| `harn run --durable", &[(RUNS, "a_replay_prints_the_same_and_does_nothing")]),
    ("| `harn resume ID` ", &[(RUNS, "an_interrupted_run_goes_on")]),
    (
        "| `harn resume --all`",
        &[
            (RUNS, "an_interrupted_run_goes_on"),
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
        ],
    ),
    ("| `harn resume ID --skip-in-doubt RESULT` | resume", &[(EXCHANGES, SUSPENDS)]),
    ("| `harn answer ID REQUEST", &[(PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on")]),
    ("| `harn replay ID` ", &[(RUNS, "a_replay_prints_the_same_and_does_nothing")]),
    ("| `harn replay ID --until", &[(RUNS, "a_replay_prints_the_same_and_does_nothing")]),
    ("| `harn replay ID --debug`", &[(DEBUG, "it_steps_back_and_jumps")]),
    (
        "| `harn replay ID --check`",
        &[
            (RUNS, "changed_sources_are_compared_and_forked"),
            (EXCHANGES, "a_check_shows_the_difference_of_two_requests"),
        ],
    ),
    ("| `harn runs repair ID`", &[(FLIPS, "a_damaged_journal_is_cut_by_repair")]),
    ("| `harn fork ID --at N` ", &[(RUNS, "changed_sources_are_compared_and_forked")]),
    ("| `harn fork ID --at N --changed`", &[(RUNS, "changed_sources_are_compared_and_forked")]),
    ("| `harn submit FILE`", &[(WORKERS, "what_is_submitted_runs_with_its_arguments")]),
    ("With `durable = true`", &[(PEOPLE, "the_project_makes_runs_durable")]),
    // Journal.
    (
        "A durable run records its effects",
        &[
            (JOURNAL, "a_replay_is_equal_and_touches_nothing"),
            (JOURNAL, "broken_off_anywhere_a_run_goes_on_to_the_same_end"),
        ],
    ),
    (
        "The journal is stored in the SQLite file",
        &[
            (
                "crates/harn-cli/tests/store_place.rs",
                "a_store_that_cannot_be_used_is_never_replaced_by_another_one",
            ),
            (RUNS, "a_replay_prints_the_same_and_does_nothing"),
        ],
    ),
    // Guarantees.
    (
        "**Recorded results are reused.**",
        &[
            (JOURNAL, "a_replay_is_equal_and_touches_nothing"),
            (RUNS, "a_replay_prints_the_same_and_does_nothing"),
            ("conformance/runs/files", "a_file_that_was_read_is_not_read_again"),
            ("conformance/runs/agents", "a_model_is_not_asked_again"),
        ],
    ),
    (
        "**Completed side effects are not repeated.**",
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
        "**Agent loops resume inside a turn.**",
        &[
            (RUNS, "an_agent_killed_at_any_moment_asks_nothing_twice_and_does_nothing_twice"),
            ("conformance/runs/agents", "a_tool_that_has_run_does_not_run_again"),
            ("conformance/runs/agents", "cost_and_counts_go_on"),
        ],
    ),
    (
        "**Output is not repeated.**",
        &[
            (JOURNAL, "what_was_printed_is_not_printed_again"),
            (JOURNAL, "output_leaves_when_what_led_to_it_is_kept"),
            (RUNS, "what_was_printed_stays_true_after_a_kill"),
        ],
    ),
    (
        "**Timers keep running while a run is stopped.**",
        &[
            (RUNS, "a_run_that_only_waits_holds_no_process"),
            (PEOPLE, "the_time_of_a_request_goes_on_without_a_process"),
            (EXCHANGES, "limits_of_an_exchange_do_not_run_while_a_run_is_stopped"),
        ],
    ),
    ("**Secrets are not stored.**", &[(JOURNAL, "keys_never_enter_a_journal")]),
    (
        "**One process at a time works on a run.**",
        &[
            (WORKERS, "a_process_that_was_stopped_cannot_write_over_its_successor"),
            (RUNS, "a_run_that_was_taken_over_is_not_taken_from_the_living"),
        ],
    ),
    // Secrets.
    (
        "For a secret environment variable",
        &[(JOURNAL, "keys_never_enter_a_journal"), (RUNS, "keys_are_taken_from_the_environment_again")],
    ),
    (
        "The journal contains the name of a secret variable",
        &[
            (SECRETS, "no_key_of_the_environment_enters_the_store"),
            (JOURNAL, "keys_never_enter_a_journal"),
            (RUNS, "keys_stay_out_of_what_is_done_with_them"),
            (ANEW, "keys_in_what_is_handed_over_stay_outside"),
        ],
    ),
    (
        "A value is recognized as it is",
        &[("crates/harn-journal/src/secrets.rs", "encoded_keys_are_hidden_and_shown")],
    ),
    (
        "Values shorter than eight characters",
        &[("crates/harn-journal/src/secrets.rs", "keys_are_hidden_and_shown")],
    ),
    ("A resumed run that needs a secret", &[(SECRETS, "no_key_of_the_environment_enters_the_store")]),
    ("Headers of requests are not recorded.", &[(JOURNAL, "keys_never_enter_a_journal")]),
    (
        "A replay needs no secrets",
        &[
            (RUNS, "keys_are_taken_from_the_environment_again"),
            (RUNS, "keys_stay_out_of_what_is_done_with_them"),
            (SECRETS, "a_renewed_key_takes_the_place_of_the_old_one"),
        ],
    ),
    // Suspension.
    (
        "A run is *suspended* when",
        &[
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
            (RUNS, "a_run_that_only_waits_holds_no_process"),
        ],
    ),
    (
        "| an answer of a human or a waitpoint |",
        &[
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
            ("conformance/runs/together", "work_and_a_question_side_by_side"),
        ],
    ),
    ("| timers only", &[(PEOPLE, "long_sleeps_end_the_process_and_tools_are_told")]),
    (
        "`--suspend-after TIME` replaces both limits",
        &[(RUNS, "a_run_that_only_waits_holds_no_process"), (PEOPLE, "an_answer_wakes_a_process_that_waits")],
    ),
    (
        "Other tasks continue while one task waits",
        &[
            (PEOPLE, "an_answer_wakes_a_process_that_waits"),
            ("conformance/runs/together", "work_and_a_question_side_by_side"),
        ],
    ),
    (
        "`harn resume --all` and `harn worker` resume",
        &[
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
            (PEOPLE, "the_time_of_a_request_goes_on_without_a_process"),
            (ANEW, "a_part_waits_for_a_person_and_a_worker_goes_on"),
        ],
    ),
    // Requests to humans.
    (
        "`ask_user`, `request_approval`, `dual_control` and `escalate_to` create a request.",
        &[
            (PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on"),
            ("conformance/runs/agents", "a_person_lets_a_tool_run"),
            ("conformance/runs/questions", "a_host_that_answers_spares_the_person"),
        ],
    ),
    (
        "`harn answer` accepts JSON or plain text",
        &[
            (PEOPLE, "a_question_takes_no_yes_and_a_wrong_name_is_told"),
            ("conformance/runs/agents", "a_person_changes_what_a_tool_is_given"),
        ],
    ),
    ("`--by NAME` names the reviewer", &[(PEOPLE, "approvals_are_for_those_who_are_named")]),
    (
        "A request expires after",
        &[
            (PEOPLE, "the_time_of_a_request_goes_on_without_a_process"),
            ("conformance/runs/timeouts", "an_answer_in_time_counts"),
            ("conformance/runs/timeouts", "an_answer_that_came_too_late_does_not"),
        ],
    ),
    (
        "An answer is stored with its reviewer",
        &[
            (PEOPLE, "an_answer_to_something_else_does_not_count"),
            (JOURNAL, "another_question_needs_another_answer"),
        ],
    ),
    (
        "`harn runs show ID --json` lists open requests",
        &[(PEOPLE, "a_question_ends_the_process_and_an_answer_goes_on")],
    ),
    (
        "[Waitpoints](waitpoints.md) work like requests",
        &[(
            "crates/harn-cli/tests/waitpoints.rs",
            "a_run_waits_without_a_process_until_the_command_line_completes_it",
        )],
    ),
    // Effects in doubt.
    (
        "An effect is *in doubt* when",
        &[(JOURNAL, FILES_IN_DOUBT), (JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")],
    ),
    (
        "| reading files, environment variables, the clock |",
        &[(JOURNAL, "broken_off_anywhere_a_run_goes_on_to_the_same_end")],
    ),
    ("| model calls |", &[(KILLS, "an_agent_with_everything_is_killed_and_does_nothing_twice")]),
    (
        "| GET, HEAD, OPTIONS, PUT and DELETE requests |",
        &[(JOURNAL, "a_request_in_doubt_is_an_error_unless_it_may_be_sent_twice")],
    ),
    ("| replacing and copying files, creating directories |", &[(JOURNAL, FILES_IN_DOUBT)]),
    ("| removing and moving files |", &[(JOURNAL, FILES_IN_DOUBT)]),
    (
        "| appending to a file | checks",
        &[
            (JOURNAL, FILES_IN_DOUBT),
            (JOURNAL, "an_append_that_somebody_else_has_touched_is_in_doubt_unless_it_may_be_made_twice"),
            (PEOPLE, "a_file_in_doubt_has_the_category_of_doubt"),
        ],
    ),
    (
        "| other requests, commands, calls of [MCP](../agents/mcp.md) tools |",
        &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")],
    ),
    ("The error message lists", &[(PEOPLE, "a_file_in_doubt_has_the_category_of_doubt")]),
    ("| `idempotent: true` |", &[(KILLS, "an_agent_with_everything_is_killed_and_does_nothing_twice")]),
    ("| `on_uncertain: \"retry\"` |", &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")]),
    ("| `on_uncertain: \"ask\"` |", &[(PEOPLE, "a_person_decides_what_is_done_again")]),
    ("| `on_uncertain: \"fail\"` |", &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")]),
    (
        "| `harn resume ID --retry-in-doubt` |",
        &[(JOURNAL, "a_program_in_doubt_is_an_error_unless_it_may_run_twice")],
    ),
    (
        "The options belong to",
        &[
            (PEOPLE, "a_tool_says_what_becomes_of_what_its_handler_does"),
            ("conformance/runs/agents", "programs_refuse_wrong_words_for_doubt"),
            ("conformance/runs/agents", "requests_refuse_wrong_words_for_doubt"),
        ],
    ),
    ("| `harn answer ID doubt_N --approve` |", &[(EXCHANGES, SUSPENDS)]),
    ("| `harn answer ID doubt_N RESULT` |", &[(EXCHANGES, SUSPENDS)]),
    ("| `harn answer ID doubt_N --reject` |", &[(EXCHANGES, SUSPENDS)]),
    ("| `harn resume ID --skip-in-doubt RESULT` | continue", &[(EXCHANGES, SUSPENDS)]),
    ("| request | the body", &[(EXCHANGES, SUSPENDS)]),
    ("| command | the exit code", &[(DOUBT, "a_given_result_has_the_form_of_its_effect")]),
    ("| call of an MCP tool |", &[(DOUBT, "a_given_result_has_the_form_of_its_effect")]),
    (
        "| appending to a file | any value",
        &[(JOURNAL, "an_append_that_somebody_else_has_touched_is_in_doubt_unless_it_may_be_made_twice")],
    ),
    (
        "Head and body of an HTTP exchange are one effect",
        &[
            (JOURNAL, "an_exchange_is_repeated_at_whatever_piece_it_stopped"),
            (EXCHANGES, "an_exchange_is_repeated_at_whatever_byte_a_kill_cut_it"),
        ],
    ),
    (
        "`http_*` functions and `http_download` use",
        &[(JOURNAL, "an_exchange_is_repeated_at_whatever_piece_it_stopped")],
    ),
    (
        "`llm_stream` compares the text",
        &[(
            "crates/harn-llm/src/runtime/delivered.rs",
            "a_repeated_reply_continues_where_the_first_one_stopped",
        )],
    ),
    ("Other streams end with", &[(JOURNAL, "an_exchange_is_repeated_at_whatever_piece_it_stopped")]),
    // Continue as new.
    (
        "`continue_as_new(workflow, {state: ...})`",
        &[
            (ANEW, "the_journal_begins_again_and_the_program_stays_the_same"),
            (ANEW, "killed_at_any_moment_each_part_happens_once"),
            ("conformance/agents/workflows", "anew_is_no_error_and_cleans_up"),
        ],
    ),
    (
        "The run keeps its ID, source files, arguments and schedule.",
        &[
            (ANEW, "the_journal_begins_again_and_the_program_stays_the_same"),
            (ANEW, "a_part_waits_for_a_person_and_a_worker_goes_on"),
            ("conformance/agents/workflows", "anew_forgets_the_rest"),
        ],
    ),
    (
        "`harn replay` and `harn runs events` show the current generation",
        &[(ANEW, "the_journal_begins_again_and_the_program_stays_the_same")],
    ),
    (
        "The state is JSON data.",
        &[
            ("conformance/agents/workflows", "anew_takes_data_only"),
            (ANEW, "keys_in_what_is_handed_over_stay_outside"),
        ],
    ),
    (
        "A loop with `daemon: true` and `continue_as_new_after: N`",
        &[
            (ANEW, "a_daemon_that_lives_on_has_a_journal_that_stays_small"),
            ("conformance/agents/daemons", "anew_by_itself"),
        ],
    ),
    ("To pass on a daemon with a handle", &[(ANEW, "a_daemon_goes_on_from_its_snapshot_with_a_new_journal")]),
    ("`continue_as_new` also restarts a program", &[(ANEW, "without_a_journal_it_begins_anew_as_well")]),
];

const ANEW: &str = "crates/harn-cli/tests/anew.rs";
const DEBUG: &str = "crates/harn-cli/tests/replay_debug.rs";
const JOURNAL: &str = "crates/harn-journal/tests/it/main.rs";
const RUNS: &str = "crates/harn-cli/tests/runs.rs";
const PEOPLE: &str = "crates/harn-cli/tests/people.rs";
const WORKERS: &str = "crates/harn-cli/tests/workers.rs";
const KILLS: &str = "crates/harn-cli/tests/agent_kills.rs";
const FAULTS: &str = "crates/harn-cli/tests/run_faults.rs";
const SUITE: &str = "crates/harn-cli/tests/conformance.rs";
const SECRETS: &str = "crates/harn-cli/tests/run_secrets.rs";
const FLIPS: &str = "crates/harn-cli/tests/store_flips.rs";
const EXCHANGES: &str = "crates/harn-cli/tests/exchange_kills.rs";
const DOUBT: &str = "crates/harn-journal/src/doubt.rs";
const SUSPENDS: &str = "an_effect_in_doubt_that_nothing_handles_suspends_the_run";
const FILES_IN_DOUBT: &str = "a_change_of_files_in_doubt_ends_the_same_whether_it_had_happened_or_not";

/// Returns the paragraphs, points and rows of the page, up to its limits.
fn promises(page: &str) -> Vec<String> {
    let (page, _) = page.split_once("\n## Limits\n").expect("the section about limits");
    let mut found: Vec<String> = Vec::new();
    let (mut is_example, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_example = !is_example;
            goes_on = false;
            continue;
        }
        let is_row = line.starts_with("| ");
        match line.strip_prefix("- ") {
            _ if is_example || line.is_empty() || line.starts_with('#') => goes_on = false,
            // The line above is the head of the table.
            _ if line.starts_with("| ---") => drop(found.pop()),
            Some(point) => {
                found.push(point.to_owned());
                goes_on = true;
            }
            None if is_row || !goes_on => {
                found.push(line.to_owned());
                goes_on = !is_row;
            }
            None => {}
        }
    }
    found
}

#[test]
fn every_promise_of_the_page_is_held_by_a_test() {
    let read = |name: &str| std::fs::read_to_string(repository().join("docs/runs").join(name)).unwrap();
    let promises = promises(&format!("{}\n{}", read("in-doubt.md"), read("durable-reference.md")));
    let mut used = BTreeSet::new();
    for promise in &promises {
        let held = HELD.iter().find(|(start, _)| promise.starts_with(start));
        let (start, tests) = held.unwrap_or_else(|| panic!("no test is named for: {promise}"));
        assert!(used.insert(*start), "two promises begin with {start}");
        for (file, test) in *tests {
            let path = repository().join(file);
            let is_there = match path.is_dir() {
                true => path.join(format!("{test}.harn")).exists(),
                false => std::fs::read_to_string(&path).is_ok_and(|text| has_test(&text, test)),
            };
            assert!(is_there, "{file} has no test {test}, which is to hold: {promise}");
        }
    }
    let gone: Vec<&str> =
        HELD.iter().map(|(start, _)| *start).filter(|start| !used.contains(start)).collect();
    assert_eq!(gone, [""; 0], "what the page does not promise any more");
}

/// The points of `SECURITY.md`, by their beginning, and the corresponding rows of the threat model.
const IN_SHORT: &[(&str, &[&str])] = &[
    (
        "**Input cannot execute code on its own.**",
        &[
            "Any source is compiled,",
            "Calls inside quoted results,",
            "Manifests of any content",
            "Templates render any values",
        ],
    ),
    (
        "**Destructive builtins reject dangerous paths.**",
        &["Important directories stay", "A file is not copied", "A write that breaks off leaves"],
    ),
    (
        "**Limits hold**",
        &[
            "Data never exceeds the memory limit",
            "A deadline, Ctrl-C",
            "Bulk operations count their bytes",
            "A signal ends a program within a second",
            "Bodies have limits",
            "A program that is run ends",
        ],
    ),
    ("**API keys are redacted**", &["Keys are hidden", "Keys do not follow redirects"]),
    ("**Untrusted content stays data**", &["Untrusted content cannot close", "Calls inside quoted results,"]),
    (
        "**The library is sound**",
        &[
            "A program, function, method or generator runs only in the VM",
            "A collection of cycles reads no freed object",
        ],
    ),
    ("**Invalid limits fail closed**", &["Limits that are malformed", "`policy` applies to everything"]),
];

/// Returns the rows of the threat model: a promise, and its evidence.
fn threats() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(repository().join("docs/threat-model.md")).unwrap();
    let (_, tables) = page.split_once("\n## ").unwrap();
    let rows =
        tables.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let rows = rows.filter(|(promise, _)| *promise != "Guarantee");
    rows.map(|(promise, held)| (promise.to_owned(), held.to_owned())).collect()
}

/// Whether a test exists: a fuzz target, a file of tests, a module of tests or a test.
fn is_there(of: &str, name: &str) -> bool {
    let folder = repository().join("crates").join(of);
    let text = |path: PathBuf| std::fs::read_to_string(path).ok();
    if of == "harn-fuzz" {
        return text(folder.join("src/target.rs"))
            .is_some_and(|all| all.contains(&format!("name: \"{name}\"")));
    }
    let parts: Vec<&str> = name.split("::").collect();
    (1..=parts.len()).any(|file| {
        let (path, inner) = (parts[..file].join("/"), &parts[file..]);
        let places = ["tests/{}.rs", "tests/it/{}.rs", "src/{}.rs", "src/{}/mod.rs"];
        places.iter().filter_map(|place| text(folder.join(place.replace("{}", &path)))).any(|all| match inner
        {
            [] => all.contains("test]\n"),
            ["tests"] => all.contains("mod tests {") && all.contains("#[test]\n"),
            ["tests", test] | [test] => has_test(&all, test),
            _ => false,
        })
    })
}

/// Whether a source has a function with this name that is marked as a test.
fn has_test(text: &str, name: &str) -> bool {
    let start = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| {
        pair[0].ends_with("test]") && pair[1].strip_prefix("async ").unwrap_or(pair[1]).starts_with(&start)
    })
}

#[test]
fn every_promise_of_the_threat_model_is_held_by_a_test() {
    let threats = threats();
    assert!(threats.len() > 30, "{threats:#?}");
    let mut wrong = Vec::new();
    for (promise, held) in &threats {
        let mut of = String::new();
        let names: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{promise}: {held}");
        for name in names {
            let found = if let Some(case) = name.strip_prefix("conformance/") {
                let path = repository().join("conformance").join(case);
                path.is_dir() || path.with_extension("harn").is_file()
            } else {
                let test = match name.split_once(": ") {
                    Some((here, test)) => {
                        of = here.to_owned();
                        test
                    }
                    // Another test of the same crate.
                    None => name,
                };
                is_there(&of, test)
            };
            if !found {
                wrong.push(format!("{name}, for: {promise}"));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that are not there: {wrong:#?}");
    assert!(!is_there("harn-cli", "signals::no_such_test") && !is_there("harn-fuzz", "nothing"));
}

#[test]
fn what_is_promised_in_short_is_in_the_threat_model() {
    let page = std::fs::read_to_string(repository().join("SECURITY.md")).unwrap();
    let (_, promised) = page.split_once("## Guarantees\n").unwrap();
    let points: Vec<&str> =
        promised.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("- ")).collect();
    let threats = threats();
    assert_eq!(points.len(), IN_SHORT.len(), "{points:#?}");
    for (point, (start, rows)) in points.iter().zip(IN_SHORT) {
        assert!(point.starts_with(start), "{point}");
        for row in *rows {
            assert!(
                threats.iter().any(|(promise, _)| promise.starts_with(row)),
                "{point}: no row begins with {row}"
            );
        }
    }
}
