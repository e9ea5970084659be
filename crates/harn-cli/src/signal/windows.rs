//! Console events on Windows.

use std::io;

use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

use super::{SIGINT, SIGTERM};

/// Calls a function on a new thread with the signal number that represents each event.
pub(super) fn each(on_signal: impl FnMut(i32) + Send + 'static) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let _ = std::thread::Builder::new()
        .name("signals".to_owned())
        .stack_size(256 << 10)
        .spawn(move || runtime.block_on(listen(on_signal)));
}

async fn listen(mut on_signal: impl FnMut(i32)) -> io::Result<()> {
    let (mut interrupt, mut stop) = (ctrl_c()?, ctrl_break()?);
    let (mut close, mut shutdown) = (ctrl_close()?, ctrl_shutdown()?);
    loop {
        let signal = tokio::select! {
            biased;
            _ = interrupt.recv() => SIGINT,
            _ = stop.recv() => SIGTERM,
            _ = close.recv() => SIGTERM,
            _ = shutdown.recv() => SIGTERM,
        };
        on_signal(signal);
    }
}
