//! Pulling one item out of an iterator.

use harn_value::Value;
use smallvec::SmallVec;

use super::source::Items;
use super::stage::{Ask, Next, Stage};
use super::{Body, Iter, already_advanced};
use crate::call_loop::Slots;
use crate::error::Result;

/// Steps without a call or a wait after which a pull yields to other tasks.
const STEPS: u32 = 4096;

/// The result of a pull, or what it needs next.
pub(crate) enum Pulled {
    /// An item.
    Item(Value),
    /// No more items.
    End,
    /// The result of this function, called with this many slots.
    Call(Value, usize),
    /// The next value of this generator, [`Value::ABSENT`] at its end.
    Resume(Value),
    /// The result of [`Iter::wait`] for this iterator.
    Wait(Iter),
    /// A pause after many steps.
    Pause,
}

/// Outcome of [`Pull::quick`].
pub(crate) enum Quick {
    /// The result of this function, called with one of the slots.
    Call(Value),
    /// An item, stored in place of the reply.
    Item,
    /// No fast path, and no effect: call [`Pull::step`].
    No,
}

/// Maximum number of stages that [`Pull::quick`] handles.
const FEW: usize = 4;

/// An iterator that waits for an item: the pulled one, or an inner one that another iterator pulls.
struct Level {
    iter: Iter,
    /// The stage that waits for an item of the next level; [`SOURCE`] if the source does.
    waits: usize,
}

const SOURCE: usize = usize::MAX;

/// Where the next step starts. Positions are stage numbers of the innermost level.
enum Pending {
    /// At a level that was not asked yet.
    Enter,
    /// With the stages below this one, to get an item.
    Below(usize),
    /// With the source's answer.
    Source,
    /// With the result of this stage's function, and the value that was saved for it.
    Call(usize, Value),
    Over,
}

/// An item in progress. Meanwhile the iterators that wait for it are busy.
pub(crate) struct Pull {
    /// Outermost first.
    levels: SmallVec<[Level; 1]>,
    pending: Pending,
    /// Steps since the last pause.
    spent: u32,
}

/// Movement of an item within a level.
enum Place {
    /// Down, below this stage.
    Down(usize),
    /// Up, into this stage.
    Up(usize, Option<Value>),
    /// Up, out of this stage, with the result of its function and the value that was saved for it.
    Answer(usize, Value, Value),
}

impl Pull {
    pub(crate) fn new(iter: Iter) -> Pull {
        let mut levels = SmallVec::new();
        levels.push(Level { iter, waits: SOURCE });
        Pull { levels, pending: Pending::Enter, spent: 0 }
    }

    /// Fast path without the state machine: an item of a list or range passes through a few `map`s and `filter`s.
    #[inline(always)]
    pub(crate) fn quick(&mut self, reply: &mut Option<Value>, slots: &mut Slots) -> Quick {
        let [level] = self.levels.as_slice() else { return Quick::No };
        let state = level.iter.state();
        let Ok(mut body) = state.body.try_borrow_mut() else { return Quick::No };
        let Body { items, stages } = &mut *body;
        let usual = stages.len() <= FEW
            && self.spent < STEPS
            && stages.iter().all(|stage| matches!(stage, Stage::Map(_) | Stage::Filter(_)));
        if !usual {
            return Quick::No;
        }
        let next = match &mut self.pending {
            Pending::Enter if !state.busy.get() && !state.done.get() => None,
            Pending::Call(stage, kept) => match (stages.get(*stage), reply.as_ref()) {
                (Some(Stage::Map(_)), Some(_)) => reply.take().map(|item| (*stage + 1, item)),
                (Some(Stage::Filter(_)), Some(answer)) => answer.truthy().then(|| (*stage + 1, kept.take())),
                _ => return Quick::No,
            },
            _ => return Quick::No,
        };
        let (at, item) = match next {
            Some(next) => next,
            None => {
                let item = match items {
                    Items::Range(_) | Items::List(..) => items.quick_next().flatten(),
                    _ => None,
                };
                let Some(item) = item else { return Quick::No };
                state.busy.set(true);
                (0, item)
            }
        };
        self.spent += 1;
        match stages.get(at) {
            Some(Stage::Map(f)) => {
                slots[0].put(item);
                self.pending = Pending::Call(at, Value::NIL);
                Quick::Call(f.clone())
            }
            Some(Stage::Filter(f)) => {
                slots[0].put(item.clone());
                self.pending = Pending::Call(at, item);
                Quick::Call(f.clone())
            }
            _ => {
                state.busy.set(false);
                self.pending = Pending::Enter;
                *reply = Some(item);
                Quick::Item
            }
        }
    }

