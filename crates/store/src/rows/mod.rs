//! What goes in and out of a store.

mod commit;
mod note;
mod permission;
mod record;
mod run;
mod thread;
mod token;

pub use commit::*;
pub use note::*;
pub use permission::*;
pub use record::*;
pub use run::*;
pub use thread::*;
pub use token::*;
