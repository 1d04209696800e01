//! Each effect reaches the performer of its kind.

use std::sync::Arc;

use baton_effects::rooms::Rooms;
use baton_effects::{Progress, World as _};
use scripted::ScriptedWorld;
use serde_json::json;

#[tokio::test]
async fn each_effect_goes_to_its_room() {
    let rooms = Rooms { tools: Some(Arc::new(ScriptedWorld::parse("when tool t reply \"done\"").unwrap())), ..Rooms::default() };
    let jobs = scripted::jobs(&[graph::tool("t", json!({})), graph::model("plan", Vec::new()), graph::agent("a", json!({}))]);
    let mut said = Vec::new();
    for job in &jobs {
        said.push(rooms.perform(job, &Progress::nowhere()).await.result.map_err(|failure| failure.message));
    }
    let nobody = |who: &str| Err(format!("nobody here answers {who}"));
    assert_eq!(said, [Ok(json!("done")), nobody("model \"plan\""), nobody("agent \"a\"")]);
}
