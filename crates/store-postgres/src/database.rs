//! Connections: for the writer and the listener one each, for readers a pool.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use store::{Result, StoreError};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Connection, Error, Row, Socket, Statement};

use crate::address::Address;
use crate::error::{Kind, detail, kind, to_store_error, unreachable};
use crate::tls::{Stream, Tls};
use crate::{PostgresSettings, migrate};

/// How long a read waits for a connection of the pool.
const POOL_WAIT_MAX: Duration = Duration::from_secs(30);
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
/// A transaction that its client does not end is ended by the server, so that its locks do not stay.
const IDLE_TRANSACTION_MAX: Duration = Duration::from_secs(15);

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(crate) struct Database {
    address: Address,
    tls: Tls,
    session_sql: String,
    pool: Pool,
}

impl Database {
    /// Connects once, to say at once what is wrong, and brings the tables up to date.
    pub(crate) async fn open(address: Address, settings: &PostgresSettings) -> Result<Database> {
        let name = address.to_string();
        let needs_tls = address.config.get_ssl_mode() != SslMode::Disable;
        let tls = Tls::new(needs_tls, address.authorities.as_deref()).map_err(|why| StoreError::Open { path: name.clone(), why })?;
        let session_sql = session_sql(settings);
        let manager = Manager::from_config(address.config.clone(), tls.clone(), ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let prepare = session_sql.clone();
        let hook = Hook::async_fn(move |client, _| {
            let sql = prepare.clone();
            Box::pin(async move { client.batch_execute(&sql).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager)
            .max_size(settings.readers_max)
            .wait_timeout(Some(POOL_WAIT_MAX))
            .create_timeout(Some(POOL_WAIT_MAX))
            .recycle_timeout(Some(LOCK_WAIT_MAX))
            .runtime(Runtime::Tokio1)
            .post_create(hook)
            .build()
            .map_err(|error| StoreError::Open { path: name.clone(), why: error.to_string() })?;
        let database = Database { address, tls, session_sql, pool };
        let mut session = database.session().await.map_err(|error| StoreError::Open { path: name.clone(), why: explain(&error) })?;
        migrate::migrate(&mut session.client, &name).await?;
        Ok(database)
    }

    /// The database without its password.
    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    pub(crate) async fn connect(&self) -> std::result::Result<(Client, Connection<Socket, Stream<Socket>>), Error> {
        self.address.config.connect(self.tls.clone()).await
    }

    /// A connection of the caller's own, whose socket is served by a task.
    pub(crate) async fn session(&self) -> std::result::Result<Session, Error> {
        let (client, connection) = self.connect().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to the database ended: {}", detail(&error));
            }
        });
        client.batch_execute(&self.session_sql).await?;
        Ok(Session { client, statements: HashMap::new() })
    }

    pub(crate) fn session_sql(&self) -> &str {
        &self.session_sql
    }

    /// Reads rows. A connection that was lost while it was idle is replaced once.
    pub(crate) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>> {
        let mut is_again = false;
        loop {
            let error = match self.query_once(sql, params).await? {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            if is_again || kind(&error) != Kind::Lost {
                return Err(to_store_error(&error, &self.name()));
            }
            is_again = true;
        }
    }

    async fn query_once(&self, sql: &str, params: Params<'_>) -> Result<std::result::Result<Vec<Row>, Error>> {
        let client = match self.pool.get().await {
            Ok(client) => client,
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => return Ok(Err(error)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                let why = format!("all connections for reading were busy for {} s", POOL_WAIT_MAX.as_secs());
                return Err(unreachable(&self.name(), &why));
            }
            Err(PoolError::Closed) => return Err(StoreError::Closed),
            Err(other) => return Err(unreachable(&self.name(), &other.to_string())),
        };
        let statement = match client.prepare_cached(sql).await {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(error)),
        };
        Ok(client.query(&statement, params).await)
    }

    pub(crate) async fn query_opt(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// The server's time of day when `steady_ms` was 0, in milliseconds since 1970: leases of several machines need one clock.
    pub(crate) async fn clock_offset_ms(&self) -> Result<i64> {
        let before_ms = steady_ms();
        let row = self.query_opt("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[]).await?;
        let there_ms: i64 = row.map_or(0, |row| row.get(0));
        let here_ms = before_ms + (steady_ms() - before_ms) / 2;
        Ok(there_ms - here_ms)
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// A connection without limits of time, for benchmarks.
pub(crate) async fn connect_to(address: &Address) -> Result<Client> {
    let open = |why: String| StoreError::Open { path: address.to_string(), why };
    let tls = Tls::new(address.config.get_ssl_mode() != SslMode::Disable, address.authorities.as_deref()).map_err(open)?;
    let (client, connection) = address.config.connect(tls).await.map_err(|error| open(explain(&error)))?;
    tokio::spawn(connection);
    Ok(client)
}

pub(crate) struct Session {
    pub(crate) client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Session {
    pub(crate) async fn prepare(&mut self, sql: &'static str) -> std::result::Result<Statement, Error> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

fn session_sql(settings: &PostgresSettings) -> String {
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET client_min_messages = warning;
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        settings.statement_max.as_millis(),
        LOCK_WAIT_MAX.as_millis(),
        IDLE_TRANSACTION_MAX.as_millis(),
    )
}

/// What a person can do about a connection that cannot be made.
fn explain(error: &Error) -> String {
    let why = detail(error);
    let advice = match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("28P01" | "28000") => "; set the password in BATON_STORE_PASSWORD, or name a file with `password_file` in [store]",
        Some("3D000") => "; create it with `createdb`",
        Some(_) => "",
        None if why.contains("password missing") => "; set it in BATON_STORE_PASSWORD, or name a file with `password_file` in [store]",
        None if why.contains("server does not support TLS") => "; add ?sslmode=disable to the URL if the network is trusted",
        None if why.contains("certificate") => "; name the authority's certificate with ?sslrootcert=FILE",
        None => "; is Postgres running there?",
    };
    format!("{why}{advice}")
}

/// Milliseconds since the first call, by a clock that never jumps: this machine's time of day may be set while runs go.
pub(crate) fn steady_ms() -> i64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    i64::try_from(FIRST.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(i64::MAX)
}
