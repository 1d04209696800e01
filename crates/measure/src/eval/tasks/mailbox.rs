//! A local mailbox: an SMTP server on a loopback port that stores every accepted mail, so that a mail counts only if it was transferred.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Limit of an SMTP line.
const LINE_BYTES_MAX: u64 = 4_096;
const MAIL_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mail {
    /// The envelope's recipients.
    pub(super) to: Vec<String>,
    pub(super) subject: String,
    /// Headers and parts, with quoted-printable decoded.
    pub(super) text: String,
}

pub(super) struct Mailbox {
    pub(super) port: u16,
    mails: Arc<Mutex<Vec<Mail>>>,
    serving: JoinHandle<()>,
}

impl Mailbox {
    pub(super) async fn open() -> io::Result<Mailbox> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let kept = mails.clone();
        let serving = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let kept = kept.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve(caller, &kept).await {
                        tracing::debug!("mailbox: {error}");
                    }
                });
            }
        });
        Ok(Mailbox { port, mails, serving })
    }

    pub(super) fn mails(&self) -> Vec<Mail> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(caller: TcpStream, kept: &Mutex<Vec<Mail>>) -> io::Result<()> {
    let mut caller = BufReader::new(caller);
    let mut to = Vec::new();
    caller.write_all(b"220 mailbox ESMTP\r\n").await?;
    while let Some(line) = read_line(&mut caller).await? {
        let reply: &str = match line.get(..4).unwrap_or_default().to_ascii_uppercase().as_str() {
            "EHLO" => "250-mailbox\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
            "RCPT" => {
                to.extend(line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(address, _)| address.to_owned()));
                "250 ok\r\n"
            }
            "DATA" => {
                caller.write_all(b"354 send it\r\n").await?;
                let Some(raw) = read_mail(&mut caller).await? else { return Ok(()) };
                let mail = Mail { to: std::mem::take(&mut to), subject: subject(&raw), text: decoded(&raw) };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
                "250 kept\r\n"
            }
            "RSET" => {
                to.clear();
                "250 ok\r\n"
            }
            "QUIT" => {
                caller.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            "HELO" | "MAIL" | "NOOP" => "250 ok\r\n",
            _ => "502 not known\r\n",
        };
        caller.write_all(reply.as_bytes()).await?;
    }
    Ok(())
}

/// A line without its end; `None` when the connection was closed.
async fn read_line(caller: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = caller.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()))
}

/// A complete mail; `None` if it was interrupted or is too large.
async fn read_mail(caller: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut mail = String::new();
    while let Some(line) = read_line(caller).await? {
        if line == "." {
            return Ok(Some(mail));
        }
        mail.push_str(line.strip_prefix('.').unwrap_or(&line));
        mail.push('\n');
        if mail.len() > MAIL_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(None)
}

fn subject(raw: &str) -> String {
    let mut lines = raw.lines().take_while(|line| !line.is_empty()).skip_while(|line| !line.starts_with("Subject: "));
    let first = lines.next().and_then(|line| line.strip_prefix("Subject: ")).unwrap_or_default();
    let more: String = lines.take_while(|line| line.starts_with([' ', '\t'])).map(|line| format!(" {}", line.trim())).collect();
    format!("{first}{more}")
}

/// Decodes quoted-printable parts; other encodings are left unchanged.
fn decoded(raw: &str) -> String {
    if !raw.to_ascii_lowercase().contains("quoted-printable") {
        return raw.to_owned();
    }
    let joined = raw.replace("=\n", "");
    let mut bytes = Vec::with_capacity(joined.len());
    let mut rest = joined.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'=').and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mail_is_kept_with_its_envelope() {
        let mailbox = Mailbox::open().await.unwrap();
        let mut line = TcpStream::connect(("127.0.0.1", mailbox.port)).await.unwrap();
        let talk = "EHLO me\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nRCPT TO:<c@x.example>\r\nDATA\r\nSubject: Hello\r\n\
                    Content-Transfer-Encoding: quoted-printable\r\n\r\nCaf=C3=A9 is =\r\nopen\r\n..dot\r\n.\r\nQUIT\r\n";
        line.write_all(talk.as_bytes()).await.unwrap();
        let mut replies = String::new();
        line.read_to_string(&mut replies).await.unwrap();
        assert!(replies.contains("250 kept") && replies.ends_with("221 bye\r\n"), "{replies}");
        let mails = mailbox.mails();
        assert_eq!((mails.len(), mails[0].to.join(" ").as_str(), mails[0].subject.as_str()), (1, "b@x.example c@x.example", "Hello"));
        assert!(mails[0].text.contains("Café is open") && mails[0].text.contains("\n.dot\n"), "{}", mails[0].text);
    }

    #[tokio::test]
    async fn a_mail_that_broke_off_is_not_kept() {
        let mailbox = Mailbox::open().await.unwrap();
        let mut line = TcpStream::connect(("127.0.0.1", mailbox.port)).await.unwrap();
        line.write_all(b"EHLO me\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\nSubject: Half").await.unwrap();
        line.shutdown().await.unwrap();
        let mut replies = String::new();
        line.read_to_string(&mut replies).await.unwrap();
        assert_eq!(mailbox.mails(), []);
    }
}
