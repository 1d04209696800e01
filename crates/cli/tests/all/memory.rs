//! R7, R8, C7 on the command line: notes and their deletion; conversations as CSV.

use flows::chat::{COLUMNS, Row};
use serde_json::{Value, json};

use crate::{CommandOutput, Home};

/// A script for the lookup flows, with one tool that has results.
const WORLD: &str = r#"
when tool registry.tools reply {"text": "", "spans": [], "data": {"tools": [{"name": "docs.search", "description": "Finds.", "read_only": true, "schema": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}}]}}
when tool docs.search    reply {"text": "The bridge was built in 1901.", "data": null, "spans": []}
when tool search.search  reply {"text": "The bridge was built in 1901.", "data": {"confidence": 0.5}, "spans": []}
when model plan text~bridge   reply {"steps": [{"tool": "docs.search", "arguments": {"query": "bridge"}}]}
when model plan               reply {"stages": ["search"]}
when model intent        reply {"intent": "search"}
when model reflect       reply {"goal_achieved": true, "should_continue": false}
when model answer        reply "It was built in 1901."
"#;

const HARD: &str = "Step by step: how old is the Kurpark bridge, and compare it with the tower.";

impl Home {
    fn ask(&self, question: &str, more: &[&str]) -> CommandOutput {
        let script = self.script(WORLD);
        self.well(&[&["ask", question, "--script", &script][..], more].concat())
    }

    /// How often each run of a flow called a model for a purpose, newest first.
    fn calls(&self, flow: &str, purpose: &str) -> Vec<usize> {
        let of_flow = self.runs().into_iter().filter(|run| run["flow"] == flow);
        let count = |run: Value| {
            let shown = self.well(&["runs", "show", run["run"].as_str().unwrap(), "--json"]).lines().remove(0);
            let is_call = |event: &&Value| event["event"] == "asked" && event["effect"]["call_model"]["purpose"] == purpose;
            shown["history"]["events"].as_array().unwrap().iter().filter(is_call).count()
        };
        of_flow.map(count).collect()
    }
}

#[test]
fn r8_a_plan_that_worked_is_used_for_a_similar_request_also_behind_the_front_door() {
    for flow in ["reason", "auto"] {
        let home = Home::new();
        home.ask(HARD, &["--flow", flow]);
        home.ask("step by step, how old is the Kurpark bridge? Compare it with the tower!", &["--flow", flow]);
        assert_eq!(home.calls("reason", "plan"), [0, 1], "{flow}");
        home.ask("Step by step: how old is the Stadtpark bridge, and compare it with the tower.", &["--flow", flow]);
        assert_eq!(home.calls("reason", "plan")[0], 1, "another bridge is planned for itself");

        let listed = home.well(&["memory", "list"]).out;
        assert!(listed.contains("reason") && listed.contains("plan") && listed.contains("bridge"), "{listed}");
        let notes = home.well(&["memory", "list", "--json"]).lines();
        assert_eq!((notes.len(), &notes[0]["reach"]), (2, &json!("user")));
        home.well(&["memory", "forget", &notes[0]["note"].to_string()]);
        home.baton(&["memory", "forget", &notes[0]["note"].to_string()]).complains(2, &["there is no note", "baton memory list"]);
        assert!(home.well(&["memory", "forget", "--all"]).out.contains("forgot 1 note"));
        home.ask(HARD, &["--flow", flow]);
        assert_eq!(home.calls("reason", "plan")[0], 1, "what was forgotten is planned anew");
    }
}

#[test]
fn r7_what_a_user_likes_holds_for_every_run() {
    let home = Home::new();
    let way = |home: &Home| home.ask("Why is the sky blue?", &["--flow", "reason", "--json"]).lines().pop().unwrap()["output"]["way"].clone();
    assert_eq!(way(&home), "direct");
    home.well(&["memory", "prefer", "way", "agentic"]);
    assert_eq!(way(&home), "agentic");
    assert!(home.well(&["memory", "list"]).out.contains("way \"agentic\""));
    home.well(&["memory", "prefer", "way"]);
    assert_eq!(way(&home), "direct");
    home.baton(&["memory", "prefer", "way", "sideways"]).complains(2, &["direct or agentic"]);
    home.baton(&["memory", "prefer", "colour", "red"]).complains(2, &["there is no preference", "strict (yes or no)"]);
    home.baton(&["memory", "forget"]).complains(2, &["--all"]);
}

