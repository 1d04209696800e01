//! A fake of Gmail's API over real HTTP: drafts that disappear when sent, expired tokens, and failures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State as Held};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Day {
    Good,
    /// The access token is rejected.
    Expired,
    Busy,
    /// The request is executed, and the response is 500.
    FailsAfter,
    /// The request is not executed, and the response is 503.
    FailsBefore,
    /// The request is executed, and the response is invalid.
    Babbles,
}

#[derive(Default)]
struct FakeGmail {
    tokens: u32,
    drafts: BTreeMap<String, String>,
    sent: Vec<String>,
    /// Behaviour of the next requests that send a draft.
    days: VecDeque<Day>,
    /// The same for creating drafts.
    drafting: VecDeque<Day>,
    calls: u32,
    /// The whole account is forbidden.
    locked: bool,
}

type Shared = Arc<Mutex<FakeGmail>>;

async fn gate(Held(world): Held<Shared>, headers: HeaderMap, request: Request, next: Next) -> Response {
    {
        let mut world = world.lock().unwrap();
        world.calls += 1;
        let wanted = format!("Bearer access-{}", world.tokens);
        if world.tokens == 0 || headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()) != Some(&wanted) {
            return (StatusCode::UNAUTHORIZED, Json(json!({"error": {"code": 401, "message": "Invalid Credentials"}}))).into_response();
        }
    }
    next.run(request).await
}

async fn token(Held(world): Held<Shared>, body: String) -> Response {
    let mut world = world.lock().unwrap();
    if world.locked || !body.contains("refresh_token=r%3D1") || !body.contains("client_secret=c%2B2") || !body.contains("grant_type=refresh_token") {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant", "error_description": "Token has been expired or revoked."})))
            .into_response();
    }
    world.tokens += 1;
    Json(json!({"access_token": format!("access-{}", world.tokens), "expires_in": 3599, "token_type": "Bearer"})).into_response()
}

fn message_id(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap();
    line.trim_start_matches("Message-ID: <").trim_end_matches('>').to_owned()
}

fn sought(query: &BTreeMap<String, String>) -> String {
    query["q"].split("rfc822msgid:").nth(1).unwrap().to_owned()
}

async fn list_drafts(Held(world): Held<Shared>, Query(query): Query<BTreeMap<String, String>>) -> Json<Value> {
    let world = world.lock().unwrap();
    let found: Vec<_> = world.drafts.iter().filter(|(_, mail)| message_id(mail) == sought(&query)).map(|(id, _)| json!({"id": id})).collect();
    Json(if found.is_empty() { json!({"resultSizeEstimate": 0}) } else { json!({"drafts": found}) })
}

async fn list_sent(Held(world): Held<Shared>, Query(query): Query<BTreeMap<String, String>>) -> Json<Value> {
    assert!(query["q"].starts_with("in:sent "));
    let world = world.lock().unwrap();
    let found: Vec<_> =
        world.sent.iter().enumerate().filter(|(_, mail)| message_id(mail) == sought(&query)).map(|(i, _)| json!({"id": format!("m{i}")})).collect();
    Json(if found.is_empty() { json!({"resultSizeEstimate": 0}) } else { json!({"messages": found}) })
}

async fn get_draft(Held(world): Held<Shared>, Path(id): Path<String>) -> Response {
    match world.lock().unwrap().drafts.contains_key(&id) {
        true => Json(json!({"id": id})).into_response(),
        false => (StatusCode::NOT_FOUND, Json(json!({"error": {"code": 404, "message": "Requested entity was not found."}}))).into_response(),
    }
}

