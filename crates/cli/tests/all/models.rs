//! Which model is used: how it is chosen, shown and recorded, and what happens without one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};

use crate::{CommandOutput, Home};

/// Without a script, on a machine without keys, servers and weights.
pub(crate) fn bare(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    for name in ["BATON_SCRIPT", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENAI_BASE_URL"] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", home.folder.path().join("config")).env("OLLAMA_HOST", "127.0.0.1:9");
    command
}

fn run(mut command: Command) -> CommandOutput {
    CommandOutput::of(command.output().unwrap())
}

#[test]
fn x4_with_nothing_at_all_there_is_still_an_answer_and_the_way_to_a_better_one() {
    let home = Home::new();
    let output = run(bare(&home, &["ask", "--flow", "direct", "What is a write-ahead log?"]));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.starts_with("Nothing in the evidence at hand answers this"), "{output:?}");
    for words in ["model extract", "baton models pull", "ANTHROPIC_API_KEY", "baton doctor"] {
        assert!(output.err.contains(words), "no {words:?} in {}", output.err);
    }
}

#[test]
fn doctor_prints_the_model_and_why_and_never_a_key() {
    let home = Home::new();
    let doctor = |keys: &[(&str, &str)], args: &[&str]| {
        let mut command = bare(&home, args);
        command.envs(keys.iter().copied());
        run(command)
    };
    let output = doctor(&[], &["doctor", "--json"]);
    let value: Value = serde_json::from_str(&output.out).unwrap();
    // These tests download nothing, and doctor prints what `ask` would use.
    assert_eq!((&value["model"]["by"], value["model"]["ways"].as_array().unwrap().len()), (&json!("extraction"), 6));
    let output = doctor(&[("BATON_NO_PULL", "0")], &["doctor", "--json"]);
    let value: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(value["model"]["by"], "embedded");
    assert!(value["model"]["ways"][4]["detail"].as_str().unwrap().contains("are downloaded when it is first used"), "{value}");
    let output = doctor(&[("OPENAI_API_KEY", "sk-very-secret")], &["doctor"]);
    assert!(output.out.starts_with("model openai/gpt-4.1-mini: "), "{}", output.out);
    assert!(!output.out.contains("sk-very-secret") && !output.err.contains("sk-very-secret"));
    let output = doctor(&[], &["doctor", "--model", "openai/gpt-4o"]);
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("OPENAI_API_KEY"), "{output:?}");
}

#[test]
fn a_name_that_is_none_is_an_error_with_the_nearest() {
    let home = Home::new();
    for (args, words) in [
        (&["ask", "x", "--model", "gpt-4o"][..], "openai/gpt-4o"),
        (&["ask", "x", "--model", "embedded/qwen"], "embedded/qwen2.5-coder-1.5b"),
        (&["ask", "x", "--model", "embedded/qwen2.5-coder-0.5b"], "baton models pull"),
        (&["models", "remove", "llama"], "embedded/qwen2.5-coder-1.5b"),
        (&["ask", "x", "--replay", "no-such-tape"], "no-such-tape"),
    ] {
        let output = run(bare(&home, args));
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        assert!(output.err.contains(words), "{args:?}: {output:?}");
    }
}

#[test]
fn a_wrong_configuration_is_an_error_with_its_line() {
    let home = Home::new();
    let path = home.folder.path().join("baton.toml");
    std::fs::write(&path, "model = \"extract\"\n[endpoints.x]\nurl = \"http://x\"\nkey = \"sk-123\"\n").unwrap();
    let output = run(bare(&home, &["doctor", "--config", path.to_str().unwrap()]));
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("line 4") && output.err.contains("baton.toml"), "{}", output.err);
}

#[test]
fn replies_of_a_server_are_streamed_recorded_and_played_back() {
    let home = Home::new();
    let url = openai(&["A log ", "that is ", "written first."]);
    let (config, tape) = (home.folder.path().join("baton.toml"), home.folder.path().join("tape.jsonl"));
    let text = format!("model = \"compat/here/small\"\n[endpoints.here]\nurl = \"{url}\"\nkey = {{ env = \"HERE_KEY\" }}\n");
    std::fs::write(&config, text).unwrap();
    let (config, tape) = (config.to_str().unwrap(), tape.to_str().unwrap());
    let ask = |more: &[&str]| {
        let mut command = bare(&home, &[&["ask", "What is a WAL?", "--flow", "direct", "--config", config], more].concat());
        command.env("HERE_KEY", "sk-very-secret");
        run(command)
    };
    let output = ask(&["--record", tape]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "A log that is written first.\n"), "{output:?}");
    assert!(output.err.contains("model compat/here/small (the configuration)"), "{}", output.err);
    assert!(!std::fs::read_to_string(tape).unwrap().contains("sk-very-secret"));
    assert!(!String::from_utf8_lossy(&std::fs::read(home.db()).unwrap()).contains("sk-very-secret"));

    let again = ask(&["--json"]);
    let deltas: Vec<Value> = again.lines().into_iter().filter(|line| line["event"] == "delta").collect();
    assert_eq!(deltas.len(), 3, "word by word: {again:?}");

    let output = run(bare(&home, &["ask", "What is a WAL?", "--flow", "direct", "--replay", tape, "--model", "compat/here/small"]));
    assert_eq!((output.code, output.out.as_str()), (Some(0), "A log that is written first.\n"), "{output:?}");
    let output = run(bare(&home, &["ask", "What is a LSM?", "--flow", "direct", "--replay", tape, "--config", config]));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.err.contains("WAL"), "the nearest is shown: {}", output.err);
}

/// The body of an HTTP request.
pub(crate) fn read_body(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

/// A server with OpenAI's API, streaming or not, for the duration of the test.
pub(crate) fn openai(words: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = read_body(&stream);
            if serde_json::from_slice::<Value>(&asked).unwrap()["stream"] != true {
                let message = json!({ "role": "assistant", "content": words.concat() });
                let choice = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
                let body = json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "small", "choices": choice }).to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
                continue;
            }
            let chunk = |delta: Value, finish: Value| {
                let choice = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
                format!("data: {}\n\n", json!({ "id": "x", "object": "chat.completion.chunk", "model": "small", "choices": choice }))
            };
            let mut body: String = words.iter().map(|word| chunk(json!({ "content": word }), Value::Null)).collect();
            body.push_str(&chunk(json!({}), json!("stop")));
            body.push_str("data: [DONE]\n\n");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}
