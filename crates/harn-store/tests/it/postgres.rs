//! What only a store in PostgreSQL can run into: servers that are not there, connections that break, transactions in each
//! other's way.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use harn_store::{
    EntryKind, Error, Expect, NewStatus, Place, PostgresOptions, PostgresStore, Store, StoreExt, Write,
};

use crate::runs::{append, entry, queued, running};
use crate::server::{Server, database, name, shared};
use crate::support::{claim_one, event, fence, is_fenced, message, one, wait};

/// A store that gives up soon.
fn hasty(url: &str) -> PostgresStore {
    let options = PostgresOptions {
        connect_timeout: Duration::from_secs(5),
        busy_timeout: Duration::from_millis(500),
        statement_timeout: Duration::from_secs(5),
        patience: Duration::from_secs(1),
    };
    PostgresStore::with(url, options).unwrap()
}

fn first_error(url: &str) -> String {
    let error = wait(async { hasty(url).acquire("x", "tester", 0, 1).await.unwrap_err() });
    assert!(error.is_storage(), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("cannot open the store postgres://") || text.contains("schema version"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    text
}

/// The address with another user.
fn with_user(url: &str, user: &str) -> String {
    url.replace("postgres://harn@", &format!("postgres://{user}@"))
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_way_out() {
    let error = first_error("postgres://ann:secret@127.0.0.1:1/runs");
    assert!(
        error.contains("no server can be reached at 127.0.0.1:1") && error.contains("is it running?"),
        "{error}"
    );
    let error = first_error("postgres://ann:secret@%2Fno%2Fsuch/runs");
    assert!(error.contains("no server can be reached at /no/such/.s.PGSQL.5432"), "{error}");
    let error = first_error("postgres://ann:secret@db.invalid/runs");
    assert!(error.contains("db.invalid:5432"), "{error}");

    let Some(url) = database() else { return };
    let error = first_error(&url.replace(name(&url), "none"));
    assert!(error.contains("has no database 'none'") && error.contains("createdb none"), "{error}");
    shared().unwrap().sql("postgres", "DROP ROLE IF EXISTS asked; CREATE ROLE asked LOGIN PASSWORD 'right'");
    let error = first_error(&with_user(&url, "asked:secret"));
    assert!(error.contains("does not let user 'asked' in") && error.contains("password"), "{error}");
    let error = first_error(&with_user(&url, "asked"));
    assert!(error.contains("asks user 'asked' for a password") && error.contains("PGPASSWORD"), "{error}");
    let error = first_error(&with_user(&url, "nobody"));
    assert!(error.contains("does not let user 'nobody' in"), "{error}");
    // Nobody else may read along: without TLS there is no way to a server elsewhere.
    let proxy = Proxy::new(&url, Cut::Never);
    let error = first_error(&format!("{}?sslmode=verify-full", proxy.url));
    assert!(error.contains("server does not support TLS") && error.contains("sslmode=disable"), "{error}");
}

#[test]
fn what_belongs_to_others_is_left_alone() {
    let Some(url) = database() else { return };
    let sql = |sql: &str| shared().unwrap().sql(name(&url), sql);
    sql("CREATE SCHEMA harn; CREATE TABLE harn.theirs (x int)");
    let error = first_error(&url);
    assert!(error.contains("its schema 'harn' belongs to another program"), "{error}");
    sql("DROP SCHEMA harn CASCADE");
    wait(async { hasty(&url).acquire("x", "a", 0, 1).await.unwrap() });
    sql("UPDATE harn.schema_version SET version = 99");
    let error = first_error(&url);
    let told = ["has schema version 99, this Harn knows up to ", ": use a newer Harn"];
    assert!(told.iter().all(|part| error.contains(part)), "{error}");
    assert_eq!(sql("SELECT version FROM harn.schema_version"), "99");
}

#[test]
fn a_user_who_may_only_read_reads() {
    let Some(url) = database() else { return };
    let writer = hasty(&url);
    wait(async {
        let fence = fence(&writer, "p").await;
        writer.kv_put(&fence, "s", "k", vec![1], Expect::Anything).await.unwrap();
        {
            let server = shared().unwrap();
            server.sql(
                "postgres",
                "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$",
            );
            server.sql(
                name(&url),
                "GRANT USAGE ON SCHEMA harn TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA harn TO reader",
            );
        }
        let reader = hasty(&with_user(&url, "reader"));
        assert_eq!(reader.kv_get("s", "k").await.unwrap().unwrap().value, [1]);
        let error = reader.kv_put(&fence, "s", "k", vec![2], Expect::Anything).await.unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains("a user with the right to write"), "{error}");
        assert_eq!(reader.kv_get("s", "k").await.unwrap().unwrap().value, [1]);
    });
}

#[test]
fn many_who_come_first_make_the_schema_once() {
    let Some(url) = database() else { return };
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let url = url.clone();
            std::thread::spawn(move || {
                let store = PostgresStore::new(&url).unwrap();
                wait(async { fence(&store, &format!("p{n}")).await });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let server = shared().unwrap();
    assert_eq!(server.sql(name(&url), "SELECT count(*) FROM harn.schema_version"), "1");
    assert_eq!(server.sql(name(&url), "SELECT count(*) FROM harn.lease"), "8");
}

/// Makes the database complain when a value is written, and counts how often it was tried.
fn complaint(url: &str, code: &str) {
    let body = format!(
        "CREATE SEQUENCE IF NOT EXISTS public.tries;
         CREATE OR REPLACE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF new.key = 'bad' THEN
                 PERFORM nextval('public.tries');
                 RAISE EXCEPTION 'trouble' USING ERRCODE = '{code}';
             END IF;
             RETURN new;
         END $$;
         DROP TRIGGER IF EXISTS complain ON harn.kv;
         CREATE TRIGGER complain BEFORE INSERT ON harn.kv FOR EACH ROW EXECUTE FUNCTION complain();"
    );
    shared().unwrap().sql(name(url), &body);
}

#[test]
fn complaints_of_the_server_are_told_and_hurt_nobody_else() {
    let Some(url) = database() else { return };
    let store = hasty(&url);
    wait(async {
        let fence = fence(&store, "p").await;
        let mut before_again: u32 = 0;
        for (code, text) in [
            ("53100", "no room for the store postgres://"),
            ("25006", "is read-only: name a server that takes writes"),
            ("XX001", "is damaged (trouble [XX001]): restore a copy of the database"),
            ("40P01", "trouble [40P01]"),
            ("55P03", "is busy"),
            ("P0001", "failed: trouble [P0001]"),
        ] {
            complaint(&url, code);
            let put = |key: &str| {
                let (space, key, value) = ("s".to_owned(), key.to_owned(), vec![]);
                vec![Write::KvPut { space, key, value, expect: Expect::Anything }]
            };
            // They are asked for at once, so they share a transaction.
            let before = store.write(&fence, put(code));
            let bad = store.write(&fence, put("bad"));
            let after = store.write(&fence, put(&format!("{code} after")));
            let error = bad.await.unwrap_err().to_string();
            assert!(error.contains(text), "{code}: {error}");
            before.await.unwrap();
            after.await.unwrap();
            assert!(store.kv_get("s", code).await.unwrap().is_some());
            assert_eq!(store.kv_get("s", "bad").await, Ok(None));
            let tries = || shared().unwrap().sql(name(&url), "SELECT last_value FROM public.tries");
            match code {
                "XX001" => before_again = tries().parse().unwrap(),
                // What others stand in the way of is tried again, but not for ever.
                "40P01" => assert!(tries().parse::<u32>().unwrap() > before_again + 10, "{}", tries()),
                _ => {}
            }
        }
        assert_eq!(store.verify().await, Ok(vec![]));
    });
}

#[test]
fn changed_bytes_are_found() {
    let Some(url) = database() else { return };
    let store = hasty(&url);
    wait(async {
        let fence = running(&store, "r").await;
        let entries =
            vec![entry(0, EntryKind::Outcome, vec![1]), entry(1, EntryKind::Outcome, vec![2; 20_000])];
        store.write(&fence, vec![append("r", entries), Write::BlobPut { bytes: vec![3] }]).await.unwrap();
        let sql = |sql: &str| shared().unwrap().sql(name(&url), sql);
        sql("UPDATE harn.journal SET place = 'elsewhere' WHERE seq = 0");
        let error = store.journal("r", 0, 9).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("entry 0 of run 'r' was changed"), "{error}");
        sql("UPDATE harn.shared SET bytes = '\\x02'");
        assert!(store.journal("r", 1, 9).await.unwrap_err().to_string().contains("are others"));
        sql("UPDATE harn.blob SET bytes = '\\x04'");
        assert!(matches!(store.blob(harn_store::Digest::of(&[3])).await, Err(Error::Corrupt { .. })));
        sql("DELETE FROM harn.journal WHERE seq = 1");
        assert!(store.journal("r", 0, 9).await.is_err());
        let found = store.verify().await.unwrap().join("\n");
        for part in ["blob ", "are others", "counted 1 times and named 0 times", "has 1 of 2 entries"] {
            assert!(found.contains(part), "{found}");
        }
    });
}

#[test]
fn what_a_text_of_the_server_cannot_hold_is_kept() {
    let Some(url) = database() else { return };
    let store = hasty(&url);
    wait(async {
        let fence = running(&store, "r").await;
        let (run, note) = ("r".to_owned(), "a\0b".to_owned());
        let failed = NewStatus::Failed { exit_code: 1 };
        one(&store, &fence, Write::RunStatus { run, status: failed, note: note.clone(), at_ms: 1 })
            .await
            .unwrap();
        assert_eq!(store.run("r").await.unwrap().unwrap().note, note);
        let mut new = event("e");
        new.headers = vec![("k\0".into(), "\0".into())];
        store.log_append(&fence, "t", new.clone()).await.unwrap();
        assert_eq!(store.log_read("t", 0, 9).await.unwrap()[0].event, new);
        one(&store, &fence, Write::QueuePush { queue: "q".into(), message: message("m", 0, 1) })
            .await
            .unwrap();
        store.queue_claim(&fence, "q", 0, 10, 1).await.unwrap();
        let (queue, id) = ("q".into(), "m".into());
        let nack = Write::QueueNack { queue, id, attempt: 1, retry_ms: None, reason: note.clone() };
        one(&store, &fence, nack).await.unwrap();
        assert_eq!(store.queue_dead("q", 0, None, 9).await.unwrap()[0].reason, note);
    });
}

/// Several claim at once: nobody waits for another one, and nobody gets what another one has.
#[test]
fn runs_are_claimed_side_by_side() {
    let Some(url) = database() else { return };
    wait(async {
        let store = hasty(&url);
        for n in 0..40 {
            queued(&store, &format!("r{n}"), 0).await;
        }
    });
    let workers: Vec<_> = (0..6)
        .map(|worker| {
            let url = url.clone();
            std::thread::spawn(move || {
                let store = hasty(&url);
                let mut own = Vec::new();
                let mut idle = 0;
                while idle < 5 {
                    let claimed = wait(claim_one(&store, &format!("w{worker}"), 10, 1_000)).unwrap();
                    match claimed {
                        Some((run, _)) => own.push(run.id),
                        None => idle += 1,
                    }
                }
                own
            })
        })
        .collect();
    let mut all: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    all.sort();
    let length = all.len();
    all.dedup();
    assert_eq!((length, all.len()), (40, 40));
}

/// Two that lock the same in another order stand in each other's way: one of them is tried again.
#[test]
fn transactions_in_each_others_way_are_made_one_after_the_other() {
    let Some(url) = database() else { return };
    wait(async { hasty(&url).acquire("x", "a", 0, 1).await.unwrap() });
    let threads: Vec<_> = (0..2)
        .map(|n| {
            let url = url.clone();
            std::thread::spawn(move || {
                let store = PostgresStore::new(&url).unwrap();
                wait(async {
                    let fence = fence(&store, &format!("p{n}")).await;
                    let mut topics = ["a", "b"];
                    if n == 1 {
                        topics.reverse();
                    }
                    for _ in 0..60 {
                        let writes = topics
                            .map(|topic| Write::LogAppend { topic: topic.into(), events: vec![event("e")] });
                        store.write(&fence, writes.to_vec()).await.unwrap();
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wait(async {
        let store = hasty(&url);
        for topic in ["a", "b"] {
            assert_eq!(store.log_topic(topic).await.unwrap().unwrap().count, 120);
        }
    });
}

/// When a connection is cut.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Never,
    /// The server gets the commit, and its answer is lost.
    BehindCommit,
    /// The commit is lost.
    BeforeCommit,
    /// The commit is lost, and the server is left with an open transaction.
    Hanging,
    /// As [`Cut::BehindCommit`], and nobody can connect any more.
    ForGood,
}

/// Stands between a store and its server, and cuts the connection at a commit.
struct Proxy {
    url: String,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    fn new(url: &str, cut: Cut) -> Proxy {
        let socket = shared().unwrap().folder().join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicU32::new(0));
        let count = cuts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if cut == Cut::ForGood && count.load(Ordering::SeqCst) > 0 {
                    continue;
                }
                let (count, socket) = (count.clone(), socket.clone());
                std::thread::spawn(move || relay(client, &socket, cut, &count));
            }
        });
        Proxy { url: format!("postgres://harn@127.0.0.1:{port}/{}", name(url)), cuts }
    }
}

fn relay(mut client: TcpStream, socket: &Path, cut: Cut, cuts: &AtomicU32) {
    let mut server = UnixStream::connect(socket).unwrap();
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..length];
        let is_commit = bytes.starts_with(b"Q") && bytes.windows(7).any(|part| part == b"COMMIT\0");
        // Reads commit, too, and are cut as well; a few times is enough.
        if is_commit && cut != Cut::Never && cuts.fetch_add(1, Ordering::SeqCst) < 3 {
            if matches!(cut, Cut::BehindCommit | Cut::ForGood) {
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.write_all(bytes);
                let _ = server.flush();
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = client.shutdown(std::net::Shutdown::Both);
            if cut == Cut::Hanging {
                std::thread::sleep(Duration::from_secs(20));
            }
            let _ = server.shutdown(std::net::Shutdown::Both);
            return;
        }
        if server.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
}

/// What became of a commit whose answer was lost is found out, and nothing is made twice or left out.
#[test]
fn a_commit_without_an_answer_is_found_out() {
    for cut in [Cut::BehindCommit, Cut::BeforeCommit, Cut::Hanging] {
        let Some(url) = database() else { return };
        wait(async {
            let direct = hasty(&url);
            let fence = fence(&direct, "p").await;
            let proxy = Proxy::new(&url, cut);
            let store = hasty(&proxy.url);
            for n in 1..=6 {
                assert_eq!(store.log_append(&fence, "t", event("e")).await, Ok(n), "write {n}");
            }
            // Two that share a transaction, of which one is refused.
            let stale = harn_store::Fence { scope: "p".into(), epoch: 99 };
            let add = || vec![Write::LogAppend { topic: "t".into(), events: vec![event("e")] }];
            let (good, bad) = (store.write(&fence, add()), store.write(&stale, add()));
            assert_eq!(good.await, Ok(vec![harn_store::Written::Last(7)]));
            assert!(is_fenced(&bad.await));
            assert_eq!(direct.log_topic("t").await.unwrap().unwrap().count, 7);
            assert!(proxy.cuts.load(Ordering::SeqCst) >= 3);
        });
    }
}

#[test]
fn what_cannot_be_found_out_is_in_doubt() {
    let Some(url) = database() else { return };
    wait(async {
        let direct = hasty(&url);
        let fence = fence(&direct, "p").await;
        let proxy = Proxy::new(&url, Cut::ForGood);
        let store = hasty(&proxy.url);
        let error = store.log_append(&fence, "t", event("e")).await.unwrap_err();
        assert!(matches!(error, Error::InDoubt { .. }) && error.is_storage(), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("it is not known whether the store postgres://harn@127.0.0.1"), "{text}");
        // Here it was kept; whoever looks sees it.
        assert_eq!(direct.log_topic("t").await.unwrap().unwrap().count, 1);
    });
}

/// The server stops, crashes and comes back, and connections are ended, while a store writes: all that was answered is there,
/// and nothing is there twice.
#[test]
fn a_server_that_comes_back_is_found_again() {
    let Some(mut server) = Server::start() else { return };
    let url = server.database();
    let database = name(&url).to_owned();
    let writer = std::thread::spawn({
        let url = url.clone();
        move || {
            let store = PostgresStore::new(&url).unwrap();
            wait(async {
                let fence = running(&store, "r").await;
                for n in 0..400 {
                    let kind = format!("{n}");
                    let entries = vec![entry(n, EntryKind::Outcome, kind.clone().into_bytes())];
                    let log = Write::LogAppend { topic: "t".into(), events: vec![event(&kind)] };
                    store.write(&fence, vec![append("r", entries), log]).await.unwrap();
                    if n % 10 == 0 {
                        assert_eq!(store.run("r").await.unwrap().unwrap().length, n + 1);
                    }
                }
            });
        }
    });
    let mut round = 0;
    while !writer.is_finished() && round < 12 {
        std::thread::sleep(Duration::from_millis(40));
        match round % 3 {
            0 => {
                server.sql(
                    "postgres",
                    &format!(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
                    ),
                );
            }
            how => {
                server.tell(if how == 1 { "stop" } else { "crash" });
                std::thread::sleep(Duration::from_millis(100));
                server.tell("start");
            }
        }
        round += 1;
    }
    writer.join().unwrap();
    assert!(round > 1, "the writer was quicker than the first trouble");
    wait(async {
        let store = PostgresStore::new(&url).unwrap();
        let events = store.log_read("t", 0, usize::MAX).await.unwrap();
        let kinds: Vec<String> = events.into_iter().map(|event| event.event.kind).collect();
        assert_eq!(kinds, (0..400).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(store.journal("r", 0, usize::MAX).await.unwrap().len(), 400);
        assert_eq!(store.verify().await, Ok(vec![]));
    });
}

/// A certificate is checked: who vouches for it, and for which name.
#[test]
fn a_connection_elsewhere_is_encrypted_to_the_right_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let Some(mut server) = Server::start_at(Some(port)) else { return };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("server.crt");
    let pem = |kind: &str, der: &[u8]| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
    };
    std::fs::write(&authority, pem("CERTIFICATE", made.cert.der())).unwrap();
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    std::fs::write(folder.path().join("server.key"), key).unwrap();
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    server.tell(&format!("tls {}", folder.path().display()));
    server.tell("stop");
    server.tell("start");
    let url = |host: &str, options: &str| format!("postgres://harn@{host}:{port}/postgres?{options}");
    let trusted = format!("sslrootcert={}", authority.display().to_string().replace('/', "%2F"));
    wait(async {
        let store = hasty(&url("localhost", &trusted));
        let fence = fence(&store, "p").await;
        store.blob_put(&fence, vec![7; 3_000_000]).await.unwrap();
        assert_eq!(
            store.blob(harn_store::Digest::of(&[7; 3_000_000])).await.unwrap().unwrap().len(),
            3_000_000
        );
    });
    let error = first_error(&url("127.0.0.1", &trusted));
    assert!(
        error.contains("no secure connection to 127.0.0.1") && error.contains("not valid for"),
        "{error}"
    );
    let error = first_error(&url("localhost", "sslmode=verify-full"));
    assert!(
        error.contains("no secure connection to localhost") && error.contains("sslrootcert=FILE"),
        "{error}"
    );
    // This server takes nobody without TLS.
    let error = first_error(&url("localhost", "sslmode=disable"));
    assert!(error.contains("does not let user 'harn' in") && error.contains("no encryption"), "{error}");
    std::fs::write(&authority, "no certificate").unwrap();
    assert!(first_error(&url("localhost", &trusted)).contains("holds no certificate"));
    assert!(
        first_error(&url("localhost", "sslrootcert=%2Fno%2Fsuch"))
            .contains("sslrootcert /no/such: No such file")
    );
}

#[test]
fn the_address_is_shown_without_its_password() {
    let url = "postgres://ann:secret@db.example:5433/runs?sslmode=require";
    let store = PostgresStore::new(url).unwrap();
    assert_eq!(store.address(), PathBuf::from("postgres://ann@db.example:5433/runs"));
    assert_eq!(Place::Url(url.to_owned()).to_string(), "postgres://ann@db.example:5433/runs");
}
