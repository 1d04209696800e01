//! Sessions: piped, and at a pseudo-terminal.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rexpect::session::{PtySession, spawn_command};

use crate::{CommandOutput, Home, LOOKS_UP};

/// A model that refers to earlier messages, and one that takes too long.
const TALK: &str = "\
when model answer text~slowly       reply \"At last.\" after 60s
when model answer text~Because      reply \"You asked that before.\"
when model answer                   reply \"Because.\" after 5ms tokens 30/4 usd 0.001
";

fn talk(home: &Home, args: &[&str]) -> Command {
    let script = home.script(TALK);
    home.command(&[&["chat", "--script", &script, "--flow", "direct"], args].concat())
}

fn piped(mut command: Command, lines: &str) -> CommandOutput {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    CommandOutput::of(child.wait_with_output().unwrap())
}

/// A terminal with a timeout for busy machines.
pub(crate) fn at_terminal(mut command: Command, home: &Home) -> PtySession {
    command.env("TERM", "xterm").env_remove("NO_COLOR").env("HOME", home.folder.path());
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    spawn_command(command, Some(60_000)).unwrap()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn lines_are_messages_of_one_thread_and_follow_ups_receive_earlier_ones() {
    let home = Home::new();
    let output = piped(talk(&home, &["--thread", "mine"]), "Why?\n\nWhy \\\nagain?\n");
    assert_eq!((output.code, output.out.as_str()), (Some(0), "Because.\nYou asked that before.\n"), "{output:?}");
    assert!(output.err.contains("go on with: baton chat --thread mine"), "{}", output.err);
    assert!(!output.err.contains('\u{1b}') && !output.err.contains('›'), "no prompt where nobody types: {}", output.err);
    assert_eq!(home.runs()[0]["title"], "Why \nagain?");
    // `ask` continues in the same thread, with the same history.
    let script = home.script(TALK);
    let asked = home.well(&["ask", "And why?", "--script", &script, "--flow", "direct", "--thread", "mine"]);
    assert_eq!(asked.out, "You asked that before.\n");
}

#[test]
fn commands_are_executed_and_unknown_ones_are_errors_that_name_the_nearest() {
    let home = Home::new();
    let lines = "/flwo\n/flow chess\n/flow\n/sources\nWhy?\n/thread\n/new\nWhy?\n/strict\n/docs nowhere\n/help\n/quit\nnever asked\n";
    let output = piped(talk(&home, &["--thread", "mine"]), lines);
    assert_eq!(output.code, Some(2), "the first that did not go well: {output:?}");
    for words in ["the nearest is /flow", "no flow \"chess\"", "thread chat-", "what nothing supports is removed", "nowhere is no folder"] {
        assert!(output.err.contains(words), "no {words:?} in {}", output.err);
    }
    for words in ["direct; there are: auto, direct, search", "nothing was answered yet", "thread mine, 2 messages: Why?", "/sources"] {
        assert!(output.out.contains(words), "no {words:?} in {}", output.out);
    }
    assert_eq!(output.out.matches("Because.").count(), 2, "a new thread has no history: {}", output.out);
    assert_eq!(home.runs().len(), 2);
}

#[test]
fn another_model_is_another_world_and_a_wrong_one_changes_nothing() {
    let home = Home::new();
    let mut command = crate::models::bare(&home, &["chat", "--flow", "direct"]);
    command.current_dir(home.folder.path());
    let output = piped(command, "/model gpt-4o\n/model extract\nWhy?\n");
    assert!(output.err.contains("openai/gpt-4o") && output.err.contains("model extract (--model)"), "{}", output.err);
    assert!(output.out.starts_with("Nothing in the evidence at hand"), "{output:?}");
}

#[test]
fn a_message_that_fails_leaves_the_session_and_gives_the_exit_code() {
    let home = Home::new();
    let script = home.script("when model answer text~bad fail refused \"no key\"\nwhen model answer reply \"Well.\"\n");
    let output = piped(home.command(&["chat", "--script", &script, "--flow", "direct"]), "A bad one\n/new\nA good one\n");
    assert_eq!((output.code, output.out.as_str()), (Some(1), "Well.\n"), "{output:?}");
    assert!(output.err.contains("no model answered: no key"), "{}", output.err);
}

#[test]
fn an_interrupt_cancels_the_run_and_keeps_the_session() {
    let home = Home::new();
    let mut child = talk(&home, &["--thread", "mine"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Think slowly\n").unwrap();
    let started = Instant::now();
    let is_running = || home.baton(&["runs", "list", "--json"]).lines().first().is_some_and(|run| run["status"] == "running");
    while !home.db().exists() || !is_running() {
        assert!(started.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    stdin.write_all(b"Why?\n").unwrap();
    drop(stdin);
    let output = CommandOutput::of(child.wait_with_output().unwrap());
    assert_eq!((output.code, output.out.as_str()), (Some(1), "Because.\n"), "{output:?}");
    assert!(output.err.contains("cancelled: Ctrl-C"), "{}", output.err);
    assert_eq!(home.runs()[1]["status"], "cancelled");
}

/// `› `, as rexpect shows it: it takes every byte for a character.
const PROMPT: &str = "\u{e2}\u{80}\u{ba} ";

#[test]
fn a_terminal_has_a_prompt_a_history_and_keys_that_mean_something() {
    let home = Home::new();
    let mut screen = at_terminal(talk(&home, &[]), &home);
    screen.exp_string("/help lists the commands").unwrap();
    screen.exp_string(PROMPT).unwrap();
    // Ctrl-C clears the line.
    screen.send("a thought that").unwrap();
    screen.flush().unwrap();
    screen.exp_string("thought that").unwrap();
    screen.send_control('c').unwrap();
    screen.exp_string(PROMPT).unwrap();
    screen.send_line("Why \\").unwrap();
    screen.send_line("not?").unwrap();
    screen.exp_string("Because.").unwrap();
    screen.exp_string("1 call, 34 tokens").unwrap();
    screen.exp_string(PROMPT).unwrap();
    // Ctrl-C while a run goes cancels it.
    screen.send_line("Think slowly").unwrap();
    screen.exp_string("answering").unwrap();
    screen.send_control('c').unwrap();
    screen.exp_string("cancelled: Ctrl-C").unwrap();
    screen.exp_string(PROMPT).unwrap();
    screen.send_line("And why?").unwrap();
    screen.exp_string("You asked that before.").unwrap();
    screen.exp_string(PROMPT).unwrap();
    // Ctrl-D ends.
    screen.send_control('d').unwrap();
    screen.exp_string("baton chat --thread chat-").unwrap();
    screen.exp_eof().unwrap();
    let history = home.folder.path().join("chat.history");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("Why \\nnot?") && kept.contains("And why?") && !kept.contains("a thought"), "{kept}");
    assert_eq!(home.runs().iter().filter(|run| run["title"] == "Why \nnot?").count(), 1);
}

/// The default flow starts a child run, which ends after its parent when both are cancelled.
#[test]
fn an_interrupt_at_a_terminal_cancels_a_run_with_a_child() {
    let home = Home::new();
    let script = home.script(&format!("when tool registry.tools reply {{\"text\": \"\", \"data\": {{\"tools\": []}}, \"spans\": []}}\n{TALK}"));
    let mut screen = at_terminal(home.command(&["chat", "--script", &script, "--flow", "auto"]), &home);
    screen.exp_string(PROMPT).unwrap();
    screen.send_line("Explain slowly what a volcano is").unwrap();
    screen.exp_string("answering").unwrap();
    screen.send_control('c').unwrap();
    screen.exp_string("cancelled: Ctrl-C").unwrap();
    screen.exp_string(PROMPT).unwrap();
    screen.send_line("Explain what a volcano is").unwrap();
    screen.exp_string("Because.").unwrap();
    screen.exp_string(PROMPT).unwrap();
    screen.send_control('d').unwrap();
    screen.exp_eof().unwrap();
}

#[test]
fn auto_shows_the_chosen_flow_and_its_children_under_it() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    let output = home.well(&["ask", "Look up what happens after a crash", "--flow", "auto", "--script", &script]);
    for words in [
        "→ search",
        "▸ search  run ",
        "· 1. docs.search {\"query\":\"crash\"}  Look for crashes",
        "✓ Look for crashes",
        "✓ search",
        "1 of 2 sentences supported, 1 source",
        "140 tokens",
    ] {
        assert!(output.err.contains(words), "no {words:?} in {}", output.err);
    }
    assert!(output.out.contains("The disk was 8 TB large [1]. *(not supported by the sources)*\n\n**Sources**"), "{}", output.out);
    let shown = home.well(&["runs", "show", &home.root("auto")]).out;
    assert!(shown.contains("▸ search  run ") && shown.contains("✓ Look for crashes"), "{shown}");
    // `--json` prints the events of the run itself.
    let lines = home.well(&["ask", "Look up what happens after a crash", "--flow", "auto", "--script", &script, "--json"]).lines();
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn sources_show_each_sentence_with_what_is_wrong_with_it() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    let output = piped(home.command(&["chat", "--script", &script, "--flow", "search"]), "What happens after a crash?\n/sources\n");
    assert_eq!(output.code, Some(0), "{output:?}");
    for words in ["[1] Recovery  https://example.org/wal", "  ✓ After a crash", "  ✗ The disk was 8 TB large", "8 TB is not in [1]"] {
        assert!(output.out.contains(words), "no {words:?} in {}", output.out);
    }
}

#[test]
fn a_plan_is_shown_changed_in_an_editor_and_what_was_approved_runs() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    for flow in ["search", "auto"] {
        let mut command = home.command(&["ask", "Look up what happens after a crash", "--flow", flow, "--approve", "--script", &script]);
        command.env("VISUAL", "sed -i s/crash/recovery/");
        let mut screen = at_terminal(command, &home);
        screen.exp_string("Run this plan").unwrap();
        screen.exp_string("docs.search").unwrap();
        screen.exp_string("(y/n/e").unwrap();
        screen.send_line("e").unwrap();
        screen.exp_string("your plan").unwrap();
        screen.exp_string("recovery").unwrap();
        screen.exp_string("(y/n/e").unwrap();
        screen.send_line("y").unwrap();
        screen.exp_regex("plan .*[0-9a-f]{16}.* approved, as you changed it").unwrap();
        screen.exp_string("Replayed from the log").unwrap();
        screen.exp_eof().unwrap();
    }
}

#[test]
fn a_plan_that_nobody_is_there_to_approve_waits() {
    let home = Home::new();
    let script = home.script(LOOKS_UP);
    for flow in ["search", "reason", "auto"] {
        let question = "Look up step by step with sources what happens after a crash";
        let asked = home.baton(&["ask", question, "--flow", flow, "--approve", "--script", &script]);
        asked.complains(4, &["docs.search", "answer with: baton runs answer", "yes"]);
        let run = home.root(flow);
        let answered = home.well(&["runs", "answer", &run, "yes", "--script", &script]);
        assert!(answered.err.contains(" approved"), "{flow}: {answered:?}");
    }
    home.baton(&["ask", "x", "--flow", "chat", "--approve"]).complains(2, &["the flow chat has no plan to approve", "auto, panel, reason"]);
}

#[test]
fn shell_completions_have_every_command() {
    let home = Home::new();
    for (shell, words) in
        [("bash", "complete -F _baton"), ("zsh", "#compdef baton"), ("fish", "complete -c baton"), ("elvish", "baton"), ("powershell", "baton")]
    {
        let script = home.well(&["completions", shell]).out;
        assert!(script.contains(words) && script.contains("approve") && script.contains("chat"), "{shell}");
    }
    home.baton(&["completions", "csh"]).complains(2, &["bash"]);
}

impl Home {
    fn root(&self, flow: &str) -> String {
        let runs = self.runs();
        runs.iter().find(|run| run["flow"] == flow && run["parent"].is_null()).unwrap()["run"].as_str().unwrap().to_owned()
    }
}
