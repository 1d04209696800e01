//! The plan as a list of capabilities: from a model's reply, or from keywords of the request.

use serde::Deserialize;

use super::team::Member;
use crate::registry::Registry;

pub(super) const PLAN_MAX: usize = 8;

/// A model's reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Planned {
    #[serde(default, alias = "capabilities", alias = "steps")]
    pub(super) plan: Vec<String>,
    /// The answer if there is nothing to do.
    #[serde(default)]
    pub(super) reply: String,
}

/// The known capabilities, in planned order, without consecutive duplicates; and the unknown ones.
pub(super) fn restricted(planned: Vec<String>, team: &[Member], registry: &Registry) -> (Vec<String>, Vec<String>) {
    let (mut plan, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for wanted in planned {
        let wanted = wanted.trim();
        // By its capability, by the agent's name, which models confuse with it, or by another name of a specialist.
        let other_name = registry.canonical_capability(wanted);
        let known = team.iter().find(|member| member.capability == wanted).or_else(|| team.iter().find(|member| member.name == wanted));
        let known = known.or_else(|| team.iter().find(|member| member.capability == other_name));
        match known {
            Some(member) if plan.last() != Some(&member.capability) && plan.len() < PLAN_MAX => plan.push(member.capability.clone()),
            Some(_) => {}
            None => unknown.push(wanted.chars().take(60).collect()),
        }
    }
    (plan, unknown)
}

const RESEARCH: &[&str] =
    &["research", "find out", "look up", "look into", "investigate", "learn about", "facts", "what is", "who is", "compare", "summarize"];
const DOCUMENT: &[&str] = &["pdf", "docx", "word document", "html", "markdown", "document", "report", "write it up", "write up", "paper", "file"];
const MAIL: &[&str] = &["mail", "e-mail", "email", "send it", "send this", "send me", "send to"];

/// The plan without a model: keywords of the request. A request without any is treated as a question.
pub(super) fn by_words(request: &str, team: &[Member]) -> Vec<String> {
    let text = request.to_lowercase();
    let wants = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let mut plan: Vec<&str> = Vec::new();
    if wants(RESEARCH) {
        plan.push("research");
    }
    if wants(DOCUMENT) {
        plan.push("create_document");
    }
    if wants(MAIL) {
        plan.push("send_mail");
    }
    if plan.is_empty() {
        plan.push("research");
    }
    let known = |capability: &&str| team.iter().any(|member| member.capability == *capability);
    plan.into_iter().filter(known).map(str::to_owned).collect()
}
