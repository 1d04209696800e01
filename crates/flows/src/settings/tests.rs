use super::*;
use crate::input::Input;
use crate::registry::Registry;
use crate::search;

fn list(flow: &str) -> Vec<Setting> {
    Registry::default().settings(flow)
}

fn parse(flow: &str, pair: &str) -> Result<(String, Value), SettingError> {
    Registry::default().parse_setting(flow, pair)
}

fn resolve(flow: &str, settings: &Value) -> Result<Value, SettingError> {
    Registry::default().resolve_settings(flow, settings)
}

fn schema(flow: &str) -> Option<Value> {
    Registry::default().settings_schema(flow)
}

fn assemble(flow: &str, own: &dyn Fn(&str) -> Value) -> Value {
    Registry::default().assemble_settings(flow, own)
}

fn wrong(flow: &str, settings: &Value) -> String {
    resolve(flow, settings).unwrap_err().to_string()
}

fn names(flow: &str) -> Vec<String> {
    list(flow).into_iter().map(|setting| setting.name).collect()
}

#[test]
fn s13_every_setting_is_listed_with_its_default_and_nothing_internal_is() {
    let registry = Registry::default();
    let declared = |flow: &str| registry.get(flow).unwrap().settings.unwrap();
    for flow in registry.flows_with_settings() {
        let (settings, [defaults, empty]) = (declared(flow).list(), declared(flow).fields());
        assert_eq!(empty, defaults, "{flow}");
        let fields = defaults.as_object().unwrap();
        for setting in &settings {
            let name = &setting.name;
            assert_eq!(Some(&setting.default), fields.get(name), "{flow}: {name}");
            assert!(!setting.help.is_empty(), "{flow}: {name} has no help");
            assert!(setting.accept(&setting.default).is_ok(), "{flow}: {name} refuses its own default");
        }
        // A field that is not listed is internal and cannot be set from outside.
        for name in fields.keys().filter(|name| settings.iter().all(|setting| setting.name != **name)) {
            let error = wrong(flow, &json!({ name: fields[name] }));
            assert!(error.contains("has no setting"), "{flow}: {name}: {error}");
        }
    }
    let internal = |flow: &str| declared(flow).fields()[0].as_object().unwrap().len() - declared(flow).list().len();
    assert_eq!((internal("search"), internal("chat"), internal("supervise")), (0, 2, 1));
}

#[test]
fn s13_a_setting_has_its_type_default_bounds_and_help() {
    let all = list("search");
    assert_eq!(all.iter().map(|setting| setting.name.as_str()).collect::<Vec<_>>(), ["max_turn_iterations", "enabled_tools", "verify"]);
    let turns = &all[0];
    assert_eq!((turns.kind, &turns.default, turns.expected().as_str()), (Kind::Integer, &json!(1), "a whole number from 1 to 10"));
    assert!(turns.help.starts_with("How often a plan is made"), "{}", turns.help);
    assert_eq!((all[1].kind, &all[1].default), (Kind::List, &json!([])));
    let of = |flow: &str, name: &str| list(flow).into_iter().find(|setting| setting.name == name).unwrap();
    assert_eq!((of("panel", "retry_limit").default, of("panel", "parallel_research").kind), (json!(5), Kind::Boolean));
    let way = of("reason", "way");
    assert_eq!((way.kind, way.choices, way.default, way.is_optional), (Kind::Choice, vec!["direct".into(), "agentic".into()], Value::Null, true));
    // An enum with documented variants has a different schema.
    assert_eq!((of("reason", "depth").kind, of("reason", "depth").choices.len()), (Kind::Choice, 3));
    let format = of("writer", "format");
    assert_eq!((format.kind, format.default, format.choices.len()), (Kind::Choice, json!("pdf"), 4));
    let verify = of("direct", "verify");
    assert_eq!((verify.kind, verify.default, verify.choices), (Kind::Choice, json!("fast"), ["fast", "model", "rules"].map(str::to_owned).to_vec()));
    assert_eq!(names("panel_expert"), <[String; 0]>::default());
    assert_eq!(names("no_such_flow"), <[String; 0]>::default());
}

