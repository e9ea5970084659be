//! `harn lsp`: the language server, on standard input and output.

use std::io::{self, BufRead};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harn_lsp::Ended;
use lsp_server::{Connection, Message};

use crate::editor_host::MachineHost;

/// Maximum number of queued messages. When the queue is full, the editor is not read.
const WAITING: usize = 256;

/// How long to wait for the editor to receive the pending messages after a broken session.
const GRACE: Duration = Duration::from_secs(1);

/// Serves an editor. Returns 0 if it ended the session with `exit`.
#[expect(clippy::disallowed_methods, reason = "messages are no output of a program")]
pub(crate) fn lsp() -> u8 {
    let (server, editor) = Connection::memory();
    let Connection { sender: heard, receiver: said } = editor;
    let broken: Arc<Mutex<Option<String>>> = Arc::default();
    let why = broken.clone();
    // This thread is not joined: it may be blocked in a read that nothing ends.
    std::thread::spawn(move || {
        let listened = listen(&mut io::stdin().lock(), |message| {
            while heard.len() > WAITING {
                std::thread::sleep(Duration::from_millis(1));
            }
            heard.send(message).is_ok()
        });
        // Set before `heard` is dropped, which ends the session.
        *why.lock().unwrap_or_else(PoisonError::into_inner) = listened.err().map(|error| error.to_string());
        drop(heard);
    });
    let writer =
        std::thread::spawn(move || said.into_iter().try_for_each(|message| message.write(&mut io::stdout())));
    let ended = harn_lsp::serve(&server, &MachineHost::new());
    drop(server);
    let mut problem = broken.lock().unwrap_or_else(PoisonError::into_inner).take();
    match ended {
        Ok(Ended::Well) => {
            let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            problem = problem.or(written.err().map(|error| error.to_string()));
        }
        ended => {
            let tries = 100;
            for _ in 0..tries {
                if writer.is_finished() {
                    break;
                }
                std::thread::sleep(GRACE / tries);
            }
            problem = problem.or(ended.err());
            if problem.is_none() {
                return 1;
            }
        }
    }
    match problem {
        None => 0,
        Some(problem) => {
            eprintln!("{}", harn_syntax::error_line(&problem));
            1
        }
    }
}

/// Reads messages until the input ends or the receiver is gone.
fn listen(input: &mut impl BufRead, mut tell: impl FnMut(Message) -> bool) -> io::Result<()> {
    while let Some(body) = harn_lsp::read_frame(input)? {
        let message = serde_json::from_slice(&body).map_err(|why| {
            let text = format!("a message is neither request nor notification nor answer: {why}");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        if !tell(message) {
            break;
        }
    }
    Ok(())
}
