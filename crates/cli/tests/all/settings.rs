//! Settings of flows in every interface: command line, session, configuration, API and LangServe.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{CommandOutput, Home, LOOKS_UP};

/// A model that always reports missing information, so that a search plans as often as allowed; and one that routes to `search`.
const NEVER_CONTENT: &str = r#"
when model synthesis reply {"reasoning": "", "response_content": "After a crash the log is replayed from the last checkpoint [1].", "missing": "what the log is called"} tokens 60/10
when model route reply {"flow": "search"}
"#;

const QUESTION: &str = "Please look up what happens after a crash.";

impl Home {
    fn searching(&self) -> String {
        self.script(&format!("{NEVER_CONTENT}{LOOKS_UP}"))
    }

    fn config(&self, text: &str) -> String {
        let path = self.db().with_file_name("baton.toml");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Number of plans of a search, from the output of its run.
fn turns(output: &CommandOutput) -> u64 {
    let last = output.lines().pop().unwrap_or_else(|| panic!("{output:?}"));
    iterations(&last).unwrap_or_else(|| panic!("no iterations in {last}"))
}

fn iterations(ended: &Value) -> Option<u64> {
    ["/output/iterations", "/outcome/output/iterations"].iter().find_map(|place| ended.pointer(place)).and_then(Value::as_u64)
}

#[test]
fn s13_set_is_for_one_question_and_a_wrong_name_is_an_error_that_lists_the_settings() {
    let home = Home::new();
    let script = home.searching();
    let ask = |flow: &str, set: &[&str]| {
        let mut args = vec!["ask", QUESTION, "--script", &script, "--json", "--flow", flow];
        set.iter().for_each(|pair| args.extend(["--set", pair]));
        home.baton(&args)
    };
    assert_eq!(turns(&ask("search", &[])), 1);
    assert_eq!(turns(&ask("search", &["max_turn_iterations=3"])), 3);
    assert_eq!(turns(&ask("search", &["max_turn_iterations=3", "max_turn_iterations=2"])), 2, "the last counts");
    // The router passes it on to the flow it chooses.
    assert_eq!(turns(&ask("auto", &["search.max_turn_iterations=2"])), 2);
    assert_eq!(turns(&ask("auto", &["max_turn_iterations=2"])), 2);
    let runs = home.runs().len();
    for (flow, pair, words) in [
        ("search", "max_turn_iterations=11", "the setting max_turn_iterations cannot be 11: it is a whole number from 1 to 10"),
        ("search", "max_turn_iterations=often", "a whole number from 1 to 10"),
        ("search", "max_turns_iterations=3", "did you mean max_turn_iterations? Its settings are: max_turn_iterations, enabled_tools"),
        ("search", "max_turn_iterations", "is not KEY=VALUE"),
        ("reason", "remembered=[]", "has no setting \"remembered\""),
        ("direct", "depth=3", "the flow direct has no setting \"depth\". Its settings are: verify"),
        ("team", "depth=3", "the flow team has no settings"),
        ("auto", "panel.retry_limit=99", "a whole number from 1 to 50"),
    ] {
        ask(flow, &[pair]).complains(2, &[words]);
    }
    assert_eq!(home.runs().len(), runs, "nothing was begun");
}

#[test]
fn s13_the_configuration_sets_and_the_command_line_wins() {
    let home = Home::new();
    let script = home.searching();
    let config = home.config("[flows.search]\nmax_turn_iterations = 2\n");
    let ask = |args: &[&str]| home.baton(&[&["ask", QUESTION, "--script", &script, "--config", &config, "--json"], args].concat());
    assert_eq!(turns(&ask(&["--flow", "search"])), 2);
    assert_eq!(turns(&ask(&["--flow", "auto"])), 2, "also where the front door chose the flow");
    assert_eq!(turns(&ask(&["--flow", "search", "--set", "max_turn_iterations=1"])), 1);
    for (text, words) in [
        ("[flows.search]\nmax_turn_iterations = 0\n", "[flows.search]: the setting max_turn_iterations cannot be 0"),
        ("[flows.search]\nmax_turns = 2\n", "Its settings are: max_turn_iterations, enabled_tools"),
        ("[flows.serch]\n", "there are: auto, chat, direct, panel, reason, report, search"),
        ("[team]\nattempts_max = 100\n", "[team]: the setting attempts_max cannot be 100"),
    ] {
        home.config(text);
        ask(&["--flow", "search"]).complains(2, &["baton.toml", words]);
    }
}

#[test]
fn s13_flows_show_lists_exactly_what_the_struct_declares() {
    let home = Home::new();
    let shown = &home.well(&["flows", "show", "search", "--json"]).lines()[0];
    let declared = serde_json::to_value(flows::search::Settings::default()).unwrap();
    let listed: serde_json::Map<String, Value> =
        shown["settings"].as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one["default"].clone())).collect();
    assert_eq!(Value::Object(listed), declared);
    assert_eq!((&shown["title"], &shown["graph"]["start"]), (&json!("Search"), &json!("initialize")));
    assert_eq!(shown["settings"][0]["maximum"], 10);

