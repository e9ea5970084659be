//! Database outages while workers execute short runs: all runs complete, and no effect is repeated.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::background::{start, stop, submit, until};
use crate::common::{folder, harn_in};
use crate::server::{Server, name};

/// Number of runs per case.
const RUNS: usize = 200;

fn worker(folder: &Path) -> Child {
    start(folder, &["worker", "--concurrency", "4", "--lease", "3s"])
}

fn started(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with("log-")).count()
}

/// Creates a database of a user who is not a superuser, and returns its address.
fn database(server: &Server) -> String {
    let url = server.database();
    server.sql(
        "postgres",
        "DO $$ BEGIN CREATE ROLE w LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    );
    server.sql("postgres", "ALTER ROLE w CONNECTION LIMIT -1");
    server.sql("postgres", &format!("ALTER DATABASE {} OWNER TO w", name(&url)));
    url.replace("//harn@", "//w@")
}

/// Executes runs during an outage. `url` is the address that the workers use.
fn outlast(url: &str, outage: impl FnOnce()) {
    let program = "append_file(\"log-${argv[0]}.txt\", \"1\\n\")\n";
    let dir = folder(&[("main.harn", program), ("harn.toml", &format!("[store]\nurl = \"{url}\"\n"))]);
    let path = dir.path();
    let lines: String = (0..RUNS).map(|n| format!("{{\"args\": [\"{n}\"]}}\n")).collect();
    std::fs::write(path.join("jobs.jsonl"), lines).unwrap();
    submit(path, &["--input-file", "jobs.jsonl", "main.harn"]);
    let two = [worker(path), worker(path)];
    until("some runs have started", || started(path) >= 10);
    outage();
    let runs = || {
        let ran = harn_in(path, &["runs", "list", "--limit", "999", "--json"]);
        let data: Value = serde_json::from_str(&ran.out).unwrap_or_default();
        data["data"]["runs"].as_array().cloned().unwrap_or_default()
    };
    let count = |status: &str| runs().iter().filter(|run| run["status"] == status).count();
    let begin = Instant::now();
    while count("completed") < RUNS {
        let open: Vec<Value> = runs().into_iter().filter(|run| run["status"] != "completed").collect();
        assert!(begin.elapsed() < Duration::from_secs(300), "{open:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
    two.into_iter().for_each(stop);
    for n in 0..RUNS {
        let log = std::fs::read_to_string(path.join(format!("log-{n}.txt"))).unwrap();
        assert_eq!(log, "1\n", "run {n}");
    }
}

#[test]
fn a_database_that_is_stopped() {
    let Some(mut server) = Server::start() else { return };
    let url = database(&server);
    outlast(&url, || {
        server.tell("stop");
        std::thread::sleep(Duration::from_secs(3));
        server.tell("start");
    });
}

#[test]
fn a_database_that_is_killed() {
    let Some(mut server) = Server::start() else { return };
    let url = database(&server);
    outlast(&url, || {
        for _ in 0..2 {
            server.tell("crash");
            std::thread::sleep(Duration::from_secs(1));
            server.tell("start");
            std::thread::sleep(Duration::from_millis(300));
        }
    });
}

#[test]
fn a_database_that_is_restarted() {
    let Some(mut server) = Server::start() else { return };
    let url = database(&server);
    outlast(&url, || {
        for _ in 0..3 {
            server.tell("stop");
            server.tell("start");
            std::thread::sleep(Duration::from_millis(400));
        }
    });
}

#[test]
fn connections_that_are_ended_and_limited() {
    let Some(server) = Server::start() else { return };
    let url = database(&server);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'w'";
    outlast(&url, || {
        server.sql("postgres", "ALTER ROLE w CONNECTION LIMIT 2");
        server.sql("postgres", end);
        std::thread::sleep(Duration::from_secs(4));
        server.sql("postgres", "ALTER ROLE w CONNECTION LIMIT -1");
        server.sql("postgres", end);
    });
}

#[test]
fn a_table_that_is_locked() {
    let Some(server) = Server::start() else { return };
    let url = database(&server);
    outlast(&url, || {
        server.sql(name(&url), "BEGIN; LOCK TABLE harn.run; SELECT pg_sleep(14); COMMIT");
    });
}

/// Forwards connections to a server, with a delay for each piece; after a number of pieces it drops the connection.
struct Proxy {
    folder: tempfile::TempDir,
    delay_ms: Arc<AtomicU64>,
    drops_every: Arc<AtomicU64>,
}

impl Proxy {
    fn start(server: PathBuf) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (delay_ms, drops_every) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
        let pieces = Arc::new(AtomicU64::new(0));
        let (delay, drops) = (delay_ms.clone(), drops_every.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = UnixStream::connect(server.join(".s.PGSQL.5432")) else { continue };
                for (from, to) in [(&client, &upstream), (&upstream, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (delay, drops, pieces) = (delay.clone(), drops.clone(), pieces.clone());
                    std::thread::spawn(move || {
                        let mut bytes = [0; 8192];
                        while let Ok(length) = from.read(&mut bytes) {
                            let count = pieces.fetch_add(1, Ordering::Relaxed) + 1;
                            let is_dropped = count % drops.load(Ordering::Relaxed) == 0;
                            std::thread::sleep(Duration::from_millis(delay.load(Ordering::Relaxed)));
                            if length == 0 || is_dropped || to.write_all(&bytes[..length]).is_err() {
                                break;
                            }
                        }
                        let _ = from.shutdown(std::net::Shutdown::Both);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Proxy { folder, delay_ms, drops_every }
    }

    fn set(&self, delay_ms: u64, drops_every: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
        self.drops_every.store(drops_every, Ordering::Relaxed);
    }
}

#[test]
fn a_network_that_delays_and_drops() {
    let Some(server) = Server::start() else { return };
    let direct = database(&server);
    let proxy = Proxy::start(server.folder().to_owned());
    let folder = proxy.folder.path().display().to_string().replace('/', "%2F");
    let url = format!("postgres://w@{folder}/{}", name(&direct));
    outlast(&url, || {
        proxy.set(20, 150);
        std::thread::sleep(Duration::from_secs(6));
        proxy.set(2, 400);
        std::thread::sleep(Duration::from_secs(4));
        proxy.set(0, u64::MAX);
    });
}

/// An in-memory file system with a size limit, if the user may mount one.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(mib: u32) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={mib}m,mode=1777");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: only root can mount a file system for the test");
            return None;
        }
        Some(Mount(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// The server cannot extend its tables, and stops when it cannot write its log.
#[test]
fn a_disk_that_is_full() {
    let Some(mount) = Mount::new(160) else { return };
    let Some(mut server) = Server::start_in(mount.0.path()) else { return };
    let url = database(&server);
    let filler = mount.0.path().join("filler");
    outlast(&url, || {
        for _ in 0..2 {
            let mut file = std::fs::File::create(&filler).unwrap();
            let is_full = |error: std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
            assert!(
                std::iter::repeat_with(|| file.write_all(&[0; 4096]))
                    .take(1 << 20)
                    .any(|written| written.is_err_and(is_full))
            );
            std::thread::sleep(Duration::from_secs(4));
            std::fs::remove_file(&filler).unwrap();
            server.tell("start");
            std::thread::sleep(Duration::from_millis(300));
        }
    });
}
