use super::*;
use proptest::prelude::*;
use serde_json::json;

fn plan() -> Value {
    json!({
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "note": {"type": "string"},
            "n": {"type": "integer", "minimum": 0},
        },
        "required": ["steps"],
        "additionalProperties": false,
    })
}

#[test]
fn finds_json_wherever_models_put_it() {
    let wanted = json!({"steps": ["a", "b"]});
    let cases = [
        r#"{"steps": ["a", "b"]}"#,
        "\u{feff}{\"steps\": [\"a\", \"b\"]}\n",
        "```json\n{\"steps\": [\"a\", \"b\"]}\n```",
        "```\n{\"steps\": [\"a\", \"b\"]}```",
        "```json {\"steps\": [\"a\", \"b\"]} ```",
        "Sure! Here is the plan:\n\n{\"steps\": [\"a\", \"b\"]}\n\nLet me know.",
        "First {not json} then {\"steps\": [\"a\", \"b\"]}",
        "<think>maybe {\"steps\": []}?</think>{\"steps\": [\"a\", \"b\"]}",
        "still thinking {\"steps\": []}</think>\n{\"steps\": [\"a\", \"b\"]}",
        "{'steps': ['a', 'b']}",
        "{steps: [\"a\", \"b\",],}",
        "{\"steps\": [\"a\", \"b\"",
        "{\"steps\": [\"a\" \"b\"]}",
        "{\"steps\": [\"a\", \"b\"], // done\n}",
        "```json\n{\"steps\": [\"a\", \"b\"]",
        "{\"steps\": [\"a\", \"b\"], \"note\": null}",
        "[{\"steps\": []}] or rather {\"steps\": [\"a\", \"b\"]}",
    ];
    for text in cases {
        assert_eq!(read(text, &plan()).map(|read| read.value), Ok(wanted.clone()), "{text}");
    }
}

#[test]
fn braces_inside_strings_do_not_count() {
    let text = r#"Here: {"steps": ["use {x} and \"}\" well"]} ok"#;
    assert_eq!(read(text, &plan()).unwrap().value, json!({"steps": ["use {x} and \"}\" well"]}));
}

#[test]
fn reports_whether_it_was_repaired() {
    assert!(!read(r#"{"steps": ["a"]}"#, &plan()).unwrap().is_repaired);
    assert!(read(r#"{"steps": ["a"]"#, &plan()).unwrap().is_repaired);
    assert!(read(r#"{"steps": ["a"], "n": null}"#, &plan()).unwrap().is_repaired);
}

#[test]
fn a_reply_that_cannot_be_repaired_is_an_error_with_a_reason() {
    let unfit = read(r#"{"steps": [], "n": -1}"#, &plan()).unwrap_err();
    let words = unfit.to_string();
    assert!(words.contains("/steps") && words.contains("/n"), "{words}");
    let nothing = read("I cannot do that.", &json!({"type": "object"})).unwrap_err();
    assert!(nothing.to_string().contains("I cannot do that"), "{nothing}");
    let long = read(&format!("{{\"steps\": {}}}", "9".repeat(100_000)), &plan()).unwrap_err().to_string();
    assert!(long.len() < 4_000, "{}", long.len());
}

#[test]
fn a_schema_that_refers_elsewhere_is_refused_and_nothing_is_fetched() {
    for elsewhere in ["https://example.com/s.json", "file:///etc/passwd", "http://127.0.0.1:1/x"] {
        let error = read("{}", &json!({"$ref": elsewhere})).unwrap_err();
        assert!(matches!(error, NotJson::Schema(_)), "{error:?}");
    }
    assert!(read("{}", &json!({"type": "objekt"})).is_err());
    let local = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}});
    assert_eq!(read("5", &local).unwrap().value, json!(5));
}

#[test]
fn depth_and_size_are_bounded() {
    for text in ["[".repeat(200_000), "{\"a\":".repeat(50_000), "(".repeat(100_000), "{[".repeat(100_000), "\"\\".repeat(100_000)] {
        assert!(read(&text, &plan()).is_err());
    }
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let _ = read(&deep, &json!({}));
}

#[test]
fn plain_words_can_fit_an_enum() {
    let schema = json!({"enum": ["yes", "no"]});
    assert_eq!(read("\"yes\"", &schema).unwrap().value, json!("yes"));
    assert_eq!(read("yes", &schema).unwrap().value, json!("yes"));
}

/// Random edits to a good reply, the kinds that models and cut lines make. `BATON_MANGLED` sets how many; a million was run.
#[test]
fn mangled_replies_never_panic_and_nothing_invalid_gets_through() {
    let count: u64 = std::env::var("BATON_MANGLED").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let good = [
        "```json\n{\"steps\": [\"look up \\\"x\\\"\", \"b\"], \"note\": \"ä{}[]\", \"n\": 3}\n```",
        "<think>hm { \"steps\"</think> Sure: {'steps': ['a', 'b'], \"n\": 1.5e3} done",
        "[{\"steps\": [\"a\"]}, {\"steps\": [null, true, {\"x\": []}]}]",
        "{\"steps\":[\"a\"],\"note\":null,\"n\":null}",
    ];
    let pieces =
        ["{", "}", "[", "]", "\"", "'", ",", ":", "\\", "\n", "```", "<think>", "</think>", "null", "\\u12", "ä", "1e999", "//", "/*", "(", "..."];
    let schema = plan();
    let judge = jsonschema::validator_for(&schema).unwrap();
    let mut passed = 0;
    for seed in 0..count {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut draw = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % n.max(1) as u64) as usize
        };
        let mut text: Vec<char> = good[draw(good.len())].chars().collect();
        for _ in 0..=draw(6) {
            let at = draw(text.len() + 1);
            match draw(4) {
                0 => text.truncate(at),
                1 => drop(text.drain(at..(at + draw(5)).min(text.len()))),
                2 => drop(text.splice(at..at, pieces[draw(pieces.len())].chars())),
                _ => {
                    let to = draw(text.len() + 1);
                    let (a, b) = (at.min(to), at.max(to));
                    let part: Vec<char> = text[a..b].to_vec();
                    text.splice(a..a, part);
                }
            }
            text.truncate(2_000);
        }
        let text: String = text.into_iter().collect();
        match read(&text, &schema) {
            Ok(read) => {
                passed += 1;
                assert!(judge.is_valid(&read.value), "seed {seed}: {text:?} gave {}", read.value);
            }
            Err(error) => drop(error.to_string()),
        }
    }
    assert!(passed > count / 10, "the mangling leaves nothing to read: {passed} of {count}");
}

proptest! {
    #[test]
    fn any_text_at_all_is_survived(text in "(?s).{0,200}") {
        let schema = plan();
        if let Ok(read) = read(&text, &schema) {
            prop_assert!(jsonschema::is_valid(&schema, &read.value));
        }
    }

    #[test]
    fn text_made_of_json_pieces_is_survived(parts in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "'", "\\", "steps", "\"steps\"", "null", "1", "-", ".", "e", "\n", " ", "```", "json", "<think>", "</think>", "\\u", "é",
    ]), 0..60)) {
        let schema = plan();
        if let Ok(read) = read(&parts.concat(), &schema) {
            prop_assert!(jsonschema::is_valid(&schema, &read.value));
        }
    }
}

