//! Programs in Rust over a journal: recorded, replayed, broken off and resumed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use harn_journal::{
    Answers, Count as Answered, Entry, InDoubtPolicy, Journal, Keeper, Kept, MemoryKeeper, Nowhere, Reins,
    Setup, Stop, What,
};
use harn_store::NewWaitpoint;
use harn_system::{
    Asked, Body, Command, Finished, HttpError, HttpErrorKind, HttpReply, HttpRequest, Inquiry, Layer, Memory,
    System, SystemExt, Uncertain, Waiting,
};
use harn_vm::{block_on_with, spawn};

/// Runs a program over a journal.
fn run<F: Future>(journal: &Journal, program: impl FnOnce(Rc<dyn System>) -> F) -> F::Output {
    journal.begin_program();
    let system: Rc<dyn System> = Rc::new(journal.clone());
    let result = block_on_with(journal, program(system)).expect("an event loop");
    journal.settle().expect("a keeper that keeps");
    result
}

fn recorded(system: &Rc<dyn System>) -> (Journal, MemoryKeeper) {
    let keeper = MemoryKeeper::default();
    (Journal::new(Setup::new(system.clone(), Box::new(keeper.clone()))), keeper)
}

fn replayed(entries: Vec<Entry>) -> Journal {
    let inner: Rc<dyn System> = Rc::new(Memory::new().with_env("SERVICE_TOKEN", "token-0123456789"));
    Journal::new(Setup { entries, replay: true, ..Setup::new(inner, Box::new(Nowhere)) })
}

fn resumed(system: &Rc<dyn System>, entries: Vec<Entry>, retries: bool) -> (Journal, MemoryKeeper) {
    let keeper = MemoryKeeper::default();
    let in_doubt = if retries { InDoubtPolicy::Retry } else { InDoubtPolicy::Ask };
    let setup = Setup { entries, in_doubt, ..Setup::new(system.clone(), Box::new(keeper.clone())) };
    (Journal::new(setup), keeper)
}

/// How often something was asked for.
type Count = Rc<Cell<u32>>;

/// A machine whose programs and servers count.
fn machine() -> (Rc<dyn System>, Count, Count) {
    let (programs, requests) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (ran, asked) = (programs.clone(), requests.clone());
    let system = Memory::new()
        .with_file("in.txt", "text")
        .with_env("SERVICE_TOKEN", "token-0123456789")
        .with_programs(move |command| {
            ran.set(ran.get() + 1);
            let stdout = format!("{} {}", command.program, ran.get()).into_bytes();
            Ok(Finished { code: Some(0), stdout, ..Finished::default() })
        })
        .with_servers(move |request| {
            asked.set(asked.get() + 1);
            let body = format!("reply {} to {}, token-0123456789", asked.get(), request.method);
            Ok((200, vec![("x-count".to_owned(), asked.get().to_string())], body.into_bytes()))
        });
    (Rc::new(system), programs, requests)
}

/// Something of everything, with three tasks at once.
async fn everything(system: Rc<dyn System>) -> String {
    let said = Rc::new(RefCell::new(String::new()));
    let done = Rc::new(Cell::new(0));
    let say = |text: String| said.borrow_mut().push_str(&format!("{text}\n"));
    say(format!("{:?}", system.read(Path::new("/project/in.txt"), 100)));
    say(format!("{:?}", system.facts(Path::new("/project/none")).map(|_| ()).map_err(|error| error.kind())));
    say(format!("{} {:?}", system.random_u64(), system.env("SERVICE_TOKEN")));
    for (n, ms) in [30, 10, 20].into_iter().enumerate() {
        let (system, said, done) = (system.clone(), said.clone(), done.clone());
        spawn(async move {
            system.sleep(Duration::from_millis(ms)).await;
            let command = Command { arguments: vec![n.to_string()], ..Command::new("tool") };
            let ran = system.run(command).await.expect("a program");
            let request = HttpRequest::new(if n == 0 { "POST" } else { "GET" }, "http://host/x");
            let reply = system.http(request).await.expect("a reply");
            let body = reply.read().await.expect("a body");
            system.append(Path::new("/project/log"), format!("{n}").as_bytes()).expect("room");
            let text = format!(
                "{n} {} {} {}\n",
                String::from_utf8_lossy(&ran.stdout),
                String::from_utf8_lossy(&body),
                system.monotonic().as_nanos()
            );
            said.borrow_mut().push_str(&text);
            system.write_out(&text).expect("output");
            done.set(done.get() + 1);
        });
    }
    while done.get() < 3 {
        system.sleep(Duration::from_millis(7)).await;
    }
    said.borrow_mut().push_str(&format!("{:?}", system.read_text(Path::new("/project/log"), 100)));
    said.take()
}