    /// Runs until it has a result or needs something. `reply` answers the request of the last step; the arguments of a
    /// call are stored in the slots.
    ///
    /// After an item, the next step starts the next item; after the end, it must not be called again.
    ///
    /// # Errors
    /// Errors of a source, after which the iterators are exhausted.
    #[inline(always)]
    pub(crate) fn step(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Pulled> {
        let result = self.run(reply, slots);
        if result.is_err() {
            self.pending = Pending::Over;
        }
        result
    }

    #[inline(always)]
    fn run(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Pulled> {
        let place = match std::mem::replace(&mut self.pending, Pending::Over) {
            Pending::Enter => match self.enter()? {
                Some(place) => place,
                None => return Ok(self.leave_outermost(None)),
            },
            Pending::Below(stage) => Place::Down(stage),
            Pending::Source => Place::Up(0, reply.filter(|item| !item.is_absent())),
            Pending::Call(stage, kept) => Place::Answer(stage, reply.unwrap_or_default(), kept),
            Pending::Over => return Ok(Pulled::End),
        };
        self.walk(place, slots)
    }

    /// Walks down to the origin of an item and up again, from level to level. An error ends all levels. (Not inlined,
    /// and no caller inspects the result before it reaches its destination: copying a value that was just written in
    /// parts would stall.)
    #[inline(never)]
    fn walk(&mut self, mut place: Place, slots: &mut Slots) -> Result<Pulled> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(Pulled::End) };
            let walked = walk_level(&mut level.iter.state().body.borrow_mut(), place, slots, &mut self.spent);
            let walked = match walked {
                Ok(walked) => walked,
                Err(error) => {
                    self.exhaust();
                    return Err(error);
                }
            };
            match walked {
                Walked::Out(item) => {
                    if self.levels.len() == 1 {
                        return Ok(self.leave_outermost(item));
                    }
                    self.leave(item.is_none());
                    let Some(below) = self.levels.last() else { return Ok(Pulled::End) };
                    place = below.receive(item);
                }
                Walked::Inner(iter, waits) => {
                    level.waits = waits;
                    self.levels.push(Level { iter, waits: SOURCE });
                    place = match self.enter() {
                        Ok(Some(place)) => place,
                        Ok(None) => {
                            self.levels.pop();
                            let Some(below) = self.levels.last() else { return Ok(Pulled::End) };
                            below.receive(None)
                        }
                        Err(error) => {
                            // Another pull is in progress on it, so it must not be ended here.
                            self.levels.pop();
                            self.exhaust();
                            return Err(error);
                        }
                    };
                }
                Walked::Call(stage, count, kept, f) => {
                    self.pending = Pending::Call(stage, kept);
                    return Ok(Pulled::Call(f, count));
                }
                Walked::Resume(generator) => {
                    self.pending = Pending::Source;
                    return Ok(Pulled::Resume(generator));
                }
                Walked::Wait => {
                    self.pending = Pending::Source;
                    return Ok(Pulled::Wait(level.iter.clone()));
                }
                Walked::Pause(stage) => {
                    self.spent = 0;
                    self.pending = Pending::Below(stage);
                    return Ok(Pulled::Pause);
                }
            }
        }
    }

    /// Starts with the innermost level; returns `None` if it has no more items.
    fn enter(&mut self) -> Result<Option<Place>> {
        let Some(level) = self.levels.last() else { return Ok(None) };
        let state = level.iter.state();
        if state.busy.get() {
            return Err(already_advanced());
        }
        if state.done.get() {
            return Ok(None);
        }
        state.busy.set(true);
        let mut body = state.body.borrow_mut();
        body.absorb();
        Ok(Some(Place::Down(body.stages.len())))
    }

    /// Leaves the innermost level after its answer.
    fn leave(&mut self, ended: bool) {
        if let Some(level) = self.levels.pop() {
            level.iter.state().busy.set(false);
            if ended {
                level.iter.exhaust();
            }
        }
    }

    /// Leaves the outermost level after its answer.
    fn leave_outermost(&mut self, item: Option<Value>) -> Pulled {
        let Some(level) = self.levels.last() else { return Pulled::End };
        level.iter.state().busy.set(false);
        match item {
            Some(item) => {
                self.pending = Pending::Enter;
                Pulled::Item(item)
            }
            None => {
                level.iter.exhaust();
                self.levels.clear();
                self.pending = Pending::Over;
                Pulled::End
            }
        }
    }

    /// Called when the last request threw. The iterators are exhausted, unless only the wait for a source was
    /// interrupted, which loses nothing.
    pub(crate) fn failed(&mut self) {
        let cut_short = matches!(self.pending, Pending::Source)
            && self.levels.last().is_some_and(|level| !level.iter.source_has_ended());
        if cut_short {
            self.release();
        } else {
            self.exhaust();
        }
    }

    /// Ends all levels.
    fn exhaust(&mut self) {
        for level in self.levels.drain(..) {
            level.iter.state().busy.set(false);
            level.iter.exhaust();
        }
        self.pending = Pending::Over;
    }

    fn release(&mut self) {
        let idle = matches!(self.pending, Pending::Enter | Pending::Over);
        let busy = if idle { self.levels.len().saturating_sub(1) } else { self.levels.len() };
        for level in self.levels.drain(..).take(busy) {
            level.iter.state().busy.set(false);
        }
        self.pending = Pending::Over;
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.release();
    }
}

