//! The promises of `store`, kept by Postgres: the same list and the same functions as for SQLite. `lab/peers/postgres` starts a database for them.
#![allow(clippy::unwrap_used)]

// The name that the promises use.
extern crate call_limits as baton_call_limits;
extern crate store as baton_store;

#[path = "../../../store/tests/promises/beginnings.rs"]
mod beginnings;
#[path = "../../../call-limits/tests/promises/calls.rs"]
mod calls;
#[path = "../../../store/tests/promises/cards.rs"]
mod cards;
#[path = "../../../store/tests/promises/commits.rs"]
mod commits;
mod connections;
#[path = "../../../store/tests/promises/hand.rs"]
mod hand;
#[path = "../../../store/tests/promises/leases.rs"]
mod leases;
#[path = "../../../store/tests/promises/lists.rs"]
mod lists;
#[path = "../../../store/tests/promises/notes.rs"]
mod notes;
#[path = "../../../store/tests/promises/permissions.rs"]
mod permissions;
#[path = "../../../store/tests/promises/records.rs"]
mod records;
#[path = "../../../store/tests/promises/retention.rs"]
mod retention;
mod several;
#[path = "../../../store/tests/promises/signals.rs"]
mod signals;
mod throwaway;
#[path = "../../../store/tests/promises/tokens.rs"]
mod tokens;

use std::sync::Arc;

use baton_call_limits::{CallLimits, Decision, Report, Unavailable};
use baton_store::Store;
use baton_store_postgres::PostgresStore;

include!("../../../store/tests/promises/list.rs");

home!(postgres, crate::postgres_home);

include!("../../../call-limits/tests/promises/list.rs");

call_limits_tests!(postgres_calls, crate::postgres_limits);

async fn postgres_limits() -> Arc<dyn CallLimits> {
    let schema = throwaway::Schema::new().await;
    Arc::new(TwoServers { left: schema.open().await, right: schema.open().await })
}

/// Each member reports over the connections of its own store, as servers do.
struct TwoServers {
    left: PostgresStore,
    right: PostgresStore,
}

#[async_trait::async_trait]
impl CallLimits for TwoServers {
    async fn exchange(&self, report: Report) -> Result<Decision, Unavailable> {
        let store = if report.member == "left" { &self.left } else { &self.right };
        store.call_limits().unwrap().exchange(report).await
    }
}

struct TestStore {
    store: Arc<dyn Store>,
}

async fn postgres_home() -> TestStore {
    TestStore { store: Arc::new(throwaway::Schema::new().await.open().await) }
}
