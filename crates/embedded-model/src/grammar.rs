//! JSON schemas as grammars over tokens.
//!
//! What a grammar cannot express is left out rather than refused: a reply is validated afterwards anyway, and most of a schema
//! is better than none of it.

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use super::EmbeddedError;
use super::vocabulary::Vocabulary;

pub(super) struct Grammars(ParserFactory);

impl Grammars {
    pub(super) fn new(vocabulary: &Vocabulary) -> Result<Self, EmbeddedError> {
        let mut factory = ParserFactory::new_simple(&vocabulary.for_grammars()).map_err(EmbeddedError::damaged)?;
        factory.quiet();
        Ok(Grammars(factory))
    }

    pub(super) fn matcher(&self, schema: &Value) -> Result<Matcher, EmbeddedError> {
        let parser = self.0.create_parser(TopLevelGrammar::from_json_schema(tight(schema)));
        let matcher = Matcher::new(parser);
        match matcher.get_error() {
            Some(why) => Err(EmbeddedError::BadSchema { why }),
            None => Ok(matcher),
        }
    }
}

/// No white space, where a small model could lose itself, and nothing that costs a token without need.
fn tight(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(_) => schema.clone(),
        other => json!({"allOf": [other]}),
    };
    schema["x-guidance"] = json!({"whitespace_flexible": false, "item_separator": ",", "key_separator": ":", "lenient": true});
    schema
}