#[test]
fn a_replay_is_equal_and_touches_nothing() {
    let (system, programs, requests) = machine();
    let (journal, keeper) = recorded(&system);
    let said = run(&journal, everything);
    assert_eq!((programs.get(), requests.get()), (3, 3));
    let journal = replayed(keeper.entries());
    assert_eq!(run(&journal, everything), said);
    assert_eq!(journal.stopped(), None);
    assert_eq!(journal.left_over(), None);
    assert_eq!((programs.get(), requests.get()), (3, 3));
}

/// What begins goes before what has ended, but not for ever: here each request is answered as soon as it is made.
#[test]
fn who_is_answered_at_once_leaves_others_their_turn() {
    let (system, ..) = machine();
    let (journal, _) = recorded(&system);
    let made = run(&journal, |system| async move {
        let over = Rc::new(Cell::new(false));
        let (other, at_last) = (system.clone(), over.clone());
        spawn(async move {
            other.sleep(Duration::from_millis(5)).await;
            at_last.set(true);
        });
        let mut made = 0;
        while !over.get() && made < 100_000 {
            read_reply(system.clone(), "GET").await.expect("a reply");
            made += 1;
        }
        made
    });
    assert!(made < 100_000, "the other task had no turn");
}

/// A keeper that takes its time: how many groups it was given, and how many of them were on their way at once.
#[derive(Clone, Default)]
struct Slow {
    groups: Rc<Cell<u32>>,
    under_way: Rc<Cell<u32>>,
    most: Rc<Cell<u32>>,
}

impl Keeper for Slow {
    fn append(&self, _: Vec<Entry>, _: i64) -> Kept {
        let own = self.clone();
        own.groups.set(own.groups.get() + 1);
        own.under_way.set(own.under_way.get() + 1);
        own.most.set(own.most.get().max(own.under_way.get()));
        let (written, is_written) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            let _ = written.send(());
        });
        Box::pin(async move {
            is_written.await.expect("a thread");
            own.under_way.set(own.under_way.get() - 1);
            Ok(())
        })
    }

    fn alive(&self, at_ms: i64) -> Kept {
        Nowhere.alive(at_ms)
    }

    fn open(&self, request: NewWaitpoint) -> Kept {
        Nowhere.open(request)
    }

    fn answers(&self, request: &NewWaitpoint) -> Answers {
        Nowhere.answers(request)
    }

    fn answered(&self) -> Answered {
        Nowhere.answered()
    }

    fn close(&self, request_id: &str, at_ms: i64) -> Kept {
        Nowhere.close(request_id, at_ms)
    }
}

