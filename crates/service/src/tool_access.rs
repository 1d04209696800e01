//! The tools that the users of a server may call.
//!
//! The operator, who is the local user, may call every tool. For other users `[tools] users` in the configuration names the tools; without
//! it they may call all except `files` and `code` where these work in a folder that the operator named, because it contains the operator's
//! files.
//!
//! The rule is applied where a call is performed, so it also covers plans that a user forged or edited.

use graph::UserId;
use tools::workspace::Workspaces;

/// The servers that read and change the operator's folder, if one was named.
const IN_WORKSPACE: [&str; 2] = ["files", "code"];

#[derive(Clone, Debug, Default)]
pub(crate) struct ToolAccess {
    /// `server.tool`, or a whole server.
    named: Option<Vec<String>>,
    is_workspace_shared: bool,
}

impl ToolAccess {
    pub(crate) fn new(named: Option<&[String]>, workspaces: &Workspaces) -> ToolAccess {
        ToolAccess { named: named.map(<[String]>::to_vec), is_workspace_shared: !workspaces.is_own() }
    }

    pub(crate) fn may_call(&self, user: &UserId, tool: &str) -> bool {
        if *user == UserId::default() {
            return true;
        }
        let server = tool.split_once('.').map_or(tool, |(server, _)| server);
        match &self.named {
            Some(named) => named.iter().any(|name| name == tool || name == server),
            None => !(self.is_workspace_shared && IN_WORKSPACE.contains(&server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_calls_everything_and_others_what_is_named_for_them() {
        let (own, shared) = (Workspaces::per_thread("base".into()), Workspaces::fixed("folder".into(), "records".into()));
        let (ada, operator) = (UserId::from("ada"), UserId::default());
        let by_default = ToolAccess::new(None, &own);
        assert!(by_default.may_call(&ada, "files.read") && by_default.may_call(&ada, "docs.search"));
        let by_default = ToolAccess::new(None, &shared);
        for (tool, expected) in [("files.read", false), ("code.run_python", false), ("docs.search", true), ("filesystem.read", true)] {
            assert_eq!((by_default.may_call(&ada, tool), by_default.may_call(&operator, tool)), (expected, true), "{tool}");
        }
        let names = ["docs".to_owned(), "search.search".to_owned()];
        let named = ToolAccess::new(Some(&names), &own);
        for (tool, expected) in [("docs.read", true), ("search.search", true), ("search.other", false), ("files.read", false), ("docsx.read", false)]
        {
            assert_eq!((named.may_call(&ada, tool), named.may_call(&operator, tool)), (expected, true), "{tool}");
        }
    }
}
