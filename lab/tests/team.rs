//! "Research X, write it up as a PDF and mail it to me": three agents, each a process of `baton agent`, a supervisor, an SMTP server.
//!
//! Once undisturbed, and then with one process killed in each story, agents and the supervisor in turn (`BATON_TEAM_KILLS` times): one mail
//! each time, and finished research is not repeated. `lab/peers/langserve` runs it with a mail server from PyPI.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_lab::kill::hunt::setting;
use baton_lab::sim::dice::Dice;
use baton_lab::team::{AGENTS, ME, Team, within};
use engine::result_of;
use graph::Outcome;
use serde_json::{Value, json};
use store::Status;

fn baton() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_flow_victim")).with_file_name("baton")
}

const STORY_MAX: Duration = Duration::from_secs(120);
/// The first model call of each agent, and of the supervisor.
const FIRST: [&str; 4] = ["triage", "document", "letter", "plan"];
/// A story is the supervisor's start, and each agent's part.
const PARTS: u64 = 4;

/// The output of the supervisor's run, if it has ended.
fn output(team: &Team, errand: u64) -> Option<Value> {
    let row = team.run(errand)?;
    match result_of(&row)?.outcome {
        Outcome::Done { output } => Some(output),
        other => panic!("errand {errand}: {other:?}"),
    }
}

fn check(team: &Team, errand: u64) {
    let output = output(team, errand).expect("it is over");
    assert_eq!(output["completed_capabilities"], json!(["research", "create_document", "send_mail"]), "errand {errand}: {}", output["answer"]);
    assert_eq!((&output["next"], team.mails(errand)), (&json!("FINISH"), 1), "errand {errand}");
}

