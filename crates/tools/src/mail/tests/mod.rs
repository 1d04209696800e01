//! Valid and invalid mails, the outbox in every state, and Gmail against a fake server.

mod gmail;
mod server;

use std::fs;
use std::os::unix::fs::symlink;

use super::outbox::{Outbox, State};
use super::*;

fn letter(to: &str, subject: &str, body: &str) -> MailRequest {
    MailRequest { to: vec![to.into()], cc: Vec::new(), subject: subject.into(), body: body.into(), attachments: Vec::new(), user: None }
}

fn settings(home: &tempfile::TempDir) -> Settings {
    Settings { from: Some("Baton <baton@example.org>".into()), outbox: home.path().join("outbox"), ..Settings::default() }
}

#[test]
fn letters_that_may_go_and_letters_that_may_not() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("outbox")).unwrap();
    fs::write(home.path().join("outbox/report.pdf"), b"%PDF").unwrap();
    fs::write(home.path().join("secret"), b"secret").unwrap();
    symlink(home.path().join("secret"), home.path().join("outbox/link.txt")).unwrap();
    symlink(home.path(), home.path().join("outbox/up")).unwrap();
    let own = crate::owner::own_folder(&home.path().join("outbox"), Some("ada"));
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("own.pdf"), b"%PDF-1.4").unwrap();
    let settings = Settings {
        recipients_allowed: vec!["@example.org".into(), "bo@other.net".into()],
        recipients_max: 2,
        body_bytes_max: 1000,
        ..settings(&home)
    };
    let fine = letter("ann@example.org", "Hello", "a *b*");
    let attached = |path: &str| MailRequest { attachments: vec![path.into()], ..fine.clone() };
    // The mail, and a word of the error, or nothing if it is valid.
    let cases = [
        (fine.clone(), ""),
        (letter("Ann Lee <ANN@Example.ORG>", "Grüße, 你好", "b"), ""),
        (letter("bo@other.net", "s", "b"), ""),
        (letter("cy@other.net", "s", "b"), "recipients_allowed"),
        (letter("ann@example.org.evil.net", "s", "b"), "recipients_allowed"),
        (letter("evil@evil.net, ann@example.org", "s", "b"), "no address"),
        (letter("ann@example.org\r\nBcc: evil@evil.net", "s", "b"), "one line"),
        (letter("Ann\nBcc: x@y.z <ann@example.org>", "s", "b"), "one line"),
        (letter("\"a b>\"@example.org", "s", "b"), "no address"),
        (letter("nobody", "s", "b"), "no address"),
        (letter("ann@example.org", "s\r\nBcc: evil@evil.net", "b"), "`subject`"),
        (letter("ann@example.org", "", "b"), "`subject`"),
        (letter("ann@example.org", &"x".repeat(300), "b"), "`subject`"),
        (letter("ann@example.org", "s", ""), "`body`"),
        (letter("ann@example.org", "s", &"x".repeat(2000)), "`body`"),
        (letter("ann@example.org", "s", "a\0b"), "control"),
        (MailRequest { to: vec![], ..fine.clone() }, "`to` is empty"),
        (MailRequest { cc: vec!["a@example.org".into(), "b@example.org".into()], ..fine.clone() }, "3 recipients"),
        (attached("report.pdf"), ""),
        (attached(&home.path().join("outbox/report.pdf").display().to_string()), ""),
        (attached("link.txt"), "not in a folder"),
        (attached("up/secret"), "not in a folder"),
        (attached("../secret"), "not in a folder"),
        (attached("/etc/passwd"), "not in a folder"),
        (attached("/proc/self/environ"), "not in a folder"),
        (attached("."), "not a file"),
        (attached("no\0thing"), "not in a folder"),
        // Files of other users: the operator's, and somebody else's.
        (MailRequest { user: Some("ada".into()), ..attached("report.pdf") }, "not in a folder"),
        (MailRequest { user: Some("ada".into()), ..attached(&home.path().join("outbox/report.pdf").display().to_string()) }, "not in a folder"),
        (MailRequest { user: Some("ada".into()), ..attached("../../report.pdf") }, "not in a folder"),
        (MailRequest { user: Some("ada".into()), ..attached("own.pdf") }, ""),
        (MailRequest { user: Some("bob".into()), ..attached("own.pdf") }, "not in a folder"),
    ];
    for (letter, wanted) in cases {
        match letter.compose(&settings, "<x@example.org>") {
            Ok(composed) => {
                assert_eq!(wanted, "", "{letter:?} went");
                let text = String::from_utf8(composed.bytes).unwrap();
                let head = text.split("\r\n\r\n").next().unwrap();
                assert!(head.is_ascii() && !head.contains("Bcc"), "{head}");
                assert!(head.contains("Message-ID: <x@example.org>"), "{head}");
            }
            Err(e) => assert!(!wanted.is_empty() && e.to_string().contains(wanted), "{letter:?}: {e}"),
        }
    }
}

