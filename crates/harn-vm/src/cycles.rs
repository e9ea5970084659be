//! Cycle collector for captured variables, by trial deletion.
//!
//! Values are reference-counted, and lists, dicts and structs cannot contain themselves. A cycle requires an object
//! that changes after its creation, which is a `Variable`: `let f = { n -> f(n - 1) }` captures the variable that holds
//! the closure. Therefore every variable on the heap is in a list of its thread, and every cycle contains one of them.
//!
//! A collection takes variables as suspects, assumes that no reference from outside exists, and subtracts the
//! references that they hold from the counts of the objects they refer to (in a separate table, not in the objects).
//! Objects whose count drops to zero are traced further. Suspects with remaining references are in use, as is
//! everything reachable from them; the others are garbage. Garbage is freed by clearing its variables: reference
//! counting frees the rest.
//!
//! Cost: creating and dropping a variable links and unlinks it; the rest of a program's run is not affected. A
//! collection visits the variables created since the last one (most die young) and the objects that only they hold.
//! Surviving variables are visited again when their number or the program's memory has doubled. So the time spent is
//! proportional to the time taken to create the visited objects, and garbage takes at most as much memory as the
//! objects in use, plus `YOUNG_BYTES`.
//!
//! Not collected: cycles through methods for which an `impl` inside a function captured variables, which are broken at
//! the end of the program (`vm.rs`), and cycles through work in progress: an iterator that is being pulled, a merged
//! iterator that waits in the middle of its functions, a task. They are treated as in use until the wait ends. A
//! channel or a generator that was sent into itself, with no captured variable between, is never a suspect.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use harn_value::{Tag, Value, memory};
use rustc_hash::FxHashMap;

use crate::closure::Variable;

/// Number of variables created between two collections.
const YOUNG: usize = 10_000;

/// Bytes that may be allocated between two collections.
const YOUNG_BYTES: usize = 32 << 20;

/// A variable's links in the list of its generation.
pub(crate) struct Link {
    /// The value pointers of the neighbours; null at the ends.
    previous: Cell<*mut ()>,
    next: Cell<*mut ()>,
    generation: Cell<Generation>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// In no list: a module's variable, which only the module holds.
    None,
    Young,
    Old,
}

impl Link {
    /// Creates a link for a variable that is not in a list (yet).
    pub(crate) const fn new() -> Link {
        Link {
            previous: Cell::new(std::ptr::null_mut()),
            next: Cell::new(std::ptr::null_mut()),
            generation: Cell::new(Generation::None),
        }
    }
}

/// The state of a thread. It has no destructor, so it exists as long as any value.
struct State {
    young: Cell<*mut ()>,
    old: Cell<*mut ()>,
    /// Number of variables in both lists.
    live: Cell<usize>,
    /// Number of variables created since the last collection.
    made: Cell<usize>,
    /// Collect the young variables when this many were created, or this many bytes are in use.
    made_limit: Cell<usize>,
    bytes_limit: Cell<usize>,
    /// Collect all variables when this many are alive, or this many bytes are in use.
    live_limit: Cell<usize>,
    all_bytes_limit: Cell<usize>,
}

thread_local! {
    static STATE: State = const {
        State {
            young: Cell::new(std::ptr::null_mut()),
            old: Cell::new(std::ptr::null_mut()),
            live: Cell::new(0),
            made: Cell::new(0),
            made_limit: Cell::new(YOUNG),
            bytes_limit: Cell::new(YOUNG_BYTES),
            live_limit: Cell::new(YOUNG),
            all_bytes_limit: Cell::new(2 * YOUNG_BYTES),
        }
    };
}

/// Returns the variable of a pointer in a list.
///
/// # Safety
/// The pointer is in one of the lists.
unsafe fn at<'a>(word: *mut ()) -> &'a Variable {
    // SAFETY: only pointers of `Variable`s are in the lists, and a variable leaves its list when it is dropped.
    unsafe {
        let value = ManuallyDrop::new(Value::from_raw(Tag::Cell, word));
        let variable: *const Variable = value.downcast_unchecked::<Variable>();
        &*variable
    }
}