/// Definitions of which each refers twice to the next.
fn doubling(levels: usize, last: Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        definitions.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    definitions.insert(format!("d{levels}"), last);
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn a_schema_that_doubles_the_work_again_and_again_is_refused() {
    // Without the limit this takes more memory than there is: two to the power of 40 errors.
    let Err(NotJson::Schema(why)) = check(Value::Null, &doubling(40, json!({ "type": "string" }))) else { panic!("it is refused") };
    assert!(why.contains("takes more than"), "{why}");
    assert!(check(json!("a"), &doubling(5, json!({ "type": "string" }))).is_ok(), "a few are allowed");
    // The work depends on the value: each level of it doubles what is below.
    let tree = json!({ "anyOf": [{ "type": "string" }, { "properties": { "a": { "$ref": "#" } } }, { "properties": { "a": { "$ref": "#" } }, "required": ["b"] }] });
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    assert!(check(nested(3), &tree).is_ok());
    let Err(NotJson::Unfit { errors, .. }) = check(nested(60), &tree) else { panic!("it is not checked") };
    assert!(errors[0].contains("was not checked"), "{errors:?}");
}

#[test]
fn a_schema_that_refers_to_itself_without_an_end_is_refused() {
    let chain: serde_json::Map<String, Value> = (0..5_000).map(|n| (format!("d{n}"), json!({ "$ref": format!("#/$defs/d{}", n + 1) }))).collect();
    let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } } });
    for schema in [json!({ "$ref": "#" }), circle, json!({ "$ref": "#/$defs/d0", "$defs": chain })] {
        assert!(matches!(check(json!(1), &schema), Err(NotJson::Schema(_))), "{}", clip(&schema.to_string(), 100));
    }
}

#[test]
fn patterns_take_bounded_time_and_memory() {
    // Look-around makes it one that goes back: without the limit it takes a million steps for each string.
    let schema = json!({ "items": { "pattern": "^(?:(?=a)a+)+$" } });
    let began = std::time::Instant::now();
    let strings: Value = (0..1_000).map(|n| format!("{}!{n}", "a".repeat(40))).collect();
    assert!(check(strings, &schema).is_err());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert!(matches!(check(json!("a"), &json!({ "pattern": "(?:[a-z]{1000}){1000}" })), Err(NotJson::Schema(_))));
    let many: Vec<Value> = (0..1_000).map(|n| json!({ "pattern": format!("[a-z]{{100,{}}}", n + 101) })).collect();
    assert!(matches!(check(json!("a"), &json!({ "anyOf": many })), Err(NotJson::Schema(why)) if why.contains("patterns")));
    assert!(check(json!("a-1"), &json!({ "pattern": "^[\\w.-]{1,64}$" })).is_ok());
}

#[test]
fn large_values_and_usual_references_are_checked() {
    let schema = json!({
        "$id": "https://x.example/schema",
        "type": "object",
        "properties": { "rows": { "type": "array", "items": { "$ref": "https://x.example/schema#/$defs/entry" } }, "tree": { "$ref": "#node" } },
        "$defs": {
            "entry": { "type": "object", "properties": { "id": { "type": "integer" }, "name": { "type": "string" } }, "required": ["id"] },
            "tree": { "$anchor": "node", "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#node" } } } },
        },
    });
    let rows: Vec<Value> = (0..20_000).map(|id| json!({ "id": id, "name": "x" })).collect();
    let tree = (0..50).fold(json!({}), |inner, _| json!({ "children": [inner, {}] }));
    assert!(check(json!({ "rows": rows, "tree": tree }), &schema).is_ok());
    assert!(check(json!({ "rows": [{ "id": "x" }] }), &schema).is_err());
}