#[test]
fn c3_the_same_question_in_a_thread_is_not_searched_again() {
    let home = Home::new();
    let executed = |thread: &str| {
        let output = home.ask("When was the old bridge built?", &["--flow", "chat", "--thread", thread, "--json"]);
        output.lines().pop().unwrap()["output"]["executed_stages"].clone()
    };
    assert_eq!((executed("t"), executed("t"), executed("u")), (json!(["search"]), json!([]), json!(["search"])));
}

fn hostile() -> Vec<Row> {
    let cells = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        "\r\n=1",
        "'=1",
        "\"quoted\", and more",
        "two\r\nlines\n",
        "'",
        "ä 🦀",
        "\u{feff}bom",
        "\u{1b}[31mred",
        " ",
    ];
    let row = |(at, text): (usize, &&str)| Row {
        query: (*text).to_owned(),
        turn: 3 * at as u64 + 1,
        search_results: (*text).to_owned(),
        search_confidence: Some(0.1 + 0.2),
        reviewed_summary: (*text).to_owned(),
        insights_confidence: Some(1.0),
        ..Row::default()
    };
    cells.iter().enumerate().map(row).collect()
}

#[test]
fn c7_rows_go_in_and_come_out_to_the_byte() {
    let home = Home::new();
    let text = flows::chat::export(&hostile()).unwrap();
    let file = home.folder.path().join("state.csv");
    std::fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    assert!(home.well(&["threads", "import", file]).out.contains("14 rows are now in thread state"));
    assert_eq!(home.well(&["threads", "export", "state"]).out, text);
    let to = home.folder.path().join("again.csv");
    let export = ["threads", "export", "state", "--to", to.to_str().unwrap()];
    home.well(&export);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), text);
    home.baton(&export).complains(2, &["exists"]);

    assert!(home.well(&["threads", "import", file]).out.contains("were already in"), "the same file again changes nothing");
    assert_eq!((home.runs().len(), home.well(&["threads", "export", "state"]).out), (1, text.clone()));
    let other = text.replace("quoted", "changed");
    std::fs::write(home.folder.path().join("state.csv"), other).unwrap();
    home.baton(&["threads", "import", file]).complains(2, &["thread state exists", "--thread"]);
    home.well(&["threads", "import", file, "--thread", "other"]);
    assert_eq!(home.well(&["threads", "export", "state"]).out, text);
    assert!(home.well(&["threads", "show", "other"]).out.contains("changed"));
}

#[test]
fn c7_a_file_that_is_wrong_is_not_imported_at_all() {
    let home = Home::new();
    let cases: [(&[u8], &str); 5] = [
        (b"query,turn\ngood,1\nbad,x\n", "row 3: turn must be a whole number"),
        (b"query,colour\ngood,red\n", "row 1: there is no column \"colour\""),
        (b"query\n", "it has no rows"),
        (b"query\n\xff\xfe\n", "not UTF-8"),
        (b"", "\"query\" is missing"),
    ];
    for (bytes, why) in cases {
        let file = home.folder.path().join("bad.csv");
        std::fs::write(&file, bytes).unwrap();
        home.baton(&["threads", "import", file.to_str().unwrap()]).complains(2, &["bad.csv", why]);
    }
    home.baton(&["threads", "import", "no-such.csv"]).complains(2, &["no-such.csv"]);
    home.baton(&["threads", "list"]).complains(3, &["no database"]);
}

#[test]
fn c7_what_was_asked_is_exported_and_an_imported_thread_goes_on() {
    let home = Home::new();
    home.ask("When was the old bridge built?", &["--flow", "chat", "--thread", "t"]);
    home.ask("=HYPERLINK(\"x\")", &["--flow", "direct", "--thread", "t"]);
    let csv = home.well(&["threads", "export", "t"]).out;
    let rows = flows::chat::import(&csv).unwrap();
    assert_eq!(csv.lines().next(), Some(COLUMNS.join(",").as_str()));
    assert_eq!((rows.len(), rows[0].turn, rows[0].search_confidence, rows[1].turn), (2, 1, Some(0.5), 2));
    assert_eq!((rows[1].query.as_str(), rows[1].search_results.as_str()), ("=HYPERLINK(\"x\")", "It was built in 1901."));
    let file = home.folder.path().join("t.csv");
    std::fs::write(&file, &csv).unwrap();
    home.well(&["threads", "import", file.to_str().unwrap(), "--thread", "copy"]);
    home.ask("And the tower?", &["--flow", "chat", "--thread", "copy"]);
    let copied = flows::chat::import(&home.well(&["threads", "export", "copy"]).out).unwrap();
    assert_eq!((&copied[..2], copied[2].turn, copied[2].query.as_str()), (&rows[..], 3, "And the tower?"));
}

