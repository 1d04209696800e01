//! Postgres' errors in the terms of `StoreError`.

use store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What a failed statement means for the write it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection is gone or the server is shutting down: connect again.
    Lost,
    /// Two transactions were in each other's way: run this one again.
    Collision,
    /// It will fail again.
    Final,
}

pub(crate) fn kind(error: &Error) -> Kind {
    let Some(state) = error.code() else {
        // Errors without a code are the connection's, except for values that do not fit a column.
        return if error.is_closed() || is_io(error) { Kind::Lost } else { Kind::Final };
    };
    match state {
        state if state.code().starts_with("08") => Kind::Lost,
        // A server that has started but cannot take connections or writes yet, or is going down.
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::TOO_MANY_CONNECTIONS => Kind::Lost,
        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::UNIQUE_VIOLATION | &SqlState::LOCK_NOT_AVAILABLE => {
            Kind::Collision
        }
        // "cached plan must not change result type", after a migration: statements are prepared again on a new connection.
        &SqlState::FEATURE_NOT_SUPPORTED => Kind::Lost,
        _ => Kind::Final,
    }
}

fn is_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// `name` is the database without its password.
pub(crate) fn to_store_error(error: &Error, name: &str) -> StoreError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => StoreError::Full { path: name.to_owned() },
        Some(&SqlState::QUERY_CANCELED) => {
            StoreError::Database(format!("a statement on {name} took longer than its limit; `statement_timeout_s` in [store] sets it"))
        }
        Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => StoreError::Database(format!("a name or value is too long for Postgres: {}", detail(error))),
        _ if kind(error) == Kind::Lost => unreachable(name, &detail(error)),
        _ => StoreError::Database(detail(error)),
    }
}

pub(crate) fn unreachable(name: &str, why: &str) -> StoreError {
    StoreError::Unreachable { name: name.to_owned(), why: why.to_owned() }
}

/// The outermost message of tokio-postgres is only "db error".
pub(crate) fn detail(error: &Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