    let text = home.well(&["flows", "show", "search"]).out;
    for words in ["Search: Plans, searches with tools", "plan → approve", "max_turn_iterations  integer  1", "1 to 10", "[flows.search]"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let config = home.config("[flows.search]\nmax_turn_iterations = 7\n");
    assert!(home.well(&["flows", "show", "search", "--config", &config]).out.contains("max_turn_iterations  integer  7"));
    assert!(home.well(&["flows", "show", "auto"]).out.contains("supervise.mailer.me"));
    assert!(home.well(&["flows", "show", "team"]).out.contains("It has no settings."));
    home.baton(&["flows", "show", "chess"]).complains(2, &["research, researcher, search"]);
}

#[test]
fn s13_a_session_sets_lists_and_takes_back() {
    let home = Home::new();
    let script = home.searching();
    let mut child = home.command(&["chat", "--script", &script, "--flow", "search", "--set", "max_turn_iterations=2"]);
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    let lines =
        format!("{QUESTION}\n/set max_turn_iterations=3\n{QUESTION}\n/set\n/set max_turn_iterations\n{QUESTION}\n/set turns=1\n/flow team\n/set\n");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = CommandOutput::of(child.wait_with_output().unwrap());
    output.complains(2, &["max_turn_iterations = 3", "max_turn_iterations is not set any more", "has no setting \"turns\""]);
    assert!(output.out.contains("1 to 10") && output.out.contains("the flow team has no settings"), "{}", output.out);
    let mut made: Vec<u64> = Vec::new();
    for run in home.runs() {
        let shown = home.well(&["runs", "show", run["run"].as_str().unwrap(), "--json"]).out;
        let shown: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
        made.push(shown["history"]["state"]["iteration"].as_u64().unwrap_or_else(|| panic!("{shown}")));
    }
    assert_eq!(made, [1, 3, 2], "the newest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_the_api_takes_settings_and_lists_them() {
    let home = Home::new();
    let config = home.config("[flows.search]\nmax_turn_iterations = 2\n");
    let served = home.serve(&home.searching(), &["--config", &config]);
    for path in ["/api/flows", "/api/status"] {
        let (status, body) = served.get(path).await;
        let search = body["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == "search").unwrap();
        assert_eq!((status, &search["settings"][0]["name"], &search["settings"][0]["kind"]), (200, &json!("max_turn_iterations"), &json!("integer")));
        assert_eq!(
            (&search["settings"][0]["default"], &search["settings"][0]["maximum"]),
            (&json!(2), &json!(10)),
            "what is configured is the default"
        );
    }
    for (flow, settings, made) in [
        ("search", json!({}), 2),
        ("search", json!({ "max_turn_iterations": 1 }), 1),
        // With a script, the API's `auto` is the sample, so the flow's own name is used instead.
        ("search", json!({ "search.max_turn_iterations": 3 }), 3),
        ("search", json!({ "search": { "max_turn_iterations": 3 } }), 3),
    ] {
        let (status, run) = served.post("/api/runs?wait=1", &json!({ "question": QUESTION, "flow": flow, "settings": settings })).await;
        assert_eq!((status, iterations(&run)), (201, Some(made)), "{run}");
    }
    for (settings, words) in [
        (json!({ "max_turn_iterations": 11 }), "a whole number from 1 to 10"),
        (json!({ "max_turn_iterations": "3" }), "cannot be \"3\""),
        (json!({ "max_turns": 3 }), "Its settings are: max_turn_iterations, enabled_tools"),
        (json!({ "each": {} }), "no setting"),
        (json!([]), "map"),
    ] {
        let (status, refused) = served.post("/api/runs", &json!({ "question": QUESTION, "flow": "search", "settings": settings })).await;
        assert!(matches!(status, 400 | 422) && refused["error"]["message"].as_str().unwrap().contains(words), "{status} {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_langserve_takes_settings_as_configurable() {
    let home = Home::new();
    let config = home.config("[flows.search]\nmax_turn_iterations = 2\n");
    let served = home.serve(&home.searching(), &["--config", &config]);
    let invoke = |configurable: Value| json!({ "input": { "question": QUESTION }, "config": { "configurable": configurable } });
    let clients = json!({ "thread_id": "t", "checkpoint_ns": "", "user_id": "u", "__pregel_resuming": true, "langgraph_request_id": "r" });
    for (path, configurable, made) in [
        ("search", json!({}), 2),
        ("search", clients, 2),
        ("search", json!({ "max_turn_iterations": 1 }), 1),
        ("graph", json!({ "search.max_turn_iterations": 3 }), 3),
    ] {
        let (status, body) = served.post(&format!("/{path}/invoke"), &invoke(configurable)).await;
        assert_eq!((status, body["output"]["iterations"].as_u64()), (200, Some(made)), "{body}");
    }
    for (path, configurable, words) in [
        ("search", json!({ "max_turns": 3 }), "Its settings are: max_turn_iterations, enabled_tools"),
        ("search", json!({ "max_turn_iterations": 0 }), "from 1 to 10"),
        ("direct", json!({ "max_turn_iterations": 1 }), "the flow direct has no setting"),
        ("research", json!({ "rounds": 1 }), "the flow research has no settings"),
    ] {
        let (status, refused) = served.post(&format!("/{path}/invoke"), &invoke(configurable)).await;
        assert!(status == 422 && refused.to_string().contains(words), "{path}: {status} {refused}");
    }
    let schema = served.get("/search/config_schema").await.1;
    let turns = schema.pointer("/properties/configurable/properties/max_turn_iterations").unwrap();
    assert_eq!((&turns["minimum"], &turns["maximum"], &turns["type"]), (&json!(1), &json!(10), &json!("integer")));
}
