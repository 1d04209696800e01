//! A second lookup in the documents for a small model: what its first answer states is looked up together with the question, and if that finds new
//! passages, the answer is written again from all of them.
//!
//! A question of several steps ("Where was the director of this film born?") finds the passage of its first step (the film) and often not that of its
//! second (the director), whose name is in the first passage only. A large model reports what is missing and plans again; a small one does not notice.
//! The first answer is not shown to the model again: shown as a possible step, it was kept more often than not.

use evidence::{Found, Span};
use graph::{Ask, Effect, Go, Replies, Request, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::limits::Depth;
use super::respond::check_answer;
use super::{AnswerMode, Reason, STEP_MS_MAX};
use crate::answer;
use crate::claims::{self, DraftAnswer, NOT_ANSWERED};
use crate::prompt;
use crate::toolbox::DOCUMENTS;

/// The answer from the first lookup, which stands if the second finds nothing new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FirstAnswer {
    #[serde(rename = "said")]
    draft: DraftAnswer,
    shown: Vec<Span>,
}

/// Tokens of the first answer in the query.
const DRAFT_TOKENS_MAX: usize = 120;
const QUERY_TOKENS_MAX: usize = 300;

/// Starts the second lookup, if the answer may need one.
pub(super) fn begin(s: &mut Reason, draft: &DraftAnswer, shown: &[Span]) -> Option<Go> {
    let is_first = s.first_answer.is_none() && s.model.is_small && s.way == AnswerMode::Agentic && s.depth() != Depth::Quick;
    let is_look_up = |tool: &str| s.toolbox.get(tool).is_some_and(crate::toolbox::Tool::is_look_up);
    let has_searched = s.doing.iter().any(|doing| doing.is_well() && doing.call.tool == DOCUMENTS);
    let only_looked_up = s.doing.iter().all(|doing| is_look_up(&doing.call.tool));
    if !is_first || !has_searched || !only_looked_up || draft.markdown == NOT_ANSWERED {
        return None;
    }
    s.first_answer = Some(FirstAnswer { draft: draft.clone(), shown: shown.to_vec() });
    Some(Go::to("look_further"))
}

fn call(s: &Reason) -> Option<ToolCall> {
    let argument = s.toolbox.get(DOCUMENTS)?.text_argument()?;
    let draft = claims::uncited(&s.first_answer.as_ref()?.draft.markdown.replace("**", ""));
    let draft = prompt::clipped(&draft, DRAFT_TOKENS_MAX);
    let query = prompt::clipped(&format!("{} {draft}", s.full_question()), QUERY_TOKENS_MAX);
    Some(ToolCall { tool: DOCUMENTS.to_owned(), arguments: json!({ argument: query }) })
}

pub(super) fn ask(s: &Reason) -> Ask {
    let request = |call: ToolCall| Request::from(Effect::CallTool(call)).label("looking up what was found").attempts(2).deadline_ms(STEP_MS_MAX);
    call(s).map_or_else(Ask::nothing, |call| Ask::one(request(call)))
}

pub(super) fn fold(s: &mut Reason, replies: &Replies<'_>) -> Go {
    let found = match (replies.is_empty(), replies.parse::<Found>(0)) {
        (true, _) => Found::default(),
        (false, Ok(found)) => found,
        // The first answer stands.
        (false, Err(failure)) => {
            s.degraded.push(format!("not looked up a second time: {failure}"));
            Found::default()
        }
    };
    let is_new = |span: &Span| !s.spans.iter().any(|known| answer::is_same(known, span));
    let new: Vec<Span> = found.spans.into_iter().filter(is_new).collect();
    if new.is_empty() {
        return restore(s).unwrap_or_else(|| Go::to("respond"));
    }
    let count = new.len();
    s.keep(new);
    Go::to("respond").note("looked_further", json!({ "passages": count }))
}

/// Returns to the first answer.
pub(super) fn restore(s: &mut Reason) -> Option<Go> {
    let FirstAnswer { draft, shown } = s.first_answer.clone()?;
    Some(check_answer(s, draft, shown))
}
