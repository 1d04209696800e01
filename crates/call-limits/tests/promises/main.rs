//! The promises of call limits, kept by the implementation for one process. `store-postgres` has the same list for several servers.
#![allow(clippy::unwrap_used)]

mod calls;

use std::sync::Arc;
use std::time::Instant;

use baton_call_limits::{CallLimits, LocalLimits};

include!("list.rs");

call_limits_tests!(local, crate::local_limits);

async fn local_limits() -> Arc<dyn CallLimits> {
    let start = Instant::now();
    Arc::new(LocalLimits::new(move || u64::try_from(start.elapsed().as_millis()).unwrap()))
}
