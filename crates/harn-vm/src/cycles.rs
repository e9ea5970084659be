//! Cycles through captured variables: found by trial deletion and freed.
//!
//! Values are counted, and lists, dicts and structs cannot hold themselves. A cycle needs something that changes
//! after it was made, and that is a `Variable`: `let f = { n -> f(n - 1) }` captures the variable that holds the
//! closure. So every variable on the heap is in a list of this thread, and every cycle has one of them.
//!
//! A collection takes variables as suspects, supposes that nothing outside refers to them, and subtracts the
//! references that they hold from the counts of what they refer to (beside the objects, in a table). What is left
//! without references is followed further. Suspects that keep a reference are in use, and with them everything
//! that they reach; the rest is garbage. It goes away when its variables are emptied: counting does the freeing.
//!
//! What it costs. Making and dropping a variable links and unlinks it; nothing else of a program's run knows of
//! collections. One looks at the variables made since the last (most die young), and at what only they hold;
//! variables that survived are looked at again when their number or the program's memory has doubled. So the time
//! spent is a part of the time that it took to make what is looked at, and garbage is at most as much memory again
//! as what is in use, plus `YOUNG_BYTES`.
//!
//! Left out: cycles through the methods that an `impl` inside a function captured variables for, which the end of the
//! program undoes (`vm.rs`), and through what is in progress: an iterator that is being pulled, a merged one that waits in the middle of its functions, a task. They
//! count as in use, until their wait ends. A channel or a generator that was sent into itself, with no captured variable
//! between, is never a suspect.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use harn_value::{Tag, Value, memory};
use rustc_hash::FxHashMap;

use crate::closure::Variable;

/// Variables made between two collections.
const YOUNG: usize = 10_000;

/// Memory that may be taken between two collections, in bytes.
const YOUNG_BYTES: usize = 32 << 20;

/// A variable's place in the list of its generation.
pub(crate) struct Link {
    /// The words of the neighbours' values; null at the ends.
    previous: Cell<*mut ()>,
    next: Cell<*mut ()>,
    generation: Cell<Generation>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// In no list: a module's variable, which nothing but the module holds.
    None,
    Young,
    Old,
}

impl Link {
    /// For a variable that is in no list (yet).
    pub(crate) const fn new() -> Link {
        Link {
            previous: Cell::new(std::ptr::null_mut()),
            next: Cell::new(std::ptr::null_mut()),
            generation: Cell::new(Generation::None),
        }
    }
}

/// The state of a thread. It needs no destructor, so that it is there as long as values are.
struct State {
    young: Cell<*mut ()>,
    old: Cell<*mut ()>,
    /// Variables in both lists.
    live: Cell<usize>,
    /// Variables made since the last collection.
    made: Cell<usize>,
    /// Look at the young when that many were made, or that many bytes are in use.
    made_limit: Cell<usize>,
    bytes_limit: Cell<usize>,
    /// Look at all when that many are alive, or that many bytes are in use.
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

/// The variable of a word in a list.
///
/// # Safety
/// The word is in one of the lists.
unsafe fn at<'a>(word: *mut ()) -> &'a Variable {
    // SAFETY: only words of `Variable`s are in the lists, and a variable leaves its list when it is dropped.
    unsafe {
        let value = ManuallyDrop::new(Value::from_raw(Tag::Cell, word));
        let variable: *const Variable = value.downcast_unchecked::<Variable>();
        &*variable
    }
}

/// Adds a variable that was just made. `cell` is the value made of it.
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

/// Takes a variable that is being dropped out of its list.
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

/// Number of captured variables alive on this thread, those in garbage included: for tests.
pub fn live_variables() -> usize {
    STATE.with(|state| state.live.get())
}

/// Whether enough has happened since the last collection.
#[inline]
pub(crate) fn is_due() -> bool {
    STATE.with(|state| {
        let made = state.made.get();
        made >= state.made_limit.get() || made > 0 && memory::used() > state.bytes_limit.get()
    })
}

/// Frees the cycles of a program when it is dropped.
pub(crate) struct Sweep;

impl Drop for Sweep {
    fn drop(&mut self) {
        collect(true);
    }
}

/// What a collection came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// Variables freed.
    pub variables: usize,
    /// Objects looked at: what the collection cost.
    pub visited: usize,
    /// Cleanup blocks of the program have to run first; what they belong to was left as it was.
    pub cleanup: bool,
}

/// Collects when that is due: the young variables, or all of them.
pub(crate) fn collect_if_due() -> Collected {
    let all = STATE.with(|state| {
        state.live.get() >= state.live_limit.get() || memory::used() > state.all_bytes_limit.get()
    });
    if is_due() { collect(all) } else { Collected::default() }
}

/// Frees the cycles that nothing refers to, of the variables made since the last collection or of `all`.
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
        // Emptied all before anything is dropped: a drop must not meet a half-emptied cycle.
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

/// Handles of the young variables, which become old ones, or of all.
fn suspects(state: &State, all: bool) -> Vec<Value> {
    // SAFETY (all): the words are in the lists; a handle holds a count of its own.
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
    // The young go in front of the old.
    if !last.is_null() {
        unsafe { at(last) }.link.next.set(old);
        if !old.is_null() {
            unsafe { at(old) }.link.previous.set(last);
        }
        state.old.set(state.young.replace(std::ptr::null_mut()));
    }
    suspects
}

/// An object that was met.
struct Node {
    /// The object. It holds a count, so that a `trace` that drops values cannot free an object of the graph.
    value: Value,
    /// References to it that no opened node holds.
    outside: usize,
    /// Whether what it holds was subtracted: it is a suspect, or all references to it come from opened nodes.
    open: bool,
    live: bool,
}

/// What suspects hold. Nothing of the program runs or changes while a graph exists.
#[derive(Default)]
struct Graph {
    /// Node numbers by address.
    numbers: FxHashMap<usize, u32>,
    nodes: Vec<Node>,
    /// Nodes to go on with.
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

    /// Opens the suspects and what only they refer to.
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

    /// Marks opened nodes that are referred to from outside, and what they reach.
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

    /// Has objects in garbage hand out their cleanup; whether any did.
    fn finalize(&self) -> bool {
        let objects = self.dead().filter(|v| v.tag() == Tag::Foreign).filter_map(Value::as_foreign);
        objects.fold(false, |any, object| object.finalize() | any)
    }

    /// Handles of the variables in garbage.
    fn garbage(&self) -> Vec<Value> {
        self.dead().filter(|v| v.tag() == Tag::Cell).cloned().collect()
    }
}
