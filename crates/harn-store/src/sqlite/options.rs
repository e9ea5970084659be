//! Options of a file.

use std::time::Duration;

/// The events that an answered write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, of the system and of the power: each group of writes waits for the disk.
    #[default]
    PowerCut,
    /// The end of the process. After a power cut the file is whole, but its newest writes may be missing.
    Crash,
}

/// Options of a file.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The events that an answered write survives.
    pub durability: Durability,
    /// How long to wait for other processes that write.
    pub busy_timeout: Duration,
    /// The largest size of the file in bytes; more is [`crate::Error::Full`]. Without one the disk is the limit.
    pub max_bytes: Option<u64>,
    /// Opens a file whose log has lost acknowledged writes, with the remaining data. Otherwise it is
    /// [`crate::Error::Corrupt`].
    pub repairs: bool,
    /// Opens an existing file for reading, and changes nothing.
    pub reads: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            busy_timeout: Duration::from_secs(10),
            max_bytes: None,
            repairs: false,
            reads: false,
        }
    }
}