#[test]
fn html_beside_the_text_is_clean() {
    let home = tempfile::tempdir().unwrap();
    let composed =
        letter("a@b.cd", "s", "<script>alert(1)</script>\n\n[x](javascript:alert(2)) **bold**").compose(&settings(&home), "<x@y.zz>").unwrap();
    let text = String::from_utf8(composed.bytes).unwrap();
    let html = text.split("text/html").nth(1).unwrap();
    assert!(html.contains("<strong>bold</strong>") && !html.contains("script"), "{html}");
}

#[tokio::test]
async fn a_dry_run_is_marked_and_sends_once() {
    let home = tempfile::tempdir().unwrap();
    let mail = Mail::new(Settings { outbox: home.path().join("o"), ..Settings::default() }).unwrap();
    assert_eq!(mail.look_up_mail("k").await.unwrap().done, Some(false));
    assert!(!home.path().join("o").join(outbox::digest("k")).exists(), "looking up leaves no traces");
    let first = mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await.unwrap();
    assert_eq!((first.outcome.as_str(), first.already), ("dry_run", false));
    assert!(first.detail.contains("nothing was sent") && fs::read_to_string(&first.path).unwrap().contains("Subject: s"));
    let second = mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await.unwrap();
    assert_eq!(second, SendResult { already: true, ..first });
    assert_eq!(mail.look_up_mail("k").await.unwrap().done, Some(true));
    let other = mail.send_mail(letter("a@b.cd", "another", "b"), "k", false).await.unwrap_err();
    assert!(other.to_string().contains("new key"), "{other}");
}

/// Puts a mail into a state, as left by a crash.
async fn left(settings: &Settings, key: &str, letter: &MailRequest, state: State) {
    let inner = Mail::new(settings.clone()).unwrap().inner;
    let mut slot = inner.intend(letter, key).await.unwrap();
    slot.turn(state).await.unwrap();
}

#[tokio::test]
async fn every_state_a_crash_can_leave() {
    let home = tempfile::tempdir().unwrap();
    // A port where nothing listens: sending certainly fails.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let smtp = SmtpSettings { host: "127.0.0.1".into(), port: Some(nobody), tls: Tls::None, ..SmtpSettings::default() };
    let settings = Settings { transport: Transport::Smtp(smtp), ..settings(&home) };
    let hello = letter("a@b.cd", "s", "b");
    // The state; the result of look_up; the result of sending then.
    let cases = [
        ("intended", State::Intended { draft: None }, Some(false), "nothing was sent"),
        ("refused", State::Refused { at_ms: 1, reply: "550 no".into(), again: false }, Some(false), "nothing was sent"),
        ("handed over", State::HandedOver { at_ms: 1, draft: None }, None, "not known"),
        ("confirmed", State::Confirmed { at_ms: 1, reply: "250 ok".into() }, Some(true), ""),
    ];
    for (key, state, done, wanted) in cases {
        left(&settings, key, &hello, state).await;
        let mail = Mail::new(settings.clone()).unwrap();
        assert_eq!(mail.look_up_mail(key).await.unwrap().done, done, "{key}");
        match mail.send_mail(hello.clone(), key, false).await {
            Ok(sent) => assert!(wanted.is_empty() && sent.already, "{key}"),
            Err(e) => assert!(!wanted.is_empty() && e.to_string().contains(wanted), "{key}: {e}"),
        }
    }
    let mail = Mail::new(settings.clone()).unwrap();
    // A person's decision, either way; never against a known state.
    assert_eq!(mail.settle_mail("handed over", false).await.unwrap().done, Some(false));
    assert!(mail.settle_mail("handed over", true).await.is_err());
    left(&settings, "doubt", &hello, State::HandedOver { at_ms: 1, draft: None }).await;
    assert!(mail.send_mail(hello.clone(), "doubt", true).await.unwrap_err().to_string().contains("nothing was sent"), "a person wants it again");
    left(&settings, "doubt 2", &hello, State::HandedOver { at_ms: 1, draft: None }).await;
    assert_eq!(mail.settle_mail("doubt 2", true).await.unwrap().done, Some(true));
    assert!(mail.settle_mail("doubt 2", false).await.is_err());
}

#[tokio::test]
async fn one_key_is_sent_by_one_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let mail = Mail::new(settings(&home)).unwrap();
    let held = Outbox::open(&home.path().join("outbox"), None).unwrap().take("k", true).await.unwrap();
    assert!(matches!(mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await, Err(MailError::Busy)));
    assert_eq!(mail.look_up_mail("k").await.unwrap().done, None);
    drop(held);
    assert!(mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await.is_ok());
}