#[test]
fn p1_the_documents_story_with_three_processes_and_one_mail_with_a_pdf() {
    let folder = tempfile::tempdir().unwrap();
    let mut team = Team::new(folder.path(), &baton());
    for name in AGENTS {
        team.start(name);
    }
    let ended = within(team.ask(1), STORY_MAX).expect("it ends");
    assert!(ended.status.success(), "{}\n{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    check(&team, 1);
    let output = output(&team, 1).unwrap();
    // Each agent added its contract, and the researcher's names a source.
    let contracts: Vec<Value> =
        output["messages"].as_array().unwrap().iter().filter_map(|turn| serde_json::from_str(turn["content"].as_str()?).ok()).collect();
    let done: Vec<&str> = contracts.iter().filter_map(|contract| contract["completed_capability"].as_str()).collect();
    assert_eq!(done, ["research", "create_document", "send_mail"], "{output}");
    let summary = &contracts[0]["data"]["research_summary"];
    assert!(
        summary["sources"][0].as_str().unwrap().contains("https://encyclopedia.example/Relay") && contracts[0]["data"]["tool_used"] == true,
        "{summary}"
    );
    let path = contracts[1]["data"]["document"]["path"].as_str().unwrap();
    assert!(std::fs::read(path).unwrap().starts_with(b"%PDF-"), "{path} is a PDF");
    let letters = team.letters();
    let mail = letters.iter().find(|letter| letter.contains("Subject: Errand 1")).expect("the mail is kept");
    // `%PDF-` in base64.
    assert!(mail.contains("JVBERi0") && mail.contains(ME) && mail.contains(".pdf"), "{mail:.2000}");
    assert_eq!((team.count(1, "triage"), team.count(1, "report"), team.count(1, "plan")), (1, 1, 1));
}

#[test]
fn p8_one_mail_and_one_research_however_processes_die() {
    let (seed, kills) = (setting("BATON_KILL_SEED", 20_261_115), setting("BATON_TEAM_KILLS", 12));
    println!("BATON_KILL_SEED={seed} BATON_TEAM_KILLS={kills}");
    let mut dice = Dice::new(&[seed, 7]);
    let folder = tempfile::tempdir().unwrap();
    let mut team = Team::new(folder.path(), &baton());
    for name in AGENTS {
        team.start(name);
    }
    // The first one runs in new processes; the second shows how long a story takes.
    let quiet = [0, kills + 1];
    let mut story_ms = 1;
    for errand in quiet {
        let started = Instant::now();
        within(team.ask(errand), STORY_MAX).expect("it ends");
        story_ms = u64::try_from(started.elapsed().as_millis()).unwrap().max(1);
        check(&team, errand);
    }
    let (mut confirmed, mut again) = (0, 0);
    // By victim: number of kills, and of those in the middle of its work.
    let mut killed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for errand in 1..=kills {
        let mut asking = team.ask(errand);
        let victim = (errand % 4) as usize;
        // One in three is at a random time, the others when the model has received the victim's call.
        let within_ms = if errand % 3 == 0 {
            story_ms * 11 / 10
        } else {
            while team.count(errand, FIRST[victim]) == 0 && asking.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // An agent's own part is short, and its model call is in the middle of it.
            story_ms / if victim == 3 { 1 } else { 4 * PARTS }
        };
        std::thread::sleep(Duration::from_millis(dice.below(within_ms.max(1))));
        let (name, is_at_work) = match AGENTS.get(victim) {
            Some(name) => {
                team.kill(name);
                (*name, team.start(name) > 0)
            }
            None => {
                asking.kill().unwrap();
                asking.wait().unwrap();
                ("supervisor", team.run(errand).is_none_or(|row| !row.status.is_over()))
            }
        };
        let tally = killed.entry(name).or_default();
        *tally = (tally.0 + 1, tally.1 + u64::from(is_at_work));
        within(asking, STORY_MAX).unwrap_or_else(|| panic!("errand {errand} does not end"));
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < STORY_MAX, "errand {errand} comes to no end: {:?}", team.run(errand));
            let run = match team.run(errand) {
                // It was killed before the run was in the database: nothing was promised, and the user asks again.
                None => {
                    within(team.ask(errand), STORY_MAX).expect("it ends");
                    continue;
                }
                Some(row) if row.status.is_over() => break,
                Some(row) => row,
            };
            let id = run.run.to_string();
            let arguments: Vec<String> = match run.status {
                Status::Asking => {
                    // The person checks the mailbox.
                    let is_there = team.mails(errand) > 0;
                    let sent = json!({ "text": "", "data": { "outcome": "sent", "message_id": "<seen>", "already": true, "path": "", "detail": "" }, "spans": [] });
                    let word = if is_there { json!({ "verdict": "done", "value": sent }) } else { json!({ "verdict": "again" }) };
                    *(if is_there { &mut confirmed } else { &mut again }) += 1;
                    vec!["runs".into(), "answer".into(), id, word.to_string(), "--json".into()]
                }
                _ => vec!["runs".into(), "resume".into(), id, "--json".into()],
            };
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            within(team.supervisor(&arguments).spawn().unwrap(), STORY_MAX).unwrap_or_else(|| panic!("errand {errand}: {arguments:?} does not end"));
        }
        check(&team, errand);
        // Journalled calls are not repeated; only those in flight when their own process was killed may be.
        let limit = |mine: bool| if mine { 2 } else { 1 };
        assert!(team.count(errand, "report") <= limit(victim == 0), "errand {errand} was researched {} times", team.count(errand, "report"));
        assert!(team.count(errand, "document") <= limit(victim == 1) && team.count(errand, "letter") <= limit(victim == 2), "errand {errand}");
        assert!(team.count(errand, "plan") <= limit(victim == 3), "errand {errand}");
    }
    // Nothing arrived late either.
    let all = || 0..=kills + 1;
    let mails: Vec<usize> = all().map(|errand| team.mails(errand)).collect();
    assert!(mails.iter().all(|&count| count == 1), "{mails:?}");
    for (name, (times, at_work)) in &killed {
        println!("{name}: killed {times} times, {at_work} of them at work");
    }
    println!("{kills} kills, {} errands, {} mails, each once; {confirmed} confirmed, {again} sent again at a person's word", kills + 2, mails.len());
    for what in ["plan", "report", "document", "letter"] {
        let asked: u64 = all().map(|errand| team.count(errand, what)).sum();
        println!("the model was asked for a {what} {asked} times for {} errands", kills + 2);
    }
}
