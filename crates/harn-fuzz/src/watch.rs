//! The parent that watches a fuzzing child, and the loop of the child.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::rng::Rng;
use crate::target::Target;
use crate::{corpus, mutate};

/// CPU time after which an input is treated as hanging, if it does so again when run alone. CPU time is used
/// because the machine may be busy with other processes.
const HANG: Duration = Duration::from_secs(20);

/// Wall-clock limit, for an input that waits forever and uses no CPU time.
const STUCK: Duration = Duration::from_secs(300);

/// Limit of resident memory in bytes. More is unbounded growth: the largest input has 64 KiB.
const MAX_RESIDENT_BYTES: u64 = 3 << 30;

/// Runs inputs beginning with number `first` until the parent ends the process. Before each input, its number is
/// written to the counter file; the copy of the corpus is stored next to that file.
pub(crate) fn run_child(target: &Target, seed: u64, first: u64, counter: &Path) -> ExitCode {
    let copy = copy_beside(counter);
    let corpus = match corpus::read_copy(&copy) {
        Ok(corpus) => corpus,
        Err(e) => {
            eprintln!("error: cannot read {}: {e}", copy.display());
            return ExitCode::FAILURE;
        }
    };
    let mut counter = match File::create(counter) {
        Ok(file) => file,
        Err(e) => {
            eprintln!("error: cannot write {}: {e}", counter.display());
            return ExitCode::FAILURE;
        }
    };
    for index in first.. {
        let noted = counter.seek(SeekFrom::Start(0)).and_then(|_| counter.write_all(&index.to_le_bytes()));
        if noted.is_err() {
            return ExitCode::FAILURE;
        }
        (target.check)(&input(target, &corpus, seed, index));
    }
    ExitCode::SUCCESS
}

/// Returns input number `index`: an unchanged file of the corpus, a generated input, or a mutation of one of them.
fn input(target: &Target, corpus: &[Vec<u8>], seed: u64, index: u64) -> Vec<u8> {
    if let Some(kept) = corpus.get(index as usize) {
        return kept.clone();
    }
    let mut rng = Rng::new(seed, index);
    let known = |rng: &mut Rng| corpus.get(rng.below(corpus.len())).cloned().unwrap_or_default();
    match rng.below(4) {
        0 => (target.generate)(&mut rng),
        1 => {
            let text = (target.generate)(&mut rng);
            let other = known(&mut rng);
            mutate::mutate(&mut rng, &text, &other)
        }
        _ => {
            let (text, other) = (known(&mut rng), known(&mut rng));
            mutate::mutate(&mut rng, &text, &other)
        }
    }
}

fn copy_beside(counter: &Path) -> PathBuf {
    counter.with_extension("corpus")
}

/// Watches children that run the target for a time; returns false if one of them found something.
pub(crate) fn run_parent(target: &Target, root: &Path, seed: u64, seconds: u64) -> bool {
    let counter = std::env::temp_dir().join(format!("harn-fuzz-{}-{}", target.name, std::process::id()));
    let corpus = corpus::read(root, target.corpus, target.extension);
    let copy = copy_beside(&counter);
    if let Err(e) = corpus::write_copy(&corpus, &copy) {
        println!("{:10} cannot write {}: {e}", target.name, copy.display());
        return false;
    }
    let clean = run_children(target, root, &corpus, seed, seconds, &counter);
    for file in [&counter, &copy] {
        let _ = fs::remove_file(file);
    }
    clean
}

fn run_children(
    target: &Target,
    root: &Path,
    corpus: &[Vec<u8>],
    seed: u64,
    seconds: u64,
    counter: &Path,
) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut first = 0;
    let kept = loop {
        let outcome = watch(target, seed, first, counter, end);
        let tried = read_counter(counter);
        let what = match outcome {
            Ok(()) => {
                println!("{:10} {tried} inputs in {seconds} s, nothing found", target.name);
                return true;
            }
            Err(what) => what,
        };
        let kept = keep(root, target, &input(target, corpus, seed, tried), &what);
        if let (Finding::Hang, Ok(path)) = (&what, &kept)
            && ends_alone(target, path)
        {
            let _ = fs::remove_file(path);
            first = tried + 1;
            continue;
        }
        println!("{:10} FOUND after {tried} inputs: {what}", target.name);
        break kept;
    };
    match kept {
        Ok(path) => println!("{:10} the input is kept in {}", "", path.display()),
        Err(e) => println!("{:10} the input could not be kept: {e}", ""),
    }
    false
}

/// The problem found by a child.
enum Finding {
    /// It crashed with this output, or used too much memory.
    Fault { what: String, said: String },
    /// It hung.
    Hang,
}

impl Finding {
    fn fault(what: String) -> Finding {
        Finding::Fault { what, said: String::new() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Finding::Fault { what, said } => {
                let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
                write!(f, "{what}{}", lines[lines.len().saturating_sub(4)..].join(" | "))
            }
            Finding::Hang => write!(f, "one input takes longer than {} s", HANG.as_secs()),
        }
    }
}

