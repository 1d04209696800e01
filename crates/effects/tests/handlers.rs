//! Each effect reaches the performer of its kind.

use std::sync::Arc;

use baton_effects::handlers::EffectHandlers;
use baton_effects::{EffectHandler as _, Progress};
use scripted::ScriptedHandler;
use serde_json::json;

#[tokio::test]
async fn each_effect_goes_to_its_room() {
    let handlers =
        EffectHandlers { tools: Some(Arc::new(ScriptedHandler::parse("when tool t reply \"done\"").unwrap())), ..EffectHandlers::default() };
    let jobs = scripted::jobs(&[graph::tool("t", json!({})), graph::model("plan", Vec::new()), graph::agent("a", json!({}))]);
    let mut results = Vec::new();
    for job in &jobs {
        results.push(handlers.perform(job, &Progress::nowhere()).await.result.map_err(|failure| failure.message));
    }
    let nobody = |who: &str| Err(format!("no handler for {who}"));
    assert_eq!(results, [Ok(json!("done")), nobody("model \"plan\""), nobody("agent \"a\"")]);
}
