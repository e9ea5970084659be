//! A PostgreSQL server for tests, in a folder of its own. It listens on a socket in that folder alone, and ends with the test.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Does what it is told, line by line; when the test is gone, so is the server. The server refuses to run as root.
const KEEPER: &str = r#"
trap '' INT
bin=$1
folder=$(mktemp -d "$3/harn-pg.XXXXXX") || exit 1
options="-c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=60 -k $folder $2"
start() { "$bin/pg_ctl" start -w -s -D "$folder/data" -l "$folder/log" -o "$options" >/dev/null 2>&1; }
"$bin/initdb" --no-sync -A trust -U harn -E UTF8 --locale=C -D "$folder/data" >/dev/null 2>"$folder/log" || exit 1
{ echo "local all asked scram-sha-256"; echo "local all all trust"; echo "hostssl all all 127.0.0.1/32 trust"; } >"$folder/data/pg_hba.conf"
start
echo "$folder"
while read -r line; do
    case $line in
        start) start ;;
        stop) "$bin/pg_ctl" stop -w -s -m fast -D "$folder/data" >/dev/null 2>&1 ;;
        tls*)
            for file in server.crt server.key; do
                cat "${line#tls }/$file" >"$folder/data/$file"
                chmod 600 "$folder/data/$file"
            done
            echo "ssl = on" >>"$folder/data/postgresql.conf" ;;
        crash) "$bin/pg_ctl" stop -w -s -m immediate -D "$folder/data" >/dev/null 2>&1 ;;
    esac
    echo done
done
"$bin/pg_ctl" stop -w -s -m immediate -D "$folder/data" >/dev/null 2>&1
rm -rf "$folder"
"#;

/// A running server.
pub(crate) struct Server {
    keeper: Child,
    lines: Option<(ChildStdin, BufReader<ChildStdout>)>,
    folder: PathBuf,
    port: u16,
    bin: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.keeper.wait();
    }
}

/// Where the programs of the newest server are.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    found.sort();
    found.into_iter().rev().chain(std::env::split_paths(&path)).find(|bin| bin.join("initdb").exists())
}

impl Server {
    /// Starts a server. `None` on a machine without PostgreSQL, unless `HARN_POSTGRES` requires one, and with `HARN_POSTGRES=skip`.
    pub(crate) fn start() -> Option<Server> {
        Server::start_at(None)
    }

    /// As [`Server::start`], with all files of the server in a folder.
    pub(crate) fn start_in(folder: &Path) -> Option<Server> {
        Server::start_with(folder, None)
    }

    /// As [`Server::start`]; with a port it listens on this machine, too.
    pub(crate) fn start_at(port: Option<u16>) -> Option<Server> {
        Server::start_with(Path::new("/tmp"), port)
    }

    fn start_with(folder: &Path, port: Option<u16>) -> Option<Server> {
        let options = port.map(|port| format!("-c listen_addresses=127.0.0.1 -p {port}")).unwrap_or_default();
        let port = port.unwrap_or(5432);
        let wish = std::env::var("HARN_POSTGRES").unwrap_or_default();
        if wish == "skip" {
            return None;
        }
        let Some(bin) = programs() else {
            assert!(wish.is_empty(), "there is no PostgreSQL server here");
            eprintln!(
                "skipped: no PostgreSQL server is installed (`make postgres` installs one from Debian's packages)"
            );
            return None;
        };
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
            use std::os::unix::fs::MetadataExt as _;
            own.uid() == 0
        });
        let mut command = if is_root {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "sh",
                "-c",
                KEEPER,
                "keeper",
            ]);
            command
        } else {
            let mut command = Command::new("sh");
            command.args(["-c", KEEPER, "keeper"]);
            command
        };
        let mut keeper = command
            .arg(&bin)
            .arg(options)
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the keeper of the server");
        let stdin = keeper.stdin.take().expect("its input");
        let mut stdout = BufReader::new(keeper.stdout.take().expect("its output"));
        let mut folder = String::new();
        stdout.read_line(&mut folder).expect("the folder of the server");
        assert!(!folder.is_empty(), "the server cannot be set up");
        Some(Server { keeper, lines: Some((stdin, stdout)), folder: folder.trim().into(), port, bin })
    }

    /// Tells the keeper to `start`, `stop` or `crash` the server, or where the files for `tls` are; waits until it is done.
    pub(crate) fn tell(&mut self, what: &str) {
        let (stdin, stdout) = self.lines.as_mut().expect("the keeper");
        writeln!(stdin, "{what}").expect("the keeper listens");
        stdout.read_line(&mut String::new()).expect("the keeper answers");
    }

    /// The folder with the socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://harn@{}/{database}", self.folder.display().to_string().replace('/', "%2F"))
    }

    /// Makes an empty database; gives its address.
    pub(crate) fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs statements; gives the rows that they show.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let ran = Command::new(self.bin.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "harn", "-d", database, "-c", sql])
            .arg("-h")
            .arg(&self.folder)
            .args(["-p", &self.port.to_string()])
            .output()
            .expect("psql");
        assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }
}

/// The name of a database in its address.
pub(crate) fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// The server of a test process, which its tests share.
static SHARED: OnceLock<Option<Mutex<Server>>> = OnceLock::new();

/// The shared server; `None` on a machine without one.
pub(crate) fn shared() -> Option<MutexGuard<'static, Server>> {
    let shared = SHARED.get_or_init(|| Server::start().map(Mutex::new)).as_ref()?;
    Some(shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// An empty database on the shared server.
pub(crate) fn database() -> Option<String> {
    shared().map(|server| server.database())
}