/// Adds a new variable. `cell` is its value.
pub(crate) fn link(cell: &Value) {
    let Some(variable) = Variable::of(cell) else { return };
    STATE.with(|state| {
        let head = state.young.replace(cell.word());
        variable.link.next.set(head);
        variable.link.generation.set(Generation::Young);
        if !head.is_null() {
            // SAFETY: in the list.
            unsafe { at(head) }.link.previous.set(cell.word());
        }
        state.live.set(state.live.get() + 1);
        state.made.set(state.made.get() + 1);
    });
}

/// Removes a variable that is being dropped from its list.
pub(crate) fn unlink(link: &Link) {
    let generation = link.generation.get();
    if generation == Generation::None {
        return;
    }
    STATE.with(|state| {
        let (previous, next) = (link.previous.get(), link.next.get());
        if !next.is_null() {
            // SAFETY (both): in the list.
            unsafe { at(next) }.link.previous.set(previous);
        }
        if !previous.is_null() {
            unsafe { at(previous) }.link.next.set(next);
        } else if generation == Generation::Young {
            state.young.set(next);
        } else {
            state.old.set(next);
        }
        state.live.set(state.live.get() - 1);
    });
}

/// Returns the number of captured variables alive on this thread, including those in garbage; for tests.
pub fn live_variables() -> usize {
    STATE.with(|state| state.live.get())
}

/// Returns whether a collection is due.
#[inline]
pub(crate) fn is_due() -> bool {
    STATE.with(|state| {
        let made = state.made.get();
        made >= state.made_limit.get() || made > 0 && memory::used() > state.bytes_limit.get()
    })
}

/// Frees the cycles of a program when dropped.
pub(crate) struct Sweep;

impl Drop for Sweep {
    fn drop(&mut self) {
        collect(true);
    }
}

/// Result of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// Number of variables freed.
    pub variables: usize,
    /// Number of objects visited: the cost of the collection.
    pub visited: usize,
    /// Whether cleanup blocks of the program have to run first; the objects they belong to were not freed.
    pub cleanup: bool,
}

/// Runs a collection if one is due: of the young variables, or of all.
pub(crate) fn collect_if_due() -> Collected {
    let all = STATE.with(|state| {
        state.live.get() >= state.live_limit.get() || memory::used() > state.all_bytes_limit.get()
    });
    if is_due() { collect(all) } else { Collected::default() }
}

/// Frees unreachable cycles, among the variables created since the last collection or among `all`.
pub fn collect(all: bool) -> Collected {
    let suspects = STATE.with(|state| suspects(state, all));
    let mut graph = Graph::default();
    for suspect in &suspects {
        graph.suspect(suspect);
    }
    graph.subtract();
    graph.keep_what_is_in_use();
    let mut result = Collected { variables: 0, visited: graph.nodes.len(), cleanup: graph.finalize() };
    if !result.cleanup {
        let garbage = graph.garbage();
        result.variables = garbage.len();
        drop(graph);
        // All are cleared before anything is dropped, because a drop must not meet a partly cleared cycle.
        let contents: Vec<Value> =
            garbage.iter().filter_map(Variable::of).map(|v| v.replace(Value::ABSENT)).collect();
        drop(suspects);
        drop(garbage);
        drop(contents);
    }
    STATE.with(|state| {
        let used = memory::used();
        state.made.set(0);
        state.made_limit.set(YOUNG.max(result.visited / 4));
        state.bytes_limit.set(used + YOUNG_BYTES.max(used / 4));
        if all {
            state.live_limit.set(YOUNG + 2 * state.live.get());
            state.all_bytes_limit.set(2 * (used + YOUNG_BYTES));
        }
    });
    result
}