fn bad(day: Day) -> Option<Response> {
    match day {
        Day::Busy => {
            Some((StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")], Json(json!({"error": {"message": "Rate Limit Exceeded"}}))).into_response())
        }
        Day::FailsBefore => Some((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")], "down").into_response()),
        _ => None,
    }
}

async fn make_draft(Held(world): Held<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers[header::CONTENT_TYPE], "message/rfc822");
    let mut world = world.lock().unwrap();
    let day = world.drafting.pop_front().unwrap_or(Day::Good);
    if let Some(response) = bad(day) {
        return response;
    }
    let id = format!("d{}", world.drafts.len() + world.sent.len());
    world.drafts.insert(id.clone(), String::from_utf8(body.to_vec()).unwrap());
    Json(json!({"id": id})).into_response()
}

async fn send_draft(Held(world): Held<Shared>, Json(body): Json<Value>) -> Response {
    let mut world = world.lock().unwrap();
    let day = world.days.pop_front().unwrap_or(Day::Good);
    if day == Day::Expired {
        world.tokens = 40;
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": {"message": "expired"}}))).into_response();
    }
    if let Some(response) = bad(day) {
        return response;
    }
    let Some(mail) = world.drafts.remove(body["id"].as_str().unwrap()) else { return StatusCode::NOT_FOUND.into_response() };
    world.sent.push(mail);
    match day {
        Day::FailsAfter => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Day::Babbles => "<html>proxy</html>".into_response(),
        _ => Json(json!({"id": format!("m{}", world.sent.len() - 1)})).into_response(),
    }
}

async fn serve(world: Shared) -> String {
    let me = "/gmail/v1/users/me";
    let guarded = Router::new()
        .route(&format!("{me}/drafts"), get(list_drafts))
        .route(&format!("/upload{me}/drafts"), post(make_draft))
        .route(&format!("{me}/drafts/send"), post(send_draft))
        .route(&format!("{me}/drafts/{{id}}"), get(get_draft))
        .route(&format!("{me}/messages"), get(list_sent))
        .layer(from_fn_with_state(world.clone(), gate));
    let app = guarded.route("/token", post(token)).with_state(world);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

fn at(home: &tempfile::TempDir, address: &str) -> Settings {
    fs::write(home.path().join("refresh"), "r=1\n").unwrap();
    fs::write(home.path().join("secret"), "c+2\n").unwrap();
    let file = |name: &str| SecretPlace(Some(secret::KeySource::File(home.path().join(name))));
    let gmail = GmailSettings {
        client_id: "id".into(),
        client_secret: file("secret"),
        refresh_token: file("refresh"),
        base_url: address.into(),
        token_url: format!("{address}/token"),
        timeout_seconds: 5,
        settle_seconds: 0,
    };
    Settings { transport: Transport::Gmail(gmail), ..settings(home) }
}

#[tokio::test]
async fn good_and_bad_days_of_gmail() {
    use Day::*;
    // Behaviour of drafting, of sending; the outcome of send (a word of it); the result of look_up; mails sent in the end after resending
    // whatever was not done.
    type Case = (&'static [Day], &'static [Day], &'static str, Option<bool>);
    let cases: &[Case] = &[
        (&[], &[], "Gmail message m0", Some(true)),
        (&[], &[Expired], "Gmail message m0", Some(true)),
        (&[Busy, FailsBefore], &[Busy, Busy], "Gmail message m0", Some(true)),
        (&[Busy; 4], &[], "429", Some(false)),
        (&[FailsBefore; 4], &[], "503", Some(false)),
        (&[], &[Busy; 4], "429", Some(false)),
        (&[], &[FailsAfter], "Gmail message m0", Some(true)),
        (&[], &[FailsBefore], "not known", Some(false)),
        (&[], &[Babbles], "Gmail message m0", Some(true)),
    ];
    for (drafting, days, wanted, done) in cases {
        let home = tempfile::tempdir().unwrap();
        let world: Shared = Arc::default();
        let address = serve(world.clone()).await;
        world.lock().unwrap().days = days.iter().copied().collect();
        world.lock().unwrap().drafting = drafting.iter().copied().collect();
        let mail = Mail::new(at(&home, &address)).unwrap();
        let result = match mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await {
            Ok(sent) => sent.detail,
            Err(e) => e.to_string(),
        };
        let name = format!("{drafting:?} {days:?}");
        assert!(result.contains(wanted), "{name}: {result}");
        // After a crash another process looks it up.
        let mail = Mail::new(at(&home, &address)).unwrap();
        assert_eq!(mail.look_up_mail("k").await.unwrap().done, *done, "{name}");
        let sent = mail.send_mail(letter("a@b.cd", "s", "b"), "k", false).await.unwrap();
        assert_eq!(sent.already, *done == Some(true), "{name}");
        let world = world.lock().unwrap();
        assert_eq!((world.sent.len(), world.drafts.len()), (1, 0), "{name}");
        assert_eq!(format!("<{}>", message_id(&world.sent[0])), sent.message_id);
    }
}

#[tokio::test]
async fn what_gmail_cannot_look_up_is_left_to_a_person() {
    let home = tempfile::tempdir().unwrap();
    let world: Shared = Arc::default();
    let address = serve(world.clone()).await;
    let mut settings = at(&home, &address);
    let hello = letter("a@b.cd", "s", "b");
    // Handed over, then the draft was deleted: neither sent nor found.
    left(&settings, "gone", &hello, State::HandedOver { at_ms: 1, draft: Some("d9".into()) }).await;
    assert_eq!(Mail::new(settings.clone()).unwrap().look_up_mail("gone").await.unwrap().done, None);
    // Handed over recently, and still a draft: it may yet be sent.
    world.lock().unwrap().drafts.insert("d7".into(), "Message-ID: <x@y>\r\n".into());
    let Transport::Gmail(gmail) = &mut settings.transport else { panic!() };
    gmail.settle_seconds = 3600;
    left(&settings, "young", &hello, State::HandedOver { at_ms: now_ms(), draft: Some("d7".into()) }).await;
    assert_eq!(Mail::new(settings.clone()).unwrap().look_up_mail("young").await.unwrap().done, None);
    // The server cannot be queried at all.
    world.lock().unwrap().locked = true;
    world.lock().unwrap().tokens = 0;
    let looked = Mail::new(settings.clone()).unwrap().look_up_mail("young").await.unwrap();
    assert!(looked.done.is_none() && looked.why.contains("sign in again"), "{looked:?}");
    let e = Mail::new(settings).unwrap().send_mail(hello, "new", false).await.unwrap_err();
    assert!(e.to_string().contains("sign in again") && !e.to_string().contains("r=1"), "{e}");
}