#[test]
fn one_group_is_on_its_way_to_the_keeper_at_a_time() {
    let (system, _, requests) = machine();
    let keeper = Slow::default();
    let journal = Journal::new(Setup::new(system, Box::new(keeper.clone())));
    let most = keeper.most.clone();
    let most = run(&journal, |system| async move {
        let tasks = (0..30).map(|n| {
            let (system, (done, is_done)) = (system.clone(), tokio::sync::oneshot::channel());
            spawn(async move {
                // Not by the journal's clock: each comes while the entries of others are on their way.
                tokio::time::sleep(Duration::from_millis(n)).await;
                read_reply(system.clone(), "POST").await.expect("a reply");
                let _ = done.send(());
            });
            is_done
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("a task that ends");
        }
        most.get()
    });
    assert_eq!((requests.get(), most), (30, 1));
    let groups = keeper.groups.get();
    assert!(groups < 30, "{groups} groups for 30 requests");
}

#[test]
fn looks_at_the_clock_are_counted_alike_when_a_run_goes_on_and_when_it_is_replayed() {
    /// Looks at the clock between effects: some looks leave an entry, others none.
    async fn program(system: Rc<dyn System>) -> Vec<Duration> {
        let mut seen = Vec::new();
        for looks in 1..12 {
            seen.extend((0..looks).map(|_| system.monotonic()));
            drop(system.read(Path::new("/project/in.txt"), 100));
        }
        seen
    }
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    run(&journal, program);
    let whole = keeper.entries().len() as u64;
    for first in 1..whole {
        for second in [first + 2, whole] {
            let (system, ..) = machine();
            let keeper = MemoryKeeper::default();
            for until in [Some(first), Some(second), None] {
                let entries = keeper.entries();
                let setup = Setup { entries, until, ..Setup::new(system.clone(), Box::new(keeper.clone())) };
                let journal = Journal::new(setup);
                let seen = run(&journal, program);
                if until.is_some() && journal.stopped().is_some() {
                    continue;
                }
                assert_eq!(journal.stopped(), None, "broken off at {first} and {second}");
                let again = replayed(keeper.entries());
                assert_eq!(run(&again, program), seen, "broken off at {first} and {second}");
                assert_eq!((again.stopped(), again.left_over()), (None, None));
                break;
            }
        }
    }
}

#[test]
fn numbers_are_made_of_one_draw_and_variables_asked_for_once() {
    fn draws(system: &Rc<dyn System>, times: usize) -> Vec<u64> {
        (0..times).map(|_| system.random_u64()).collect()
    }
    async fn program(system: Rc<dyn System>) -> (Vec<u64>, Vec<u64>) {
        let before = draws(&system, 100);
        for _ in 0..100 {
            assert_eq!(system.env("SERVICE_TOKEN").as_deref(), Some("token-0123456789"));
            assert_eq!(system.env("NOWHERE"), None);
        }
        drop(system.read(Path::new("/project/in.txt"), 100));
        (before, draws(&system, 100))
    }
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    let (before, after) = run(&journal, program);
    let entries = keeper.entries();
    let names: Vec<&str> = entries.iter().map(|entry| entry.what.name()).collect();
    assert_eq!(names, ["program", "random", "key", "env", "read"]);
    let mut all = [before.clone(), after.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200, "no number comes twice");
    let journal = replayed(entries.clone());
    assert_eq!(run(&journal, program), (before.clone(), after.clone()));
    assert_eq!((journal.stopped(), journal.left_over()), (None, None));
    // A run that is resumed behind its journal continues its numbers: they may have been printed. Forks draw anew, each for itself.
    let on = |copies: bool| {
        let kept = MemoryKeeper::default();
        let setup =
            Setup { entries: entries.clone(), copies, ..Setup::new(system.clone(), Box::new(kept.clone())) };
        let drawn = run(&Journal::new(setup), program);
        assert_eq!(drawn.0, before);
        // What goes on is replayed as well.
        let whole = if copies { kept.entries() } else { [entries.clone(), kept.entries()].concat() };
        assert_eq!(run(&replayed(whole), program), drawn);
        drawn.1
    };
    assert_eq!(on(false), after);
    let forks = [on(true), on(true)];
    assert!(forks[0] != after && forks[0] != forks[1]);
}

#[test]
fn keys_never_enter_a_journal() {
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    let said = run(&journal, everything);
    assert!(said.contains("token-0123456789"));
    for entry in keeper.entries() {
        let payload = entry.to_store().payload;
        assert!(!String::from_utf8_lossy(&payload).contains("0123456789"), "{entry:?}");
        assert_eq!(Entry::from_store(&entry.to_store()).as_ref(), Some(&entry));
    }
}

#[test]
fn broken_off_anywhere_a_run_goes_on_to_the_same_end() {
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    let whole = run(&journal, everything);
    let count = |text: &str| text.lines().count();
    for at in 1..keeper.entries().len() as u64 {
        let (system, programs, requests) = machine();
        let kept = MemoryKeeper::default();
        let setup = Setup { until: Some(at), ..Setup::new(system.clone(), Box::new(kept.clone())) };
        let journal = Journal::new(setup);
        // A program of Rust knows nothing of an interruption: it is dropped where it waits.
        let stop = Rc::new(tokio::sync::Notify::new());
        let told = stop.clone();
        journal.hold(Reins {
            place: Box::new(|| None),
            stop: Box::new(move || told.notify_one()),
            is_stopped: Box::new(|| false),
        });
        journal.begin_program();
        let layer: Rc<dyn System> = Rc::new(journal.clone());
        let over = async {
            tokio::select! {
                biased;
                _ = everything(layer) => {}
                () = stop.notified() => {}
            }
        };
        // What the system of a stopped run answers is an error, which the program does not expect.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on_with(&journal, over))));
        let entries = kept.entries();
        let behind = entries.iter().filter(|entry| entry.seq >= at);
        assert!(behind.clone().all(|entry| matches!(entry.what, What::Printed { .. })), "nothing follows");
        let (journal, _) = resumed(&system, entries, true);
        let said = run(&journal, everything);
        assert_eq!(journal.stopped(), None, "broken off at {at}");
        assert_eq!(count(&said), count(&whole), "broken off at {at}: {said}");
        let log = system.read_text(Path::new("/project/log"), 100).expect("a file");
        assert_eq!(log.len(), 3, "each append once, broken off at {at}: {log}");
        // What was under way may happen again, and only that.
        assert!(programs.get() <= 6 && requests.get() <= 6, "{} {}", programs.get(), requests.get());
    }
}

async fn one_program(system: Rc<dyn System>, uncertain: Uncertain) -> Result<String, String> {
    let ran = system.run(Command { uncertain, ..Command::new("pay") }).await;
    ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).map_err(|error| error.to_string())
}

/// The entries up to the beginning of the only program.
fn begun(uncertain: Uncertain) -> (Rc<dyn System>, Rc<Cell<u32>>, Vec<Entry>) {
    let (system, programs, _) = machine();
    let (journal, keeper) = recorded(&system);
    run(&journal, |system| one_program(system, uncertain)).expect("a program");
    let mut entries = keeper.entries();
    entries.retain(|entry| matches!(entry.what, What::Program | What::Begin { .. } | What::Clock { .. }));
    (system, programs, entries)
}

