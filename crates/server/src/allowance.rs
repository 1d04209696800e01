//! What users have spent today, and whether they may go on: dollars, tokens and runs, by the day of UTC.
//!
//! What runs that are over have spent is summed from the store when a user is seen for the first time in a day; from then on each reply that is performed here
//! adds to it. So a budget holds for all runs of a user together, also for those that go at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use graph::{Usage, UserId};
use store::{RunFilter, Store};

use crate::guard::now_ms;
use crate::oidc;
use crate::problem::Problem;
use crate::rights::{Rights, SERVERS_MODEL, Users};

const DAY_MS: i64 = 86_400_000;
/// Runs that are read at once.
const PAGE: usize = 500;
/// Of a run in a page.
const OUTCOME_BYTES_MAX: usize = 16 << 10;
/// Users that are remembered; the others are summed again.
const USERS_MAX: usize = 10_000;

/// Cheap to clone.
#[derive(Clone)]
pub struct Allowances(Arc<Inner>);

struct Inner {
    users: Users,
    store: Arc<dyn Store>,
    /// The model of runs that name none.
    servers_model: RwLock<Option<String>>,
    today: Mutex<HashMap<UserId, Day>>,
    /// What users may do, with the groups of their last sign-in; of everybody else the configuration alone decides.
    signed_in: Mutex<HashMap<UserId, Arc<Rights>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Day {
    day: i64,
    spent: Spent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) usd_micros: u64,
    pub(crate) tokens: u64,
    pub(crate) runs: u64,
}

impl Spent {
    fn add(&mut self, usage: &Usage) {
        self.usd_micros = self.usd_micros.saturating_add(usage.usd_micros);
        self.tokens = self.tokens.saturating_add(usage.tokens());
    }
}

impl Allowances {
    /// Rights from the configuration, and today's use from the store; `servers_model` is the model of runs that name none.
    pub fn new(users: Users, store: Arc<dyn Store>, servers_model: Option<String>) -> Allowances {
        let servers_model = RwLock::new(servers_model);
        Allowances(Arc::new(Inner { users, store, servers_model, today: Mutex::default(), signed_in: Mutex::default() }))
    }

    /// Runs that name no model have another one from now on.
    pub fn set_servers_model(&self, model: &str) {
        *self.0.servers_model.write().unwrap_or_else(PoisonError::into_inner) = Some(model.to_owned());
    }

    /// The rights of a user, with the groups of the last sign-in.
    pub fn rights(&self, user: &UserId) -> Arc<Rights> {
        let signed_in = self.0.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        signed_in.get(user).cloned().unwrap_or_else(|| Arc::new(self.0.users.of(user, &[])))
    }

    /// Sets the groups of a user, from the provider's claims at a sign-in.
    pub(crate) fn set_groups(&self, user: &UserId, groups: &[String]) {
        let mut signed_in = self.0.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        match groups.is_empty() {
            true => drop(signed_in.remove(user)),
            false => drop(signed_in.insert(user.clone(), Arc::new(self.0.users.of(user, groups)))),
        }
    }

    /// The groups of all users, so that runs that are resumed have their rights before anybody signs in.
    pub async fn load_groups(&self) -> Result<(), Problem> {
        for (user, groups) in oidc::load(&*self.0.store).await? {
            self.set_groups(&user, &groups);
        }
        Ok(())
    }

    /// Whether a run may be performed with this model; `None` is the server's own.
    pub fn may_use_model(&self, user: &UserId, model: Option<&str>) -> Result<(), String> {
        let own = self.0.servers_model.read().unwrap_or_else(PoisonError::into_inner).clone();
        let own = own.as_deref();
        let model = model.or(own).unwrap_or(SERVERS_MODEL);
        let rights = self.rights(user);
        match rights.may_use_model(model, own) {
            true => Ok(()),
            false => {
                let allowed = rights.models.as_deref().unwrap_or_default().join(", ");
                Err(format!("the model {model} is not open to {user}; these are: {allowed}"))
            }
        }
    }

