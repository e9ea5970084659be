//! The integration tests of harn-cli, one module per file. They are one program, because each additional one would be
//! linked separately.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod acp;
mod agent_kills;
mod anew;
mod backup;
mod bad_input;
mod book;
mod check;
mod config;
mod conformance;
mod data;
mod debugger;
mod demo;
mod drain;
mod egress;
mod errors;
mod evals;
mod event_log;
mod examples;
mod exchange_kills;
mod exit_codes;
mod explain;
mod explain_prompt;
mod extremes;
mod failures;
mod faults;
mod fixers;
mod fmt;
mod growth;
mod guide;
mod hardened;
mod health;
mod hostile_servers;
mod hostile_trees;
mod import_cycles;
mod imports;
mod install;
mod kept_runs;
mod kill;
mod limits;
mod lint;
mod lint_rules;
mod llm_scope;
mod lsp;
mod mcp;
mod mcp_login;
mod mcp_requests;
#[cfg(unix)]
mod messages;
mod models;
#[cfg(all(unix, feature = "postgres"))]
mod outages;
mod packages;
mod paths;
mod people;
mod plain_data;
mod portal;
mod project;
mod promises;
mod queues;
mod real_server;
mod repl;
mod replay_debug;
mod retention;
mod role_approvals;
mod run_faults;
mod run_secrets;
mod runs;
mod serve_http;
mod serve_mcp;
#[cfg(feature = "postgres")]
#[path = "../../harn-store/tests/it/server.rs"]
mod server;
mod sessions;
mod signals;
mod skills_cli;
mod state;
mod state_kills;
mod stopped_trees;
mod store_flips;
mod store_place;
mod streams;
mod tasks;
mod terminal;
mod test_options;
mod trace;
mod trees;
mod trial;
#[cfg(unix)]
mod trust;
mod unused_public_items;
mod usage;
mod user_tests;
mod waitpoints;
mod watchdog;
mod words;
mod workers;
mod wrong_programs;