#[test]
fn a_program_in_doubt_is_an_error_unless_it_may_run_twice() {
    let (system, programs, entries) = begun(Uncertain::Fail);
    let (journal, keeper) = resumed(&system, entries.clone(), false);
    let error = run(&journal, |system| one_program(system, Uncertain::Fail)).expect_err("doubt");
    assert!(error.contains("`pay`") && error.contains("--retry-in-doubt"), "{error}");
    assert_eq!(programs.get(), 1);
    // The decision stays: whoever replays it gets the same error.
    let all: Vec<Entry> = entries.iter().cloned().chain(keeper.entries()).collect();
    let again = run(&replayed(all), |system| one_program(system, Uncertain::Fail));
    assert_eq!(again, Err(error));
    let (journal, _) = resumed(&system, entries, true);
    assert_eq!(run(&journal, |system| one_program(system, Uncertain::Fail)).as_deref(), Ok("pay 2"));
    let (system, _, entries) = begun(Uncertain::Retry);
    let (journal, _) = resumed(&system, entries, false);
    assert_eq!(run(&journal, |system| one_program(system, Uncertain::Retry)).as_deref(), Ok("pay 2"));
}

#[test]
fn a_request_in_doubt_is_an_error_unless_it_may_be_sent_twice() {
    async fn send(system: Rc<dyn System>, method: &str) -> Result<u16, HttpErrorKind> {
        let reply = system.http(HttpRequest::new(method, "http://host/x")).await;
        reply.map(|reply| reply.status).map_err(|error| error.kind)
    }
    for (method, wanted) in [("POST", Err(HttpErrorKind::InDoubt)), ("PUT", Ok(200)), ("DELETE", Ok(200))] {
        let (system, _, requests) = machine();
        let (journal, keeper) = recorded(&system);
        assert_eq!(run(&journal, |system| send(system, method)), Ok(200));
        let mut entries = keeper.entries();
        entries.retain(|entry| !matches!(entry.what, What::Finish { .. }));
        let (journal, _) = resumed(&system, entries, false);
        assert_eq!(run(&journal, |system| send(system, method)), wanted, "{method}");
        assert_eq!(requests.get(), 1 + u32::from(wanted.is_ok()));
    }
}

/// Servers whose bodies come in two pieces after their heads, cut at a place, and end as said.
struct InPieces {
    inner: Rc<dyn System>,
    at: usize,
    breaks: bool,
}

impl Layer for InPieces {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        Box::pin(async move {
            let mut reply = self.inner.http(request).await?;
            let mut body = reply.body;
            let mut pieces = VecDeque::new();
            while let Some(piece) = body.next().await? {
                let (first, second) = piece.split_at(self.at.min(piece.len()));
                pieces.extend([Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)]);
            }
            reply.body = Box::new(Pieces { pieces, breaks: self.breaks });
            Ok(reply)
        })
    }
}

struct Pieces {
    pieces: VecDeque<Bytes>,
    breaks: bool,
}

