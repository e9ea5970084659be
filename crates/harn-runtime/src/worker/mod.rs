//! Delegated work: workers, sub-agents and stages. [`harn_agent::lifecycle`] defines units of work and their state
//! changes; this module runs, stops, awaits and saves them.
//!
//! | File | Content |
//! | --- | --- |
//! | `registry` | the workers of a program, their snapshots, and their subscribers |
//! | `start` | starts, awaits, stops and resumes workers of any kind |
//! | `job` | the work of a worker: a loop, a stage, a workflow |
//! | `sub_agent` | a loop in a separate session, with an envelope |
//! | `stage` | one delegated stage |
//! | `place` | where work runs: directory, environment, working tree |
//! | `handlers` | functions that files cannot store |
//! | `terms` | limits of running work: policies, depth, directory |

pub(crate) mod handlers;
pub(crate) mod job;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod stage;
pub(crate) mod start;
pub(crate) mod sub_agent;
pub(crate) mod terms;
