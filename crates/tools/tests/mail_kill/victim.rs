//! The process that is killed: `victim SETTINGS send|look_up|settle KEY [yes|no]`, with the mail settings as JSON. Sends the mail of the
//! key, or prints the lookup result as JSON.

use baton_tools::mail::{Mail, MailRequest, Settings};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) async fn live(words: &[String]) -> Result<()> {
    let [settings, what, key, rest @ ..] = words else { return Err("usage: victim SETTINGS send|look_up|settle KEY [yes|no]".into()) };
    let mail = Mail::new(serde_json::from_str::<Settings>(settings)?)?;
    let result = match what.as_str() {
        "send" => match mail.send_mail(letter(key), key, false).await {
            Ok(sent) => json!(sent),
            Err(e) => json!({ "error": e.to_string() }),
        },
        "look_up" => json!(mail.look_up_mail(key).await?),
        "settle" => json!(mail.settle_mail(key, rest == ["yes"]).await?),
        _ => return Err(format!("victim: what is {what:?}?").into()),
    };
    println!("{result}");
    Ok(())
}

fn letter(key: &str) -> MailRequest {
    // Long enough that a kill can fall into the middle of it.
    let body = format!("# {key}\n\n{}", "Some *words* that fill the mail.\n".repeat(2_000));
    MailRequest {
        to: vec!["ann@example.org".into()],
        cc: vec!["bo@example.org".into()],
        subject: format!("Mail {key}"),
        body,
        attachments: Vec::new(),
        user: None,
    }
}