#[test]
fn c10_review_and_insights_are_computed_for_the_export() {
    let home = Home::new();
    let world = r#"
when model intent text~Summarize reply {"intent": "summarize"}
when model intent reply {"intent": "search"}
when model plan text~Summarize reply {"stages": ["summarize"]}
when model plan reply {"stages": ["search"]}
when tool search.search query~tower reply {"text": "The bridge was built in 1901. The tower is 35 metres tall.", "data": {"confidence": 0.9}, "spans": []}
when tool search.search reply {"text": "The bridge was built in 1901.", "data": {"confidence": 0.5}, "spans": []}
when model answer text~tower reply "The tower is 35 metres tall."
when model answer reply "The bridge was built in 1901."
when tool summary.summarize reply {"text": "", "data": {"summary": "The bridge was built in 1901. The tower is 99 metres tall.", "confidence": 0.6}, "spans": []}
"#;
    let script = home.script(world);
    for question in ["When was the old bridge built?", "How tall is the tower?", "Summarize"] {
        home.well(&["ask", question, "--script", &script, "--flow", "chat", "--thread", "t"]);
    }
    let rows = flows::chat::import(&home.well(&["threads", "export", "t"]).out).unwrap();
    assert_eq!((rows[0].insights.as_str(), rows[0].insights_confidence), ("The bridge was built in 1901.", Some(0.5)));
    assert_eq!((rows[1].insights.as_str(), rows[1].insights_confidence), ("The tower is 35 metres tall.", Some(0.9)), "what the turn added");
    assert_eq!((rows[2].reviewed_summary.as_str(), rows[2].review_confidence), ("The bridge was built in 1901.", Some(0.5)), "{:?}", rows[2]);
    assert_eq!(rows[2].summary_confidence, Some(0.6));
}

#[test]
fn r7_conversations_expire_if_configured() {
    let home = Home::new();
    let day_ms = 86_400_000;
    let now_ms = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let kept = |thread: &str, days_ago: i64| {
        let (at_ms, thread) = (now_ms - days_ago * day_ms, graph::ThreadId::from(thread));
        let store = store::SqliteStore::open(home.db(), store::SqliteSettings::default()).unwrap();
        let work = async {
            let lease = store::Store::claim(&store, &thread, "test", at_ms, at_ms + 1).await.unwrap();
            let run = graph::RunId::from(format!("run-{thread}"));
            let new = store::NewRun { flow: "direct".into(), parent: None, title: "old".into(), user: graph::UserId::default() };
            let first =
                store::Commit { new: Some(new), status: Some(store::Status::Done), release: true, ..store::Commit::new(run, lease, at_ms, 0) };
            store::Store::commit(&store, first).await.unwrap();
        };
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    };
    kept("ancient", 40);
    kept("recent", 3);
    let threads = || {
        let lines = home.well(&["threads", "list", "--json"]).lines();
        let mut names: Vec<String> = lines.iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    home.ask("Why?", &["--flow", "direct", "--thread", "new"]);
    assert_eq!(threads(), ["ancient", "new", "recent"], "off by default");
    let config = home.folder.path().join("baton.toml");
    std::fs::write(&config, "[memory]\nconversation_days = 30\n").unwrap();
    let config = config.to_str().unwrap();
    home.ask("Why?", &["--flow", "direct", "--thread", "new", "--config", config]);
    assert_eq!(threads(), ["new", "recent"]);
    assert!(home.runs().iter().all(|run| run["run"] != "run-ancient"), "with its runs");
    let report = home.well(&["doctor", "--model", "extract", "--config", config]).out;
    assert!(report.contains("deleted after 30 days without use"), "{report}");
    std::fs::write(config, "[memory]\nconversation_days = -1\n").unwrap();
    home.baton(&["doctor", "--config", config]).complains(2, &["conversation_days", "line 2"]);
}
