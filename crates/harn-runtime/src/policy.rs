//! Applies the policy of a loop to its tool handlers: a system layer enforces the limits that its tool calls have.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_agent::LoopConfig;
use harn_agent::policy::{Paths, Policy};
use harn_system::{Ceiling, Level};
use harn_value::Value;
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Error, Limit, Result};

use crate::convert::entry;
use crate::session::{Session, Sessions};

/// Loops within loops when no policy says otherwise.
const NESTING: u64 = 8;

/// How deep the running loops are nested, and how deep they may be.
#[derive(Default)]
struct Nesting(TaskScope<(u64, u64), true>);

/// What a policy needs of the program: its closures, and the session that remembers grants.
pub(crate) struct Layer {
    policy: Policy,
    /// The options that the policy was read from: its closures are in them.
    pub(crate) options: Value,
    pub(crate) session: Rc<Session>,
    outer: Option<Rc<Layer>>,
}

impl Layer {
    /// The layer with this number, counted outwards from this one.
    pub(crate) fn at(self: &Rc<Layer>, number: usize) -> Option<Rc<Layer>> {
        let mut layer = self.clone();
        for _ in 0..number {
            layer = layer.outer.clone()?;
        }
        Some(layer)
    }
}

/// What holds while a loop runs; dropping it ends that.
pub(crate) struct InForce {
    /// The policy of the loop, and of those around it.
    pub(crate) layer: Rc<Layer>,
    limit: Option<Limit>,
    nesting: Rc<Nesting>,
    token: u64,
    /// How deep the loops around it are nested, and how deep loops may be in it.
    depth: (u64, u64),
}

impl InForce {
    /// What of it also holds for the agent to which the loop transfers its conversation: that one takes its place, and may
    /// do no more than it.
    pub(crate) fn passed_on(mut self, cx: &Cx) -> (Option<Limit>, Depth) {
        let (limit, depth) = (self.limit.take(), self.depth);
        drop(self);
        (limit, at_depth(cx, depth))
    }
}

impl Drop for InForce {
    fn drop(&mut self) {
        self.nesting.0.close(self.token);
    }
}

/// Puts the policy of a loop in force for its length, below the policies of the loops around it.
///
/// # Errors
/// When loops are nested deeper than a policy allows.
pub(crate) fn limit(
    cx: &Cx,
    config: &mut LoopConfig,
    options: &Value,
    session: &Rc<Session>,
) -> Result<InForce> {
    let nesting = cx.state::<Nesting>();
    let (depth, most) = nesting.0.current(cx).unwrap_or((0, NESTING));
    if depth >= most {
        return Err(Error::thrown("agent_loop: loops are nested deeper than recursion_limit allows"));
    }
    let most =
        config.policy.recursion_limit().map_or(most, |limit| most.min((depth + 1).saturating_add(limit)));
    let outer = cx.limit_data::<Layer>();
    if let Some(outer) = &outer {
        config.policy.put_under(outer.policy.clone());
    }
    let layer = Rc::new(Layer {
        policy: config.policy.clone(),
        options: options.clone(),
        session: session.clone(),
        outer,
    });
    let given = ["policy", "approval_policy", "permissions"].iter().any(|key| !entry(options, key).is_nil());
    let limit = given.then(|| Limit::to(cx, ceiling(&config.policy), Some(layer.clone())));
    let token = nesting.0.open(cx, (depth + 1, most));
    Ok(InForce { layer, limit, nesting, token, depth: (depth, most) })
}

/// Puts one more policy over the running task, below those that are over it, until the limit is dropped. `options` are those
/// that it was read from: their closures are asked.
pub(crate) fn narrow(cx: &Cx, mut policy: Policy, options: Value) -> Limit {
    let outer = cx.limit_data::<Layer>();
    if let Some(outer) = &outer {
        policy.put_under(outer.policy.clone());
    }
    let ceiling = ceiling(&policy);
    let session = Sessions::unnamed(String::new());
    Limit::to(cx, ceiling, Some(Rc::new(Layer { policy, options, session, outer })))
}

/// Where paths lead on the system of a program, as [`harn_system::Permitted`] finds it out for `workspace_roots`.
pub(crate) struct RealPaths(pub(crate) Cx);

impl Paths for RealPaths {
    fn real(&self, path: &str) -> Option<String> {
        // The working directory is that of the task, which a layer may have moved.
        let path = self.0.system().cwd().ok()?.join(path);
        let real = harn_system::real_path(&**self.0.vm().system(), Path::new(&path))?;
        let text = real.to_str()?;
        Some(if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() })
    }
}

/// The policy over the running task, with those around it.
pub(crate) fn over(cx: &Cx) -> Option<Policy> {
    cx.limit_data::<Layer>().map(|layer| layer.policy.clone())
}

/// The policies over the running task, each by itself with its options, the outermost first.
pub(crate) fn layers(cx: &Cx) -> Vec<(Policy, Value)> {
    let mut out = Vec::new();
    let mut layer = cx.limit_data::<Layer>();
    while let Some(current) = layer {
        out.extend(current.policy.layers().pop().map(|own| (own, current.options.clone())));
        layer = current.outer.clone();
    }
    out.reverse();
    out
}

/// How deep the running task is in loops, and how deep loops may be, for work that goes on in another task.
pub(crate) fn depth(cx: &Cx) -> (u64, u64) {
    cx.state::<Nesting>().0.current(cx).unwrap_or((0, NESTING))
}

/// Counts the loops of the running task from a depth, until it is dropped.
pub(crate) fn at_depth(cx: &Cx, depth: (u64, u64)) -> Depth {
    let nesting = cx.state::<Nesting>();
    let token = nesting.0.open(cx, depth);
    Depth { nesting, token }
}

/// See [`at_depth`].
pub(crate) struct Depth {
    nesting: Rc<Nesting>,
    token: u64,
}

impl Drop for Depth {
    fn drop(&mut self) {
        self.nesting.0.close(self.token);
    }
}

/// The ceiling of a policy.
fn ceiling(policy: &Policy) -> Ceiling {
    Ceiling {
        // The word was checked when the policy was read.
        level: policy.side_effect_level().and_then(Level::of).unwrap_or(Level::Network),
        capabilities: policy.capabilities().cloned(),
        roots: policy.workspace_roots().map(|roots| roots.iter().map(PathBuf::from).collect()),
    }
}