    /// What a user has spent today.
    pub(crate) async fn spent(&self, user: &UserId) -> Result<Spent, store::StoreError> {
        let day = now_ms().div_euclid(DAY_MS);
        if let Some(known) = self.today().get(user).filter(|known| known.day == day) {
            return Ok(known.spent);
        }
        let before = self.sum(user, day * DAY_MS).await?;
        let mut today = self.today();
        if today.len() >= USERS_MAX {
            today.clear();
        }
        // Another request may have been quicker, and its run has been counted.
        let known = today.entry(user.clone()).or_default();
        if known.day != day {
            *known = Day { day, spent: before };
        }
        Ok(known.spent)
    }

    /// Why a user may spend no more today, if that is so. Runs are counted when they start.
    pub async fn refusal(&self, user: &UserId) -> Result<Option<String>, store::StoreError> {
        let rights = self.rights(user);
        if !rights.has_budget() {
            return Ok(None);
        }
        let spent = self.spent(user).await?;
        let is_over = |spent: u64, max: Option<u64>| max.is_some_and(|max| spent >= max);
        let why = if is_over(spent.usd_micros, rights.usd_micros_per_day()) {
            format!("${:.2} of {user}", rights.usd_per_day.unwrap_or_default())
        } else if is_over(spent.tokens, rights.tokens_per_day) {
            format!("{} tokens of {user}", rights.tokens_per_day.unwrap_or_default())
        } else {
            return Ok(None);
        };
        Ok(Some(format!(
            "the {why} for today are spent; the next day begins at midnight UTC, and the operator sets how much ([users] in the configuration)"
        )))
    }

    /// Counts runs that are about to start; the error is why they may not.
    pub async fn begin(&self, user: &UserId, runs: u64) -> Result<Option<String>, store::StoreError> {
        if !self.rights(user).has_budget() {
            return Ok(None);
        }
        if let Some(why) = self.refusal(user).await? {
            return Ok(Some(why));
        }
        let max = self.rights(user).runs_per_day;
        let mut today = self.today();
        let Some(known) = today.get_mut(user) else { return Ok(None) };
        match max.filter(|max| known.spent.runs + runs > *max) {
            Some(max) => Ok(Some(format!("the {max} runs of {user} for today are used up; the next day begins at midnight UTC"))),
            None => {
                known.spent.runs += runs;
                Ok(None)
            }
        }
    }

    /// Adds what an effect cost.
    pub fn add(&self, user: &UserId, usage: &Usage) {
        if usage.is_zero() || !self.rights(user).has_budget() {
            return;
        }
        if let Some(known) = self.today().get_mut(user) {
            known.spent.add(usage);
        }
    }

    /// What runs that began since then have spent. What a run's children spent is in it.
    async fn sum(&self, user: &UserId, since_ms: i64) -> Result<Spent, store::StoreError> {
        let (mut spent, mut before) = (Spent::default(), None);
        loop {
            let filter = RunFilter {
                user: Some(user.clone()),
                roots_only: true,
                before: before.take(),
                limit: PAGE,
                outcome_bytes_max: Some(OUTCOME_BYTES_MAX),
                ..RunFilter::default()
            };
            let page = self.0.store.runs(filter).await?;
            let is_last = page.len() < PAGE || page.last().is_some_and(|row| row.created_ms < since_ms);
            before = page.last().map(|row| row.run.clone());
            for row in page.into_iter().filter(|row| row.created_ms >= since_ms) {
                spent.runs += 1;
                // A long outcome is read by itself, so that one at a time is in memory.
                let row = match row.status.is_over() && row.outcome.is_none() {
                    true => self.0.store.run(&row.run).await?.unwrap_or(row),
                    false => row,
                };
                if let Some(closing) = engine::result_of(&row) {
                    spent.add(&closing.spent);
                }
            }
            if is_last {
                return Ok(spent);
            }
        }
    }

    fn today(&self) -> MutexGuard<'_, HashMap<UserId, Day>> {
        self.0.today.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