/// Watches a child that begins with input number `first`.
fn watch(target: &Target, seed: u64, first: u64, counter: &Path, end: Instant) -> Result<(), Finding> {
    let mut child = start(target, seed, first, counter)
        .map_err(|e| Finding::fault(format!("cannot start a child: {e}")))?;
    let words = listen(&mut child);
    let mut last = (u64::MAX, Watch::start(child.id()));
    let finding = loop {
        std::thread::sleep(Duration::from_millis(50));
        if let Ok(Some(status)) = child.try_wait() {
            let said = String::from_utf8_lossy(&words.join().unwrap_or_default()).into_owned();
            return Err(Finding::Fault { what: format!("the process ended ({status}): "), said });
        }
        let tried = read_counter(counter);
        if tried != last.0 {
            last = (tried, Watch::start(child.id()));
        }
        if resident_bytes(child.id()) > MAX_RESIDENT_BYTES {
            break Err(Finding::fault("memory grows without bound".to_owned()));
        }
        if last.1.hangs() {
            break Err(Finding::Hang);
        }
        if Instant::now() > end && !last.1.is_slow() {
            break Ok(());
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    finding
}

/// Returns whether the input in a file finishes in time when it is run alone.
fn ends_alone(target: &Target, input: &Path) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let child = Command::new(program)
        .args([target.name, "--input"])
        .arg(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let watch = Watch::start(child.id());
    while !watch.hangs() {
        if let Ok(Some(status)) = child.try_wait() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

fn start(target: &Target, seed: u64, first: u64, counter: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args([target.name, "--seed", &seed.to_string(), "--child"])
        .arg(counter)
        .arg(first.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Maximum size of the retained end of a child's error output, in bytes.
const SAID: usize = 1 << 16;

/// Reads the standard error of a child continuously. Otherwise the pipe would fill up and block the child.
fn listen(child: &mut Child) -> JoinHandle<Vec<u8>> {
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        let Some(mut stderr) = stderr else { return text };
        while let Ok(n @ 1..) = stderr.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
            let old = text.len().saturating_sub(SAID);
            text.drain(..old);
        }
        text
    })
}

fn read_counter(path: &Path) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_ok() { u64::from_le_bytes(bytes) } else { 0 }
}

/// The time since a process started the current input.
struct Watch {
    process: u32,
    begin: Instant,
    cpu: Duration,
}

impl Watch {
    fn start(process: u32) -> Watch {
        Watch { process, begin: Instant::now(), cpu: cpu_time(process).unwrap_or_default() }
    }

    /// Returns the CPU time used so far; the wall-clock time if the system does not report it.
    fn taken(&self) -> Duration {
        cpu_time(self.process).map_or_else(|| self.begin.elapsed(), |now| now.saturating_sub(self.cpu))
    }

    fn hangs(&self) -> bool {
        self.taken() > HANG || self.begin.elapsed() > STUCK
    }

    /// Returns whether it may turn out to hang.
    fn is_slow(&self) -> bool {
        self.taken() > HANG / 4
    }
}

/// Returns the CPU time of a process.
fn cpu_time(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name in parentheses: the state and ten numbers, then ticks of 10 ms in user mode and in the kernel.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

/// Returns the resident memory of a process; 0 if the system does not report it.
fn resident_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Saves an input together with the error output of the child: the cause may be something other than the input.
fn keep(root: &Path, target: &Target, bytes: &[u8], what: &Finding) -> std::io::Result<PathBuf> {
    let folder = root.join("artifacts");
    fs::create_dir_all(&folder)?;
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let path = folder.join(format!("{}-{hash:016x}", target.name));
    fs::write(&path, bytes)?;
    if let Finding::Fault { said, .. } = what {
        fs::write(path.with_extension("txt"), said)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_corpus() {
        let path = std::env::temp_dir().join(format!("harn-fuzz-copy-{}", std::process::id()));
        let texts = vec![b"a".to_vec(), Vec::new(), [0, 255, b'\n'].repeat(400)];
        corpus::write_copy(&texts, &path).expect("a copy");
        assert_eq!(corpus::read_copy(&path).expect("it"), texts);
        fs::write(&path, [9, 0, 0, 0, 0, 0, 0, 0, 1]).expect("a torn one");
        assert!(corpus::read_copy(&path).is_err());
        fs::remove_file(&path).expect("gone");
    }

    #[test]
    fn a_child_that_says_much_does_not_wait() {
        let mut child = Command::new("sh")
            .args(["-c", "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let words = listen(&mut child);
        assert!(child.wait().expect("its end").success());
        let said = String::from_utf8_lossy(&words.join().expect("its words")).into_owned();
        assert!(said.len() <= SAID && said.ends_with("\nlast\n"));
        let finding = Finding::Fault { what: "it ended: ".to_owned(), said };
        assert!(finding.to_string().ends_with("| last"));
    }
}
