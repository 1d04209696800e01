//! Limits of calls to providers, decided in the database for all servers.

use std::sync::Arc;

use async_trait::async_trait;
use call_limits::{CallLimits, Decision, LEASE_MS, POLL_MS, Report, Unavailable};
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::read::number;
use crate::text;

/// Waits at most once for the database: everything is one statement.
pub(crate) struct PostgresLimits {
    pub(crate) database: Arc<Database>,
}

const SQL: &str = "SELECT granted_users, granted, is_probe, open_for_ms, again_ms
    FROM baton_call_limits($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

#[async_trait]
impl CallLimits for PostgresLimits {
    async fn exchange(&self, report: Report) -> Result<Decision, Unavailable> {
        let limit = &report.limit;
        let rate = limit.rate();
        let numbers = [
            i64::from(limit.calls_max),
            i64::from(limit.failures_max),
            number(limit.open_ms),
            number(limit.retry_ms()),
            number(limit.probe_ms()),
            number(LEASE_MS),
            number(POLL_MS),
            i64::from(report.ended.failures),
        ];
        let users: Vec<String> = report.users.iter().map(|calls| text::encode(&calls.user).into_owned()).collect();
        let running: Vec<i64> = report.users.iter().map(|calls| i64::from(calls.running)).collect();
        let waiting: Vec<i64> = report.users.iter().map(|calls| i64::from(calls.waiting)).collect();
        let (burst, per_ms) = (rate.map(|rate| rate.0), rate.map(|rate| rate.1));
        let [calls_max, failures_max, open_ms, retry_ms, probe_ms, lease_ms, poll_ms, failures] = &numbers;
        let params: [&(dyn ToSql + Sync); 16] = [
            &limit.name,
            &report.member,
            calls_max,
            &burst,
            &per_ms,
            failures_max,
            open_ms,
            retry_ms,
            probe_ms,
            lease_ms,
            poll_ms,
            &users,
            &running,
            &waiting,
            &report.ended.has_answer,
            failures,
        ];
        let row = self.database.query_opt(SQL, &params).await.map_err(|error| Unavailable(error.to_string()))?;
        let row = row.ok_or_else(|| Unavailable("the database gave no decision".to_owned()))?;
        let granted_users: Option<Vec<String>> = row.get(0);
        let granted: Option<Vec<i64>> = row.get(1);
        let grants = granted_users.unwrap_or_default().into_iter().map(text::decode).zip(granted.unwrap_or_default());
        let ms = |column: usize| row.get::<_, Option<i64>>(column).map(|ms| u64::try_from(ms).unwrap_or(0));
        Ok(Decision {
            grants: grants.map(|(user, count)| (user, u32::try_from(count).unwrap_or(0))).collect(),
            is_probe: row.get(2),
            open_for_ms: ms(3),
            again_ms: ms(4),
        })
    }
}