#[tokio::test]
async fn settings_are_read_and_secrets_are_not_shown() {
    let text = r#"{"from": "a@b.cd", "outbox": "o", "transport": {"kind": "smtp", "host": "h", "user": "u", "password": {"env": "MAIL_PASSWORD"}}}"#;
    let settings: Settings = serde_json::from_str(text).unwrap();
    assert!(format!("{settings:?}").contains("Env(\"MAIL_PASSWORD\")"));
    let Transport::Smtp(smtp) = settings.transport else { panic!() };
    assert_eq!(smtp.tls, Tls::Starttls);
    assert!(smtp.password.read("password").await.unwrap_err().to_string().contains("MAIL_PASSWORD"));
    assert!(Mail::new(Settings { from: None, transport: Transport::Smtp(SmtpSettings::default()), ..Settings::default() }).is_err());
    assert!(serde_json::from_str::<Settings>(r#"{"frm": "x"}"#).is_err());
}

#[tokio::test]
async fn a_password_does_not_travel_in_the_clear() {
    let home = tempfile::tempdir().unwrap();
    let smtp = SmtpSettings { host: "192.0.2.1".into(), tls: Tls::None, user: Some("u".into()), ..SmtpSettings::default() };
    let mail = Mail::new(Settings { transport: Transport::Smtp(smtp), ..settings(&home) }).unwrap();
    let e = mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await.unwrap_err();
    assert!(e.to_string().contains("in the clear"), "{e}");
    assert_eq!(mail.look_up_mail("k").await.unwrap().done, Some(false));
}

/// An outbox in memory, as several servers would share one.
#[derive(Default)]
struct MemoryOutbox {
    states: std::sync::Mutex<std::collections::BTreeMap<String, (u64, Vec<u8>)>>,
    mails: std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>,
}

#[async_trait::async_trait]
impl SharedOutbox for MemoryOutbox {
    async fn state(&self, name: &str) -> Result<Option<(u64, Vec<u8>)>, String> {
        Ok(self.states.lock().unwrap().get(name).cloned())
    }

    async fn put_state(&self, name: &str, version: u64, state: &[u8]) -> Result<Option<u64>, String> {
        let mut states = self.states.lock().unwrap();
        if states.get(name).map_or(0, |(version, _)| *version) != version {
            return Ok(None);
        }
        states.insert(name.to_owned(), (version + 1, state.to_vec()));
        Ok(Some(version + 1))
    }

    async fn mail(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.mails.lock().unwrap().get(name).cloned())
    }

    async fn put_mail(&self, name: &str, mail: Option<&[u8]>) -> Result<(), String> {
        let mut mails = self.mails.lock().unwrap();
        match mail {
            Some(mail) => mails.insert(name.to_owned(), mail.to_vec()),
            None => mails.remove(name),
        };
        Ok(())
    }
}

/// Two servers on two machines: the second one takes over what the first one left in each state.
#[tokio::test]
async fn a_shared_outbox_has_the_mails_of_every_server() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Arc::new(MemoryOutbox::default());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let smtp = SmtpSettings { host: "127.0.0.1".into(), port: Some(nobody), tls: Tls::None, ..SmtpSettings::default() };
    let [left, right] = homes
        .each_ref()
        .map(|home| Mail::shared(Settings { transport: Transport::Smtp(smtp.clone()), ..settings(home) }, Some(shared.clone())).unwrap());
    let hello = letter("a@b.cd", "s", "b");
    assert_eq!(right.look_up_mail("never").await.unwrap().done, Some(false));
    for (key, state, done) in [
        ("intended", State::Intended { draft: None }, Some(false)),
        ("handed over", State::HandedOver { at_ms: 1, draft: None }, None),
        ("confirmed", State::Confirmed { at_ms: 1, reply: "250 ok".into() }, Some(true)),
    ] {
        let mut slot = left.inner.intend(&hello, key).await.unwrap();
        slot.turn(state).await.unwrap();
        drop(slot);
        assert_eq!(right.look_up_mail(key).await.unwrap().done, done, "{key}");
        match right.send_mail(hello.clone(), key, false).await {
            Ok(sent) => assert!(key == "confirmed" && sent.already && sent.path.is_empty(), "{key}: {sent:?}"),
            // The text of the mail came from the shared outbox: the server was tried.
            Err(e) => assert!(e.to_string().contains(if key == "intended" { "nothing was sent" } else { "not known" }), "{key}: {e}"),
        }
    }
    assert!(!shared.mails.lock().unwrap().contains_key(&outbox::digest("confirmed")), "a text is kept until it is sent");
}

/// The first server is slow and still at work while the second one takes over: one of them hands the mail over.
#[tokio::test]
async fn of_two_servers_one_hands_a_mail_over() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let shared = Arc::new(MemoryOutbox::default());
    let [left, right] = homes.each_ref().map(|home| Mail::shared(settings(home), Some(shared.clone())).unwrap());
    let hello = letter("a@b.cd", "s", "b");
    let mut first = left.inner.intend(&hello, "k").await.unwrap();
    let mut second = right.inner.intend(&hello, "k").await.unwrap();
    second.turn(State::HandedOver { at_ms: 1, draft: None }).await.unwrap();
    assert!(matches!(first.turn(State::HandedOver { at_ms: 2, draft: None }).await, Err(MailError::Busy)));
    drop(first);
    assert_eq!(left.look_up_mail("k").await.unwrap().done, None);
}