impl Body for Pieces {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        let end = match self.breaks {
            true => Err(HttpError::new(HttpErrorKind::Broken, "cut off")),
            false => Ok(None),
        };
        let next = self.pieces.pop_front().map_or(end, |piece| Ok(Some(piece)));
        Box::pin(std::future::ready(next))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn release(self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

async fn read_reply(system: Rc<dyn System>, method: &str) -> Result<Vec<u8>, HttpErrorKind> {
    let reply = system.http(HttpRequest::new(method, "http://host/x")).await.map_err(|error| error.kind)?;
    reply.read().await.map_err(|error| error.kind)
}

/// How many entries are about exchanges, and how many about pieces of bodies.
fn exchanges(entries: &[Entry]) -> (usize, usize) {
    let finished = |wanted: &str| {
        let is = |entry: &&Entry| matches!(&entry.what, What::Finish { name, .. } if name == wanted);
        entries.iter().filter(is).count()
    };
    (finished("http"), finished("body"))
}

#[test]
fn a_body_that_comes_with_its_head_is_no_entry_of_its_own() {
    let (system, _, requests) = machine();
    let (journal, keeper) = recorded(&system);
    let read = |system| async move { read_reply(system, "GET").await };
    let was = run(&journal, read);
    assert_eq!(was, Ok(b"reply 1 to GET, token-0123456789".to_vec()));
    assert_eq!(exchanges(&keeper.entries()), (1, 0));
    assert_eq!(run(&replayed(keeper.entries()), read), was);
    assert_eq!(requests.get(), 1);
}

#[test]
fn bodies_in_pieces_and_bodies_that_break_are_followed() {
    for (breaks, wanted) in
        [(false, Ok(b"reply 1 to POST, token-0123456789".to_vec())), (true, Err(HttpErrorKind::Broken))]
    {
        let (inner, _, requests) = machine();
        let system: Rc<dyn System> = Rc::new(InPieces { inner, at: 5, breaks });
        let (journal, keeper) = recorded(&system);
        let read = |system| async move { read_reply(system, "POST").await };
        assert_eq!(run(&journal, read), wanted);
        assert_eq!(exchanges(&keeper.entries()), (1, 3));
        assert_eq!(run(&replayed(keeper.entries()), read), wanted);
        assert_eq!(requests.get(), 1);
    }
}

#[test]
fn a_key_that_two_pieces_of_a_body_contain_enters_no_journal() {
    let body = "reply 1 to GET, token-0123456789";
    for at in 1..body.len() {
        let (inner, ..) = machine();
        let system: Rc<dyn System> = Rc::new(InPieces { inner, at, breaks: at % 2 == 0 });
        let (journal, keeper) = recorded(&system);
        let read = |system: Rc<dyn System>| async move {
            assert!(system.env("SERVICE_TOKEN").is_some());
            let reply = system.http(HttpRequest::new("GET", "http://host/x")).await.expect("a reply");
            let mut body = reply.body;
            let mut all = Vec::new();
            while let Ok(Some(piece)) = body.next().await {
                all.extend_from_slice(&piece);
            }
            String::from_utf8(all).expect("text")
        };
        assert_eq!(run(&journal, read), body, "cut at {at}");
        assert_eq!(run(&replayed(keeper.entries()), read), body, "cut at {at}");
        for entry in keeper.entries() {
            let payload = String::from_utf8_lossy(&entry.to_store().payload).into_owned();
            assert!(!payload.contains("token-") && !payload.contains("6789"), "cut at {at}: {entry:?}");
        }
    }
}

#[test]
fn an_exchange_is_repeated_at_whatever_piece_it_stopped() {
    let is_piece = |entry: &Entry| matches!(&entry.what, What::Finish { name, .. } if name == "body");
    // How many pieces of the body the process before had, and whether the request is sent again.
    for (method, pieces, again) in
        [("GET", 0, true), ("GET", 1, true), ("GET", 2, true), ("POST", 0, false), ("POST", 1, false)]
    {
        let (inner, _, requests) = machine();
        let system: Rc<dyn System> = Rc::new(InPieces { inner, at: 5, breaks: false });
        let (journal, keeper) = recorded(&system);
        assert!(run(&journal, |system| read_reply(system, method)).is_ok());
        let mut entries = keeper.entries();
        let first = entries.iter().position(is_piece).expect("a body");
        entries.truncate(first + pieces);
        let (journal, _) = resumed(&system, entries, false);
        let wanted = match again {
            true => Ok(b"reply 2 to GET, token-0123456789".to_vec()),
            false => Err(HttpErrorKind::InDoubt),
        };
        assert_eq!(run(&journal, |system| read_reply(system, method)), wanted, "{method} {pieces}");
        assert_eq!(requests.get(), 1 + u32::from(again));
    }
}

#[test]
fn another_program_is_told_where_it_differs() {
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    run(&journal, |system| async move { drop(system.read(Path::new("/project/in.txt"), 100)) });
    let journal = replayed(keeper.entries());
    let answer =
        run(&journal, |system| async move { system.read(Path::new("/project/other.txt"), 100).is_err() });
    assert!(answer);
    let Some(Stop::Difference(difference)) = journal.stopped() else { panic!("{:?}", journal.stopped()) };
    assert_eq!(
        (difference.was.as_str(), difference.now.as_str()),
        ("read /project/in.txt", "read /project/other.txt")
    );
}

#[test]
fn what_was_printed_is_not_printed_again() {
    let print = |system: Rc<dyn System>| async move {
        for n in 0..5 {
            let _ = system.write_out(&format!("line {n}\n"));
            let _ = system.append(Path::new("/project/log"), b"x");
        }
    };
    let all: String = (0..5).map(|n| format!("line {n}\n")).collect();
    for at in 1..11 {
        let memory = Rc::new(Memory::new());
        let system: Rc<dyn System> = memory.clone();
        let kept = MemoryKeeper::default();
        let setup = Setup { until: Some(at), ..Setup::new(system.clone(), Box::new(kept.clone())) };
        run(&Journal::new(setup), print);
        let (journal, _) = resumed(&system, kept.entries(), false);
        run(&journal, print);
        assert_eq!((journal.stopped(), memory.output()), (None, all.clone()), "broken off at {at}");
        assert_eq!(system.read_text(Path::new("/project/log"), 100).expect("a file"), "xxxxx");
    }
}

/// A system that looks whether what is printed may be out: as many lines as reads are kept.
struct Printing {
    inner: Memory,
    keeper: MemoryKeeper,
    lines: Cell<usize>,
    full: bool,
}

impl Layer for Printing {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        if self.full {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        }
        self.lines.set(self.lines.get() + text.lines().count());
        let is_read = |entry: &&Entry| matches!(&entry.what, What::Call { name, .. } if name == "read");
        let kept = self.keeper.entries().iter().filter(is_read).count();
        assert!(self.lines.get() <= kept, "line {} is out, and {kept} reads are kept", self.lines.get());
        self.inner.write_out(text)
    }
}

fn printing(full: bool) -> (Rc<Printing>, Journal) {
    let keeper = MemoryKeeper::default();
    let inner = Memory::new().with_file("in.txt", "text");
    let below = Rc::new(Printing { inner, keeper: keeper.clone(), lines: Cell::new(0), full });
    (below.clone(), Journal::new(Setup::new(below, Box::new(keeper))))
}

#[test]
fn output_leaves_when_what_led_to_it_is_kept() {
    let (below, journal) = printing(false);
    let at_first = run(&journal, |system| async move {
        let mut at_first = Vec::new();
        for n in 0..300 {
            let text = system.read_text(Path::new("/project/in.txt"), 100).expect("a file");
            system.write_out(&format!("{n} {text}\n")).expect("room");
            if n % 100 == 50 {
                // Whoever waits shows what it has printed.
                system.sleep(Duration::from_millis(5)).await;
            }
            at_first.push(n);
        }
        at_first
    });
    assert_eq!(below.lines.get(), 300);
    let all: String = at_first.iter().map(|n| format!("{n} text\n")).collect();
    assert_eq!(below.inner.output(), all);
    assert_eq!(noted(&below.keeper), all.len() as u64);
}

#[test]
fn a_look_at_the_clock_that_was_told_is_kept() {
    let program = |system: Rc<dyn System>| async move {
        for _ in 0..20 {
            let _ = system.read(Path::new("/project/in.txt"), 100);
            let told = format!("{} {}\n", system.now_ms(), system.monotonic().as_nanos());
            system.write_out(&told).expect("room");
        }
    };
    let (below, journal) = printing(false);
    run(&journal, program);
    let is_clock = |entry: &Entry| matches!(entry.what, What::Clock { .. });
    assert!(below.keeper.entries().iter().filter(|entry| is_clock(entry)).count() >= 20);
    let printed = below.inner.output();
    for (at, _) in printed.match_indices('\n') {
        // Killed between printing this line and noting it: the entries up to it are there.
        let lines = printed[..=at].lines().count();
        let mut reads = 0;
        let mut entries = below.keeper.entries();
        entries.retain(|entry| {
            reads += usize::from(matches!(&entry.what, What::Call { name, .. } if name == "read"));
            reads <= lines && !matches!(entry.what, What::Printed { .. })
        });
        let memory = Rc::new(Memory::new().with_file("in.txt", "text"));
        let system: Rc<dyn System> = memory.clone();
        std::thread::sleep(Duration::from_millis(2));
        let (journal, _) = resumed(&system, entries, false);
        run(&journal, program);
        assert!(memory.output().starts_with(&printed[..=at]), "{} instead of {printed}", memory.output());
    }
}

/// How much of the standard output is out, as the journal says.
fn noted(keeper: &MemoryKeeper) -> u64 {
    let out = keeper.entries().into_iter().rev().find_map(|entry| match entry.what {
        What::Printed { out, .. } => Some(out),
        _ => None,
    });
    out.unwrap_or(0)
}

#[test]
fn what_shows_a_look_that_could_not_be_written_down_is_not_out_and_does_not_count() {
    let program = |system: Rc<dyn System>| async move {
        let start = system.monotonic();
        for n in 0..6 {
            system.write_out(&format!("line {n}\n")).expect("room");
            let text = format!("{} ns\n", (system.monotonic() - start).as_nanos());
            system.write_out(&text).expect("room");
        }
    };
    for until in 1..20 {
        let memory = Rc::new(Memory::new());
        let system: Rc<dyn System> = memory.clone();
        let keeper = MemoryKeeper::default();
        let setup = Setup { until: Some(until), ..Setup::new(system.clone(), Box::new(keeper.clone())) };
        run(&Journal::new(setup), program);
        assert_eq!(noted(&keeper), memory.output().len() as u64, "broken off at {until}");
        std::thread::sleep(Duration::from_millis(2));
        let journal = going_on(&system, &keeper);
        run(&journal, program);
        assert_eq!(journal.stopped(), None);
        let empty = Rc::new(Memory::new());
        let inner: Rc<dyn System> = empty.clone();
        let setup = Setup { entries: keeper.entries(), replay: true, ..Setup::new(inner, Box::new(Nowhere)) };
        run(&Journal::new(setup), program);
        assert_eq!(empty.output(), memory.output(), "broken off at {until}");
    }
}

#[test]
fn a_program_that_prints_much_does_not_gather_it() {
    let (below, journal) = printing(false);
    let lines = below.clone();
    run(&journal, |system| async move {
        let _ = system.read(Path::new("/project/in.txt"), 100);
        system.write_out(&"x".repeat(100_000)).expect("room");
        assert_eq!(lines.lines.get(), 1);
    });
    assert_eq!(below.inner.output().len(), 100_000);
}

#[test]
fn output_that_cannot_be_written_is_told_later_and_in_the_same_place_again() {
    let program = |system: Rc<dyn System>| async move {
        let mut told = Vec::new();
        for n in 0..6 {
            let _ = system.read(Path::new("/project/in.txt"), 100);
            told.push(system.write_out(&format!("line {n}\n")).is_ok());
            told.push(system.write_out("more\n").is_ok());
            system.sleep(Duration::from_millis(3)).await;
        }
        told
    };
    let (below, journal) = printing(true);
    let told = run(&journal, program);
    assert!(told[0] && told.contains(&false), "{told:?}");
    assert!(journal.output().is_err());
    let again = replayed(below.keeper.entries());
    assert_eq!(run(&again, program), told);
    assert_eq!(again.stopped(), None);
}

fn inquiry(prompt: &str, time: Duration) -> Inquiry {
    Inquiry {
        id: "q1".to_owned(),
        kind: "question".to_owned(),
        prompt: prompt.to_owned(),
        details: "{}".to_owned(),
        quorum: 1,
        had: 0,
        time,
    }
}

/// Asks over a journal; nothing when the run is stopped.
fn ask(journal: &Journal, prompt: &str, time: Duration) -> Option<Asked> {
    let stop = Rc::new(tokio::sync::Notify::new());
    let told = stop.clone();
    journal.hold(Reins {
        place: Box::new(|| None),
        stop: Box::new(move || told.notify_one()),
        is_stopped: Box::new(|| false),
    });
    run(journal, |system| async move {
        tokio::select! {
            biased;
            asked = system.inquire(inquiry(prompt, time)) => Some(asked),
            () = stop.notified() => None,
        }
    })
}

fn going_on(system: &Rc<dyn System>, keeper: &MemoryKeeper) -> Journal {
    let setup = Setup { entries: keeper.entries(), ..Setup::new(system.clone(), Box::new(keeper.clone())) };
    Journal::new(setup)
}

#[test]
fn a_question_stops_the_run_and_its_answer_is_in_the_journal() {
    let (system, ..) = machine();
    let (journal, keeper) = recorded(&system);
    let day = Duration::from_secs(86_400);
    assert_eq!(ask(&journal, "Who?", day), None);
    let Some(Stop::Suspended { due_ms: Some(_), pending }) = journal.stopped() else {
        panic!("{:?}", journal.stopped())
    };
    assert_eq!((pending[0].id.as_str(), pending[0].prompt.as_str()), ("q1", "Who?"));
    // Without an answer it stops again, and asks the same.
    let journal = going_on(&system, &keeper);
    assert_eq!(ask(&journal, "Who?", day), None);
    assert_eq!(keeper.requests().len(), 1);
    assert!(keeper.answer("q1", "\"me\"", "ada", system.now_ms()));
    assert!(!keeper.answer("q1", "\"you\"", "bob", system.now_ms()), "one answer is enough");
    let journal = going_on(&system, &keeper);
    let reply =
        ask(&journal, "Who?", day).expect("an end").expect("an answer that counts").expect("an answer");
    assert_eq!((reply.value.as_str(), reply.by.as_str()), ("\"me\"", "ada"));
    let journal = replayed(keeper.entries());
    assert_eq!(ask(&journal, "Who?", day), Some(Ok(Some(reply))));
}

#[test]
fn another_question_needs_another_answer() {
    let (system, ..) = machine();
    let day = Duration::from_secs(86_400);
    let (journal, keeper) = recorded(&system);
    assert_eq!(ask(&journal, "Pay 5?", day), None);
    assert!(keeper.answer("q1", "true", "ada", system.now_ms()));
    // The same request, and now it is about something else.
    let journal = Journal::new(Setup::new(system.clone(), Box::new(keeper.clone())));
    let refused = ask(&journal, "Pay 500?", day).expect("an end").expect_err("no approval");
    assert!(refused.contains("something else than what is asked now"), "{refused}");
}

#[test]
fn a_question_that_nobody_answers_in_time_is_over() {
    let (system, ..) = machine();
    let keeper = MemoryKeeper::default();
    let setup =
        Setup { suspend_after: Some(Duration::MAX), ..Setup::new(system.clone(), Box::new(keeper.clone())) };
    let journal = Journal::new(setup);
    assert_eq!(ask(&journal, "Who?", Duration::from_secs(5)), Some(Ok(None)));
    assert_eq!(journal.stopped(), None);
    assert_eq!(ask(&replayed(keeper.entries()), "Who?", Duration::from_secs(5)), Some(Ok(None)));
}

#[test]
fn an_append_that_somebody_else_has_touched_is_in_doubt_unless_it_may_be_made_twice() {
    let log = Path::new("/project/log");
    let append =
        |system: Rc<dyn System>| async move { system.append(log, b"mine").map_err(|e| e.to_string()) };
    for again in [false, true] {
        let (system, ..) = machine();
        let (journal, keeper) = recorded(&system);
        run(&journal, append).expect("room");
        let mut entries = keeper.entries();
        entries.retain(|entry| !matches!(entry.what, What::Call { .. }));
        system.append(log, b"theirs").expect("room");
        let (journal, _) = resumed(&system, entries, again);
        let answer = run(&journal, append);
        let text = system.read_text(log, 100).expect("a file");
        if again {
            assert_eq!((answer, text.as_str()), (Ok(()), "minetheirsmine"));
        } else {
            assert!(answer.expect_err("doubt").contains("--retry-in-doubt"));
            assert_eq!(text, "minetheirs");
        }
    }
}

#[test]
fn a_change_of_files_in_doubt_ends_the_same_whether_it_had_happened_or_not() {
    type Change = fn(&dyn System) -> Result<(), String>;
    fn path(name: &str) -> std::path::PathBuf {
        Path::new("/project").join(name)
    }
    let changes: [(&str, Change); 7] = [
        ("replace", |system| system.replace(&path("in.txt"), b"new").map_err(|e| e.to_string())),
        ("copy", |system| {
            system.copy(&path("in.txt"), &path("copy.txt")).map(drop).map_err(|e| e.to_string())
        }),
        ("make_dirs", |system| system.make_dirs(&path("a/b")).map_err(|e| e.to_string())),
        ("make_dir", |system| system.make_dir(&path("c")).map_err(|e| e.to_string())),
        ("remove", |system| system.remove(&path("in.txt")).map_err(|e| e.to_string())),
        ("rename", |system| system.rename(&path("in.txt"), &path("moved.txt")).map_err(|e| format!("{e:?}"))),
        ("append", |system| system.append(&path("in.txt"), b"!").map_err(|e| e.to_string())),
    ];
    let state = |system: &dyn System| {
        let read = |name: &str| system.read_text(&path(name), 100).ok();
        (
            read("in.txt"),
            read("copy.txt"),
            read("moved.txt"),
            system.is_dir(&path("a/b")),
            system.is_dir(&path("c")),
        )
    };
    for (name, change) in changes {
        let mut ends = Vec::new();
        for happened in [true, false] {
            let (system, ..) = machine();
            let (journal, keeper) = recorded(&system);
            run(&journal, |system| async move { change(&*system) }).expect("a change");
            let mut entries = keeper.entries();
            entries.retain(|entry| !matches!(entry.what, What::Call { .. }));
            let begun = entries.iter().any(|entry| matches!(entry.what, What::Begin { .. }));
            assert!(begun, "{name} is written down before it happens");
            // Killed behind the change, or before it.
            let system = if happened { system } else { machine().0 };
            let (journal, kept) = resumed(&system, entries.clone(), false);
            let done = run(&journal, |system| async move { change(&*system) });
            assert_eq!((done, journal.stopped()), (Ok(()), None), "{name}, happened: {happened}");
            ends.push(state(&*system));
            // Whoever replays it gets the same.
            let all = entries.into_iter().chain(kept.entries()).collect();
            assert_eq!(run(&replayed(all), |system| async move { change(&*system) }), Ok(()), "{name}");
        }
        assert_eq!(ends[0], ends[1], "{name}");
    }
}

/// A system that remembers which entries were kept whenever something was written.
struct Watched {
    inner: Memory,
    keeper: MemoryKeeper,
    seen: RefCell<Vec<(String, Vec<Entry>)>>,
}

impl Layer for Watched {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        self.inner.write_out(text)?;
        self.seen.borrow_mut().push((self.inner.output(), self.keeper.entries()));
        Ok(())
    }
}

