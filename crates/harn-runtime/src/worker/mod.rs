//! Work that is handed on: workers, sub-agents and stages. What a piece of work is and what may happen to it says
//! [`harn_agent::lifecycle`]; here it is run, stopped, waited for and saved.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `registry` | the workers of a program, their snapshots, and who hears of them |
//! | `start` | starts, waits for, stops and resumes work, whatever it does |
//! | `job` | what a worker does: a loop, a stage, a workflow |
//! | `sub_agent` | a loop in a session of its own, with an envelope |
//! | `stage` | one delegated stage |
//! | `place` | where work runs: folder, environment, working tree |
//! | `handlers` | functions that a file cannot hold |
//! | `terms` | what holds while work runs: policies, depth, place |

pub(crate) mod handlers;
pub(crate) mod job;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod stage;
pub(crate) mod start;
pub(crate) mod sub_agent;
pub(crate) mod terms;
