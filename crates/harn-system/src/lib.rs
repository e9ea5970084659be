//! The system layer: files, processes, network, clocks, randomness, environment and standard streams behind one trait.
//!
//! - [`System`] is the trait. [`Real`] is the machine, [`Memory`] an in-memory system for tests.
//! - [`Layer`]s wrap a system: [`Permitted`] rejects operations, [`Capture`] captures output, [`Recorder`] records
//!   accessed resources.
//! - [`guard`] defines the paths that must not be removed, moved or replaced.

mod capture;
mod confine;
mod egress;
mod file;
pub mod guard;
mod links;
mod memory;
mod net;
mod os;
mod peer;
mod people;
mod permit;
mod process;
pub mod real;
mod record;
mod ruled;
pub mod secret;
mod socket;
mod system;
mod token;
mod wait;

pub use capture::Capture;
pub use egress::{Blocked, Egress, EgressRule};
pub use file::{Draft, Facts, Kind, Lock, MoveError};
pub use guard::Protected;
pub use links::real_path;
pub use memory::Memory;
pub use net::{Body, HttpError, HttpErrorKind, HttpReply, HttpRequest, Payload, Resolver, Tls};
pub use peer::{Peer, PeerRequest, PeerStep};
pub use people::{Asked, Inquiry, Reply};
pub use permit::{Ceiling, Level, Permitted, Refusal, absolute_roots};
pub use process::{Command, Finished, InDoubt};
pub use real::{Real, secret_variables};
pub use record::{Recorder, Touched};
pub use ruled::Ruled;
pub use secret::{is_secret_header, is_secret_variable};
pub use socket::{Frame, Socket};
pub use system::{Beside, Layer, Outside, Stream, System, SystemExt, Work};
pub use token::token_directory;
pub use wait::{Uncertain, Waiting};
