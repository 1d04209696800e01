//! The description of the API, made from the types it speaks.

use axum::Json;
use serde_json::{Value, json};

pub(super) async fn get() -> Json<Value> {
    Json(document())
}

pub fn document() -> Value {
    json!({})
}