/// Lets other tasks and the system have their turn, and is ready at once.
async fn turn() {
    let mut first = true;
    std::future::poll_fn(|context| {
        if !std::mem::take(&mut first) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[test]
fn what_a_busy_program_prints_beside_others_is_printed_again_in_the_same_order() {
    let program = |pause: Duration| {
        move |system: Rc<dyn System>| async move {
            let over = Rc::new(Cell::new(false));
            let (other, is_over) = (system.clone(), over.clone());
            spawn(async move {
                other.sleep(pause).await;
                let _ = other.write_out("over\n");
                is_over.set(true);
            });
            let mut n = 0;
            while !over.get() {
                system.write_out(&format!("{n}\n")).expect("room");
                n += 1;
                turn().await;
            }
        }
    };
    let keeper = MemoryKeeper::default();
    let below = Rc::new(Watched { inner: Memory::new(), keeper: keeper.clone(), seen: RefCell::default() });
    let journal = Journal::new(Setup::new(below.clone(), Box::new(keeper.clone())));
    run(&journal, program(Duration::from_millis(40)));
    let seen = below.seen.take();
    assert!(seen.len() > 3, "it left in pieces: {}", seen.len());
    for (printed, entries) in seen {
        // Killed between this and noting it; the pause is over much earlier than the first time.
        let memory = Rc::new(Memory::new());
        let system: Rc<dyn System> = memory.clone();
        let entries =
            entries.into_iter().filter(|entry| !matches!(entry.what, What::Printed { .. })).collect();
        let (journal, _) = resumed(&system, entries, false);
        run(
            &journal,
            program(if printed.contains("over") { Duration::from_millis(40) } else { Duration::ZERO }),
        );
        let again = memory.output();
        assert!(again.starts_with(&printed), "{} bytes, and now {again}", printed.len());
    }
}