#[test]
fn s13_a_text_becomes_what_the_setting_declares() {
    for (flow, pair, expected) in [
        ("search", "max_turn_iterations=3", json!(3)),
        ("search", " enabled_tools = calc, docs.search ,", json!(["calc", "docs.search"])),
        ("search", "enabled_tools=[\"a,b\"]", json!(["a,b"])),
        ("search", "enabled_tools=", json!([])),
        ("panel", "parallel_research=yes", json!(true)),
        ("panel", "parallel_research=false", json!(false)),
        ("reason", "way=direct", json!("direct")),
        ("reason", "way=", Value::Null),
        ("mailer", "me=ann=x@example.org", json!("ann=x@example.org")),
        ("writer", "format=docx", json!("docx")),
        ("auto", "max_turn_iterations=2", json!(2)),
        ("auto", "verify=model", json!("model")),
        ("search", "search.max_turn_iterations=2", json!(2)),
    ] {
        assert_eq!(parse(flow, pair).unwrap().1, expected, "{flow} {pair}");
    }
    for (flow, pair, words) in [
        ("search", "max_turn_iterations", "is not KEY=VALUE"),
        ("search", "max_turn_iterations=many", "cannot be \"many\": it is a whole number from 1 to 10"),
        ("search", "max_turn_iterations=1.5", "a whole number from 1 to 10"),
        ("search", "max_turn_iterations=11", "cannot be 11: it is a whole number from 1 to 10"),
        ("search", "max_turn_iterations=0", "from 1 to 10"),
        ("search", "max_turn_iteration=3", "did you mean max_turn_iterations? Its settings are: max_turn_iterations, enabled_tools, verify"),
        ("search", "enabled_tools=[1]", "a list of texts"),
        ("panel", "parallel_research=maybe", "true or false"),
        ("reason", "way=fast", "one of direct, agentic"),
        ("reason", "remembered=[]", "no setting \"remembered\""),
        ("panel_expert", "depth=1", "the flow panel_expert has no settings"),
        ("auto", "retry_limit=0", "the setting panel.retry_limit cannot be 0: it is a whole number from 1 to 50"),
    ] {
        let error = parse(flow, pair).unwrap_err().to_string();
        assert!(error.contains(words), "{flow} {pair}: {error}");
    }
}

#[test]
fn s13_json_is_held_to_types_and_bounds() {
    assert_eq!(resolve("search", &Value::Null).unwrap(), json!({}));
    let good = json!({ "max_turn_iterations": 3, "enabled_tools": ["docs"] });
    assert_eq!(resolve("search", &good).unwrap(), good);
    for (settings, words) in [
        (json!([]), "an object of names and values"),
        (json!({ "max_turn_iterations": "3" }), "cannot be \"3\""),
        (json!({ "max_turn_iterations": 3.0 }), "a whole number"),
        (json!({ "max_turn_iterations": null }), "cannot be null"),
        (json!({ "max_turn_iterations": -1 }), "from 1 to 10"),
        (json!({ "max_turn_iterations": u64::MAX }), "from 1 to 10"),
        (json!({ "enabled_tools": "docs" }), "a list of texts"),
        (json!({ "enabled_tools": { "docs": true } }), "no setting \"enabled_tools.docs\""),
        (json!({ "each": {} }), "no setting \"each\""),
        (json!({ ("x".repeat(4_000)): "y".repeat(4_000) }), "no setting"),
    ] {
        let error = wrong("search", &settings);
        assert!(error.contains(words) && error.len() < 400, "{error}");
    }
}

