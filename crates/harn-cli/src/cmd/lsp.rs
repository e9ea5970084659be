//! `harn lsp`: the language server, on standard input and output.

use harn_lsp::Ended;
use lsp_server::Connection;

use crate::editor_host::MachineHost;

/// Serves an editor; 0 when it said goodbye.
pub(crate) fn lsp() -> u8 {
    let (connection, threads) = Connection::stdio();
    let ended = harn_lsp::serve(&connection, &MachineHost::new());
    drop(connection);
    // A thread that still reads has nobody who would end it.
    if ended == Ok(Ended::Well)
        && let Err(error) = threads.join()
    {
        eprintln!("error: {error}");
        return 1;
    }
    match ended {
        Ok(Ended::Well) => 0,
        Ok(Ended::Lost) => 1,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    }
}