impl Level {
    /// Returns where an answer of the inner level goes.
    fn receive(&self, item: Option<Value>) -> Place {
        let stage = self.waits;
        if stage == SOURCE {
            return Place::Up(0, item);
        }
        let mut body = self.iter.state().body.borrow_mut();
        match body.stages.get_mut(stage).map(|at| at.other(item)) {
            Some(Next::Pass(item)) => Place::Up(stage + 1, item),
            Some(Next::Again) => Place::Down(stage + 1),
            Some(Next::Below | Next::Call(..)) => Place::Down(stage),
            None => Place::Up(stage + 1, None),
        }
    }
}

/// How far an item moved within one level.
enum Walked {
    /// Out of the level.
    Out(Option<Value>),
    /// This iterator must be pulled, for this stage.
    Inner(Iter, usize),
    /// This stage's function must be called with this many slots; the first value is saved for the result.
    Call(usize, usize, Value, Value),
    Resume(Value),
    Wait,
    /// Below this stage.
    Pause(usize),
}

/// Walks within one level.
fn walk_level(body: &mut Body, mut place: Place, slots: &mut Slots, spent: &mut u32) -> Result<Walked> {
    loop {
        let (mut stage, mut item) = match place {
            Place::Up(stage, item) => (stage, item),
            Place::Down(from) => {
                if *spent >= STEPS {
                    return Ok(Walked::Pause(from));
                }
                match go_down(body, from, spent)? {
                    Down::Found(stage, item) => (stage, item),
                    Down::Walked(walked) => return Ok(walked),
                }
            }
            Place::Answer(stage, answer, kept) => {
                let next = match body.stages.get_mut(stage) {
                    Some(at) => at.answer(answer, kept)?,
                    None => Next::Pass(None),
                };
                match next {
                    Next::Pass(item) => (stage + 1, item),
                    Next::Below | Next::Call(..) => {
                        place = Place::Down(stage);
                        continue;
                    }
                    Next::Again => {
                        place = Place::Down(stage + 1);
                        continue;
                    }
                }
            }
        };
        place = loop {
            let Some(at) = body.stages.get_mut(stage) else { return Ok(Walked::Out(item)) };
            *spent += 1;
            match at.item(item.take(), slots, spent)? {
                Next::Pass(passed) => {
                    item = passed;
                    stage += 1;
                }
                Next::Below => break Place::Down(stage),
                Next::Again => break Place::Down(stage + 1),
                Next::Call(f, count, kept) => return Ok(Walked::Call(stage, count, kept, f)),
            }
        };
    }
}

enum Down {
    Found(usize, Option<Value>),
    Walked(Walked),
}

/// Asks the stages below `from`, outermost first, then the source.
fn go_down(body: &mut Body, mut from: usize, spent: &mut u32) -> Result<Down> {
    from = from.min(body.stages.len());
    let mut stage = from;
    while stage > 0 {
        stage -= 1;
        match body.stages[stage].ask() {
            Ask::Below => {}
            Ask::Itself(item) => return Ok(Down::Found(stage + 1, item)),
            Ask::Last(iter) => {
                // All parts before it have ended, so it becomes the source.
                body.items = Items::Shared(iter);
                body.stages.drain(..=stage);
                let outer = body.stages.len() - (from - stage - 1);
                body.absorb();
                from = body.stages.len() - outer;
                stage = from;
            }
            Ask::Other(iter) => return Ok(Down::Walked(Walked::Inner(iter, stage))),
        }
    }
    let Body { items, stages } = body;
    *spent += 1 + (from as u32 >> 3);
    if let Some(Stage::Skip(left)) = stages.first_mut()
        && *left > 0
    {
        let passed =
            if let Items::Shared(inner) = items { inner.advance(*left) } else { items.advance(*left) };
        *left -= passed;
        *spent = spent.saturating_add(u32::try_from(passed.min(u64::from(STEPS))).unwrap_or(STEPS));
        if passed > 0 && *left > 0 && *spent >= STEPS {
            return Ok(Down::Walked(Walked::Pause(from)));
        }
    }
    if let Some(item) = items.quick_next() {
        return Ok(Down::Found(0, item));
    }
    Ok(match items {
        Items::Generator(generator) => Down::Walked(Walked::Resume(generator.clone())),
        Items::Shared(inner) => Down::Walked(Walked::Inner(inner.clone(), SOURCE)),
        Items::Source(source) => match source.try_next()? {
            Some(item) => {
                if item.is_none() {
                    *items = Items::Done;
                }
                Down::Found(0, item)
            }
            None => Down::Walked(Walked::Wait),
        },
        Items::OnLoan => return Err(already_advanced()),
        _ => Down::Found(0, None),
    })
}

impl Iter {
    /// Returns whether the source has ended or failed.
    fn source_has_ended(&self) -> bool {
        let Ok(body) = self.state().body.try_borrow() else { return false };
        match &body.items {
            Items::Generator(generator) => {
                generator.downcast::<crate::generator::Generator>().is_none_or(|g| g.done.get())
            }
            Items::Done => true,
            _ => false,
        }
    }
}
