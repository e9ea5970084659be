//! Applies the policy of a loop to its tool handlers: a system layer enforces the limits of its tool calls.

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

/// The default nesting limit of loops.
const NESTING: u64 = 8;

/// The current nesting depth of the running loops, and its limit.
#[derive(Default)]
struct Nesting(TaskScope<(u64, u64), true>);

/// The program's side of a policy: its closures, and the session that stores grants.
pub(crate) struct Layer {
    policy: Policy,
    /// The options that the policy was read from, including its closures.
    pub(crate) options: Value,
    pub(crate) session: Rc<Session>,
    outer: Option<Rc<Layer>>,
}

impl Layer {
    /// Returns the n-th layer, counted outwards from this one.
    pub(crate) fn at(self: &Rc<Layer>, number: usize) -> Option<Rc<Layer>> {
        let mut layer = self.clone();
        for _ in 0..number {
            layer = layer.outer.clone()?;
        }
        Some(layer)
    }
}

/// Applies a policy while a loop runs, until it is dropped.
pub(crate) struct InForce {
    /// The policy of the loop, and the policies around it.
    pub(crate) layer: Rc<Layer>,
    limit: Option<Limit>,
    nesting: Rc<Nesting>,
    token: u64,
    /// The nesting depth of the surrounding loops, and the limit for loops within it.
    depth: (u64, u64),
}

impl InForce {
    /// Returns the limits that also apply to the agent to which the loop transfers its conversation: that agent
    /// replaces this loop, and its permissions never exceed those of this loop.
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

/// Applies the policy of a loop while it runs, within the policies of the surrounding loops.
///
/// # Errors
/// Loops are nested deeper than a policy allows.
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

/// Applies a further policy to the running task, within its current policies, until the limit is dropped. `options` are
/// the options that it was read from, which contain its closures.
pub(crate) fn narrow(cx: &Cx, mut policy: Policy, options: Value) -> Limit {
    let outer = cx.limit_data::<Layer>();
    if let Some(outer) = &outer {
        policy.put_under(outer.policy.clone());
    }
    let ceiling = ceiling(&policy);
    let session = Sessions::unnamed(String::new());
    Limit::to(cx, ceiling, Some(Rc::new(Layer { policy, options, session, outer })))
}

/// Resolves paths on the system layer of a program, in the same way as [`harn_system::Permitted`] resolves
/// `workspace_roots`.
pub(crate) struct RealPaths(pub(crate) Cx);

impl Paths for RealPaths {
    fn real(&self, path: &str) -> Option<String> {
        // Uses the working directory of the task, which a layer may have changed.
        let path = self.0.system().cwd().ok()?.join(path);
        let real = harn_system::real_path(&**self.0.vm().system(), Path::new(&path))?;
        let text = real.to_str()?;
        Some(if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() })
    }
}

/// Returns the policy of the running task, combined with the policies around it.
pub(crate) fn over(cx: &Cx) -> Option<Policy> {
    cx.limit_data::<Layer>().map(|layer| layer.policy.clone())
}

/// Returns the individual policies of the running task with their options, outermost first.
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

/// Returns the nesting depth of loops in the running task, and its limit, for work that continues in another task.
pub(crate) fn depth(cx: &Cx) -> (u64, u64) {
    cx.state::<Nesting>().0.current(cx).unwrap_or((0, NESTING))
}

/// Sets the nesting depth of loops in the running task, until the result is dropped.
pub(crate) fn at_depth(cx: &Cx, depth: (u64, u64)) -> Depth {
    let nesting = cx.state::<Nesting>();
    let token = nesting.0.open(cx, depth);
    Depth { nesting, token }
}

/// The guard of [`at_depth`].
pub(crate) struct Depth {
    nesting: Rc<Nesting>,
    token: u64,
}

impl Drop for Depth {
    fn drop(&mut self) {
        self.nesting.0.close(self.token);
    }
}

/// Returns the effective policy for the system layer.
fn ceiling(policy: &Policy) -> Ceiling {
    Ceiling {
        // The level was checked when the policy was read.
        level: policy.side_effect_level().and_then(Level::of).unwrap_or(Level::Network),
        capabilities: policy.capabilities().cloned(),
        roots: policy.workspace_roots().map(|roots| roots.iter().map(PathBuf::from).collect()),
    }
}