/// Returns handles of the young variables, which become old, or of all variables.
fn suspects(state: &State, all: bool) -> Vec<Value> {
    // SAFETY (all): the pointers are in the lists; a handle holds its own reference.
    let handle = |word: *mut ()| unsafe { (*ManuallyDrop::new(Value::from_raw(Tag::Cell, word))).clone() };
    let mut suspects = Vec::new();
    let old = state.old.get();
    let (mut word, mut last) = (state.young.get(), std::ptr::null_mut());
    while !word.is_null() {
        suspects.push(handle(word));
        let link = &unsafe { at(word) }.link;
        link.generation.set(Generation::Old);
        last = word;
        word = link.next.get();
    }
    let mut word = if all { old } else { std::ptr::null_mut() };
    while !word.is_null() {
        suspects.push(handle(word));
        word = unsafe { at(word) }.link.next.get();
    }
    // Prepend the young list to the old list.
    if !last.is_null() {
        unsafe { at(last) }.link.next.set(old);
        if !old.is_null() {
            unsafe { at(old) }.link.previous.set(last);
        }
        state.old.set(state.young.replace(std::ptr::null_mut()));
    }
    suspects
}

/// An object that was visited.
struct Node {
    /// The object. This reference prevents a `trace` that drops values from freeing an object of the graph.
    value: Value,
    /// Number of references to it that are not held by an opened node.
    outside: usize,
    /// Whether its references were subtracted: it is a suspect, or all references to it come from opened nodes.
    open: bool,
    live: bool,
}

/// The objects reachable from the suspects. The program does not run while a graph exists.
#[derive(Default)]
struct Graph {
    /// Node numbers by address.
    numbers: FxHashMap<usize, u32>,
    nodes: Vec<Node>,
    /// Nodes still to be processed.
    work: Vec<u32>,
}

impl Graph {
    fn suspect(&mut self, value: &Value) {
        let Some((address, count)) = value.holder() else { return };
        let number = self.nodes.len() as u32;
        self.numbers.insert(address, number);
        // The handle itself is not a reference of the program.
        self.nodes.push(Node { value: value.clone(), outside: count - 1, open: true, live: false });
        self.work.push(number);
    }

    /// Opens the suspects and the objects that only they refer to.
    fn subtract(&mut self) {
        while let Some(number) = self.work.pop() {
            let value = self.nodes[number as usize].value.clone();
            let Graph { numbers, nodes, work } = self;
            value.children(&mut |child| {
                let Some((address, count)) = child.holder() else { return };
                let number = *numbers.entry(address).or_insert_with(|| {
                    nodes.push(Node { value: child.clone(), outside: count, open: false, live: false });
                    nodes.len() as u32 - 1
                });
                let node = &mut nodes[number as usize];
                debug_assert!(node.outside > 0, "a reference was visited twice");
                node.outside = node.outside.saturating_sub(1);
                if node.outside == 0 && !node.open {
                    node.open = true;
                    work.push(number);
                }
            });
        }
    }

    /// Marks opened nodes with references from outside, and everything reachable from them.
    fn keep_what_is_in_use(&mut self) {
        let mut work = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.open && node.outside > 0 {
                node.live = true;
                work.push(number as u32);
            }
        }
        while let Some(number) = work.pop() {
            let value = self.nodes[number as usize].value.clone();
            let Graph { numbers, nodes, .. } = self;
            value.children(&mut |child| {
                let number = child.holder().and_then(|(address, _)| numbers.get(&address));
                if let Some(&number) = number
                    && let node = &mut nodes[number as usize]
                    && node.open
                    && !node.live
                {
                    node.live = true;
                    work.push(number);
                }
            });
        }
    }

    fn dead(&self) -> impl Iterator<Item = &Value> {
        self.nodes.iter().filter(|n| n.open && !n.live).map(|n| &n.value)
    }

    /// Lets garbage objects queue their cleanup; returns whether any did.
    fn finalize(&self) -> bool {
        let objects = self.dead().filter(|v| v.tag() == Tag::Foreign).filter_map(Value::as_foreign);
        objects.fold(false, |any, object| object.finalize() | any)
    }

    /// Returns handles of the variables in garbage.
    fn garbage(&self) -> Vec<Value> {
        self.dead().filter(|v| v.tag() == Tag::Cell).cloned().collect()
    }
}
