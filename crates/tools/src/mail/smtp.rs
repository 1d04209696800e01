//! SMTP in two phases: the dialogue before the mail (nothing is sent yet) and the mail itself.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use tokio::time::timeout;

use super::settings::{Smtp, Tls};
use super::{MailError, TransportResult};

/// Offered mechanisms; servers without any of these are rare.
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Runs the dialogue up to the mail, records that the mail is about to be sent, and transfers it.
pub(super) async fn send(
    smtp: &Smtp,
    from: &str,
    to: &[String],
    mail: &[u8],
    note: impl Future<Output = Result<(), MailError>>,
) -> Result<TransportResult, MailError> {
    let patience = Duration::from_secs(smtp.timeout_seconds.max(1));
    let mut connection = match timeout(patience, connect(smtp)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(SetupError::Settings(e))) => return Err(e),
        Ok(Err(SetupError::Smtp(e))) => return Ok(refusal(&e, "before the mail was sent")),
        Err(_) => return Ok(timed_out(smtp, "connect")),
    };
    match timeout(patience, introduce(&mut connection, from, to, mail)).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Ok(refusal(&e, "before the mail was sent")),
        Err(_) => return Ok(timed_out(smtp, "take the recipients")),
    }
    // From here on the server may have accepted the mail whatever happens.
    note.await?;
    let handed = async {
        connection.command(Data).await?;
        connection.message(mail).await
    };
    match timeout(patience, handed).await {
        Ok(Ok(response)) => {
            let reply = response.message().collect::<Vec<_>>().join(" ");
            // It is accepted already; a failed QUIT changes nothing.
            let _ = timeout(Duration::from_secs(2), connection.quit()).await;
            Ok(TransportResult::Accepted { reply: format!("{} {reply}", response.code()) })
        }
        // Only a reply with a status code is a rejection; a broken connection is not.
        Ok(Err(e)) if e.status().is_some() => Ok(refusal(&e, "when it was handed the mail")),
        Ok(Err(e)) => Ok(TransportResult::Unknown { why: format!("the connection to {} broke while the mail was handed over: {e}", smtp.host) }),
        Err(_) => Ok(TransportResult::Unknown {
            why: format!("{} did not answer within {} s after it was handed the mail", smtp.host, smtp.timeout_seconds),
        }),
    }
}

enum SetupError {
    Settings(MailError),
    Smtp(Error),
}

impl From<Error> for SetupError {
    fn from(e: Error) -> Self {
        SetupError::Smtp(e)
    }
}

async fn connect(smtp: &Smtp) -> Result<AsyncSmtpConnection, SetupError> {
    let port = smtp.port.unwrap_or(match smtp.tls {
        Tls::Starttls => 587,
        Tls::Implicit => 465,
        Tls::None => 25,
    });
    if smtp.tls == Tls::None && smtp.user.is_some() && !is_here(&smtp.host) {
        let words = format!("a password would travel to {} in the clear: set `tls` to `starttls` or `implicit`", smtp.host);
        return Err(SetupError::Settings(MailError::Settings(words)));
    }
    let hello = ClientId::default();
    let at_once = if smtp.tls == Tls::Implicit { Some(parameters(smtp)?) } else { None };
    let mut connection = AsyncSmtpConnection::connect_tokio1((smtp.host.as_str(), port), None, &hello, at_once, None).await?;
    if smtp.tls == Tls::Starttls {
        connection.starttls(parameters(smtp)?, &hello).await?;
    }
    if let Some(user) = &smtp.user {
        let password = smtp.password.read("password of the SMTP user").await.map_err(SetupError::Settings)?;
        connection.auth(&MECHANISMS, &Credentials::new(user.clone(), password)).await?;
    }
    Ok(connection)
}

fn parameters(smtp: &Smtp) -> Result<TlsParameters, SetupError> {
    let mut parameters = TlsParameters::builder(smtp.host.clone());
    if let Some(file) = &smtp.authority_file {
        let pem = fs::read(file)
            .map_err(|e| SetupError::Settings(MailError::Settings(format!("make `authority_file` {} readable ({e})", file.display()))))?;
        parameters = parameters.add_root_certificate(Certificate::from_pem(&pem)?);
    }
    Ok(parameters.build()?)
}

async fn introduce(connection: &mut AsyncSmtpConnection, from: &str, to: &[String], mail: &[u8]) -> Result<(), Error> {
    let mut options = Vec::new();
    if !from.is_ascii() || to.iter().any(|address| !address.is_ascii()) {
        options.push(MailParameter::SmtpUtfEight);
    }
    if !mail.is_ascii() && connection.server_info().supports_feature(Extension::EightBitMime) {
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    connection.command(Mail::new(from.parse().ok(), options)).await?;
    // They were validated when the mail was composed.
    for address in to.iter().filter_map(|address| address.parse::<Address>().ok()) {
        connection.command(Rcpt::new(address, Vec::new())).await?;
    }
    Ok(())
}

fn refusal(e: &Error, when: &str) -> TransportResult {
    // A permanent error is final; an unreachable server may be reachable later.
    TransportResult::Refused { reply: format!("the mail server refused {when}: {e}"), again: !e.is_permanent() && !e.is_client() }
}

fn timed_out(smtp: &Smtp, what: &str) -> TransportResult {
    TransportResult::Refused { reply: format!("{} took more than {} s to {what}", smtp.host, smtp.timeout_seconds), again: true }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
