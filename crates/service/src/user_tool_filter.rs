//! Limits the tools that the users of a server may call.
//!
//! This is checked where effects are performed: a plan may come from a model, or from a fork whose replies the user wrote. The index checks
//! which documents a user may read, by the user in each call.

use std::sync::Arc;

use async_trait::async_trait;
use effects::{AGENT_LIST_TOOL, EffectHandler, LookUp, Progress, Repeatability};
use evidence::{Found, JUDGE};
use graph::{Effect, Failure, FailureKind, Job, Reply, UserId};
use mcp_hub::LIST;
use serde_json::Value;
use server::allowance::Allowances;

use crate::chosen_sources;
use crate::tool_access::ToolAccess;

pub(crate) struct UserToolFilter {
    handler: Arc<dyn EffectHandler>,
    access: ToolAccess,
    allowances: Allowances,
}

/// Built-in effects that flows need and that are not tools of a server: the lists of tools and agents, and the check of an answer.
const OPEN_TO_ALL: [&str; 3] = [LIST, AGENT_LIST_TOOL, JUDGE];

impl UserToolFilter {
    pub(crate) fn new(handler: Arc<dyn EffectHandler>, access: ToolAccess, allowances: Allowances) -> Arc<UserToolFilter> {
        Arc::new(UserToolFilter { handler, access, allowances })
    }

    fn may_call(&self, user: &UserId, tool: &str) -> bool {
        self.access.may_call(user, tool) && self.allowances.rights(user).may_call(tool)
    }

    /// Why a call is refused: its tool or model is not allowed for this user.
    fn refusal(&self, job: &Job) -> Option<Failure> {
        let user = &job.context.user;
        if let Effect::CallModel(_) = &*job.effect {
            let refused = self.allowances.may_use_model(user, job.context.model.as_deref()).err();
            return refused.map(|why| Failure::new(FailureKind::Refused, why));
        }
        let Effect::CallTool(call) = &*job.effect else { return None };
        if OPEN_TO_ALL.contains(&call.tool.as_str()) {
            return None;
        }
        if let Some(why) = chosen_sources::refusal(job, &call.tool) {
            return Some(Failure::new(FailureKind::Refused, why));
        }
        let may_call = self.may_call(user, &call.tool);
        let refused = || Failure::new(FailureKind::Refused, format!("the tool {} is not open to the users of this server", call.tool));
        (!may_call).then(refused)
    }

    /// Why nothing more may be spent: the user's daily budget is used up, by this run or others.
    async fn overspent(&self, job: &Job) -> Option<Failure> {
        match self.allowances.refusal(&job.context.user).await {
            Ok(why) => why.map(|why| Failure::new(FailureKind::Budget, why)),
            Err(error) => Some(Failure::new(FailureKind::Internal, format!("what was spent today is not known: {error}"))),
        }
    }

    /// A list of tools without those that the user may not call, so that they are not planned.
    fn listed(&self, job: &Job, reply: Reply) -> Reply {
        if job.effect.name() != LIST {
            return reply;
        }
        let is_chosen = |tool: &str| job.context.only.as_deref().is_none_or(|only| chosen_sources::is_chosen(only, tool));
        let may_call = |tool: &str| is_chosen(tool) && self.may_call(&job.context.user, tool);
        let result = reply.result.map(|value| without_tools(value, &|tool| may_call(tool)));
        Reply { result, ..reply }
    }
}

fn without_tools(value: Value, may_call: &dyn Fn(&str) -> bool) -> Value {
    let Ok(mut found) = serde_json::from_value::<Found>(value.clone()) else { return value };
    let Some(tools) = found.data.get_mut("tools").and_then(Value::as_array_mut) else { return value };
    tools.retain(|tool| tool["name"].as_str().is_some_and(may_call));
    let is_kept = |line: &&str| line.split_once(':').is_none_or(|(tool, _)| may_call(tool));
    found.text = found.text.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
    serde_json::to_value(found).unwrap_or_default()
}

#[async_trait]
impl EffectHandler for UserToolFilter {
    fn repeatability(&self, job: &Job) -> Repeatability {
        // A refused call does nothing, however often.
        if self.refusal(job).is_some() { Repeatability::Repeatable } else { self.handler.repeatability(job) }
    }

    fn objection(&self, job: &Job) -> Option<graph::Objection> {
        // A refused call needs no permission, which would not change it.
        if self.refusal(job).is_some() { None } else { self.handler.objection(job) }
    }

    fn may_change(&self, job: &Job) -> bool {
        self.refusal(job).is_none() && self.handler.may_change(job)
    }

    async fn perform(&self, job: &Job, progress: &Progress) -> Reply {
        if let Some(failure) = self.refusal(job) {
            return Reply::failed(failure);
        }
        if let Some(failure) = self.overspent(job).await {
            return Reply::failed(failure);
        }
        let reply = self.handler.perform(chosen_sources::widened(job).as_ref().unwrap_or(job), progress).await;
        self.allowances.add(&job.context.user, &reply.usage);
        chosen_sources::limited(job, self.listed(job, reply))
    }

    async fn look_up(&self, job: &Job) -> LookUp {
        self.handler.look_up(job).await
    }

    async fn abandon(&self, job: &Job) {
        self.handler.abandon(job).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_flows_themselves_need_is_open_to_every_user() {
        let workspaces = tools::workspace::Workspaces::per_thread("base".into());
        let allowances = Allowances::new(Default::default(), Arc::new(store::MemoryStore::new()), None);
        let access = ToolAccess::new(Some(&["docs".to_owned()]), &workspaces);
        let own = UserToolFilter::new(Arc::new(effects::handlers::EffectHandlers::default()), access, allowances);
        let refused = |tool: &str| {
            let mut job = scripted::jobs(&[graph::tool(tool, json!({}))]).remove(0);
            job.context.user = "ada".into();
            own.refusal(&job).is_some()
        };
        for tool in OPEN_TO_ALL {
            assert!(!refused(tool), "{tool}");
        }
        assert!(!refused("docs.search") && refused("mail.send"));
    }

    #[test]
    fn a_list_of_tools_names_none_that_is_not_open_to_the_user() {
        let tools = json!({ "tools": [{ "name": "docs.search" }, { "name": "files.read" }] });
        let value = json!({ "text": "docs.search: Finds: all\nfiles.read: Reads", "data": tools, "spans": [] });
        let listed = without_tools(value.clone(), &|tool| tool.starts_with("docs."));
        assert_eq!((listed["text"].as_str(), &listed["data"]["tools"]), (Some("docs.search: Finds: all"), &json!([{ "name": "docs.search" }])));
        assert_eq!(without_tools(value.clone(), &|_| true), value);
    }
}