#[test]
fn s13_a_flow_that_calls_others_takes_their_settings() {
    let dotted = json!({ "search.max_turn_iterations": 3, "supervise.researcher.tool_calls_max": 2, "supervise.retries_max": 0 });
    let nested = json!({ "search": { "max_turn_iterations": 3 }, "supervise": { "researcher": { "tool_calls_max": 2 }, "retries_max": 0 } });
    let each = json!({ "each": { "search": { "max_turn_iterations": 3 }, "supervise": { "retries_max": 0, "each": { "researcher": { "tool_calls_max": 2 } } } } });
    assert_eq!(resolve("auto", &dotted).unwrap(), each);
    assert_eq!(resolve("auto", &nested).unwrap(), each);
    // Without a flow name it applies to all flows that have it, and a qualified name wins.
    let all = resolve("auto", &json!({ "panel.tool_calls_max": 9, "tool_calls_max": 3 })).unwrap();
    assert_eq!(all, json!({ "each": { "panel": { "tool_calls_max": 9 }, "supervise": { "each": { "researcher": { "tool_calls_max": 3 } } } } }));
    assert_eq!(resolve("auto", &json!({ "search": {} })).unwrap(), json!({}));
    assert_eq!(resolve("supervise", &json!({ "me": "a@b" })).unwrap(), json!({ "each": { "mailer": { "me": "a@b" } } }));
    let error = wrong("auto", &json!({ "serch.max_turn_iterations": 3 }));
    assert!(error.contains("did you mean search.max_turn_iterations?") && error.contains("panel.retry_limit"), "{error}");
    let error = wrong("auto", &json!({ "tool_calls_max": 99 }));
    assert!(error.contains("Name the flow: panel.tool_calls_max, supervise.researcher.tool_calls_max"), "{error}");
    let of_auto = schema("auto").unwrap();
    assert_eq!(of_auto.pointer("/properties/panel.retry_limit/maximum"), Some(&json!(50)));
    assert_eq!(schema("panel_expert"), None);
}

#[test]
fn s13_configured_values_are_the_defaults_of_a_request() {
    let own = |flow: &str| match flow {
        "search" => json!({ "max_turn_iterations": 2, "enabled_tools": ["docs"] }),
        "mailer" => json!({ "me": "a@b" }),
        "auto" => resolve("auto", &json!({ "search.max_turn_iterations": 4 })).unwrap(),
        _ => Value::Null,
    };
    assert_eq!(assemble("search", &own), json!({ "max_turn_iterations": 2, "enabled_tools": ["docs"] }));
    assert_eq!(assemble("direct", &own), json!({}));
    let mut auto = assemble("auto", &own);
    let expected = json!({
        "search": { "max_turn_iterations": 4, "enabled_tools": ["docs"] },
        "supervise": { "each": { "mailer": { "me": "a@b" } } },
        "report": { "each": { "search": { "max_turn_iterations": 2, "enabled_tools": ["docs"] } } },
    });
    assert_eq!(auto, json!({ "each": expected }));
    let defaults = Registry::default().effective_settings("auto", &auto);
    let default = |name: &str| defaults.iter().find(|setting| setting.name == name).unwrap().default.clone();
    assert_eq!(
        (default("search.max_turn_iterations"), default("supervise.mailer.me"), default("panel.retry_limit")),
        (json!(4), json!("a@b"), json!(5))
    );
    overlay(&mut auto, resolve("auto", &json!({ "max_turn_iterations": 7 })).unwrap());
    assert_eq!(auto["each"]["search"], json!({ "max_turn_iterations": 7, "enabled_tools": ["docs"] }));
}

#[test]
fn s13_a_run_refuses_values_out_of_bounds_however_it_is_started() {
    let read = |settings: Value| serde_json::from_value::<Input<search::Settings>>(json!({ "question": "q", "settings": settings }));
    assert_eq!(read(json!({ "max_turn_iterations": 10 })).unwrap().settings.unwrap().max_turn_iterations, 10);
    assert_eq!(read(Value::Null).unwrap().settings, None);
    let error = read(json!({ "max_turn_iterations": 11 })).unwrap_err().to_string();
    assert!(error.contains("the setting max_turn_iterations cannot be 11: it is a whole number from 1 to 10"), "{error}");
}
