//! From a request to the bytes of a mail. Everything that could inject a header, a recipient or a foreign file is rejected here, before
//! anything is stored.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use pulldown_cmark::{Event, Options, Parser, html};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MailError, Settings, outbox};
use crate::beneath::{self, Links};
use crate::owner::own_folder;

const SUBJECT_CHARS_MAX: usize = 250;
/// RFC 5321 allows 254 for an address; a display name is added to that.
const MAILBOX_CHARS_MAX: usize = 400;
const ATTACHMENTS_MAX: usize = 20;

/// A mail as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailRequest {
    /// Whom it goes to: `ann@example.org` or `Ann Lee <ann@example.org>`.
    pub to: Vec<String>,
    /// Who gets a copy.
    #[serde(default)]
    pub cc: Vec<String>,
    /// One line.
    pub subject: String,
    /// The text, in Markdown. It goes out as it is and, beside that, as HTML.
    pub body: String,
    /// Files to attach: paths inside the outbox or the folder that documents are written to.
    #[serde(default)]
    pub attachments: Vec<String>,
    /// The sender; files of other users are not attached. Not set by the caller of the tool.
    #[serde(skip)]
    #[schemars(skip)]
    pub user: Option<String>,
}

pub(super) struct Composed {
    pub(super) bytes: Vec<u8>,
    pub(super) from: String,
    /// All addresses, including copies.
    pub(super) to: Vec<String>,
}

impl MailRequest {
    /// The same for the same mail.
    pub(super) fn digest(&self) -> String {
        outbox::digest(&serde_json::to_string(self).unwrap_or_default())
    }

    pub(super) fn compose(&self, settings: &Settings, message_id: &str) -> Result<Composed, MailError> {
        let from = sender(settings)?;
        let to = self.mailboxes("to", &self.to, settings)?;
        let cc = self.mailboxes("cc", &self.cc, settings)?;
        if to.is_empty() {
            return Err(MailError::Letter("`to` is empty: name at least one recipient".into()));
        }
        if to.len() + cc.len() > settings.recipients_max {
            return Err(MailError::Letter(format!("{} recipients are more than the {} allowed", to.len() + cc.len(), settings.recipients_max)));
        }
        let subject = self.subject.trim();
        if subject.is_empty() || subject.chars().count() > SUBJECT_CHARS_MAX || subject.chars().any(char::is_control) {
            return Err(MailError::Letter(format!("`subject` must be one line of 1 to {SUBJECT_CHARS_MAX} characters")));
        }
        if self.body.trim().is_empty() || self.body.len() > settings.body_bytes_max {
            return Err(MailError::Letter(format!("`body` must have 1 to {} bytes; attach what is longer", settings.body_bytes_max)));
        }
        if self.body.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            return Err(MailError::Letter("`body` has control characters: send plain Markdown".into()));
        }
        let addresses = to.iter().chain(&cc).map(|mailbox| mailbox.email.to_string()).collect();
        let mut message = Message::builder().from(from.clone()).subject(subject).message_id(Some(message_id.to_owned())).date_now();
        for mailbox in to {
            message = message.to(mailbox);
        }
        for mailbox in cc {
            message = message.cc(mailbox);
        }
        let text = MultiPart::alternative()
            .singlepart(SinglePart::plain(self.body.replace("\r\n", "\n")))
            .singlepart(SinglePart::html(format!("<!DOCTYPE html><html><body>{}</body></html>", html_of(&self.body))));
        let files = self.files(settings)?;
        let message = match files.is_empty() {
            true => message.multipart(text),
            false => message.multipart(files.into_iter().fold(MultiPart::mixed().multipart(text), MultiPart::singlepart)),
        };
        let message = message.map_err(|e| MailError::Letter(format!("the mail cannot be put together: {e}")))?;
        Ok(Composed { bytes: message.formatted(), from: from.email.to_string(), to: addresses })
    }

    fn mailboxes(&self, field: &str, given: &[String], settings: &Settings) -> Result<Vec<Mailbox>, MailError> {
        given
            .iter()
            .map(|text| mailbox(text).and_then(|mailbox| allowed(mailbox, settings)).map_err(|why| MailError::Letter(format!("`{field}`: {why}"))))
            .collect()
    }

    fn files(&self, settings: &Settings) -> Result<Vec<SinglePart>, MailError> {
        if self.attachments.len() > ATTACHMENTS_MAX {
            return Err(MailError::Letter(format!("{} attachments are more than the {ATTACHMENTS_MAX} allowed", self.attachments.len())));
        }
        let mut left = settings.attachments_bytes_max;
        let mut parts = Vec::new();
        for path in &self.attachments {
            let file = open_beneath(settings, self.user.as_deref(), path)?;
            let mut bytes = Vec::new();
            file.take(left + 1).read_to_end(&mut bytes).map_err(|e| MailError::Letter(format!("the attachment {path} cannot be read: {e}")))?;
            left = left
                .checked_sub(bytes.len() as u64)
                .ok_or_else(|| MailError::Letter(format!("the attachments are more than {} bytes together", settings.attachments_bytes_max)))?;
            let name = Path::new(path).file_name().map(|name| name.to_string_lossy().replace(char::is_control, "_")).unwrap_or_default();
            parts.push(Attachment::new(name).body(bytes, content_type(path)));
        }
        Ok(parts)
    }
}

pub(super) fn sender(settings: &Settings) -> Result<Mailbox, MailError> {
    match &settings.from {
        Some(from) => mailbox(from).map_err(|why| MailError::Settings(format!("`from` of the mail settings: {why}"))),
        // A dry run needs no sender address; `.invalid` is never delivered to.
        None => Ok(Mailbox::new(Some("Baton".into()), Address::new("baton", "dry-run.invalid").map_err(|e| MailError::Settings(e.to_string()))?)),
    }
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    if text.chars().any(char::is_control) || text.chars().count() > MAILBOX_CHARS_MAX {
        return Err("an address is one line of at most 400 characters".into());
    }
    let mailbox: Mailbox =
        text.trim().parse().map_err(|e| format!("{text:?} is no address ({e}); write name@example.org or Name <name@example.org>"))?;
    // An address must not end an SMTP command; lettre allows quoted local parts with any content.
    let address: &str = mailbox.email.as_ref();
    match address.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '\\' | ',' | ';')) {
        true => Err(format!("{text:?} has signs in its address that not every server understands")),
        false => Ok(mailbox),
    }
}

fn allowed(mailbox: Mailbox, settings: &Settings) -> Result<Mailbox, String> {
    let address = mailbox.email.to_string().to_lowercase();
    let fits = |rule: &String| match rule.strip_prefix('@') {
        Some(domain) => mailbox.email.domain().eq_ignore_ascii_case(domain),
        None => address == rule.to_lowercase(),
    };
    match settings.recipients_allowed.is_empty() || settings.recipients_allowed.iter().any(fits) {
        true => Ok(mailbox),
        false => Err(format!("{address} is not among `recipients_allowed` of the mail settings; ask the user to add it")),
    }
}

/// Opens an attachment beneath one of the allowed folders.
fn open_beneath(settings: &Settings, user: Option<&str>, path: &str) -> Result<File, MailError> {
    let mut why = String::new();
    for folder in std::iter::once(&settings.outbox).chain(&settings.attachment_folders).map(|folder| own_folder(folder, user)) {
        let folder = &folder;
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let given = PathBuf::from(path);
        let Ok(inside) = given.strip_prefix(folder).or_else(|_| given.strip_prefix(&whole)).map(Path::to_owned).or(match given.is_relative() {
            true => Ok(given.clone()),
            false => Err(()),
        }) else {
            continue;
        };
        let opened = File::open(folder).and_then(|folder| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = beneath::open(&folder, &inside, flags, Links::Inside)?;
            Ok(File::from(file))
        });
        match opened.and_then(|file| Ok((file.metadata()?.is_file(), file))) {
            Ok((true, file)) => return Ok(file),
            Ok((false, _)) => why = " (it is not a file)".into(),
            Err(e) => why = format!(" ({e})"),
        }
    }
    Err(MailError::Letter(format!(
        "the attachment {path} is not in a folder that may be sent from{why}; create it with the document tool, or ask the user to put it there"
    )))
}

fn content_type(path: &str) -> ContentType {
    let kind = match Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase().as_str() {
        "pdf" => "application/pdf",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "html" | "htm" => "text/html; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "txt" | "log" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        _ => "application/octet-stream",
    };
    ContentType::parse(kind).unwrap_or(ContentType::TEXT_PLAIN)
}

/// Deeper quotes and lists are written at this level.
const NESTING_MAX: usize = 32;

fn html_of(markdown: &str) -> String {
    let mut depth = 0_usize;
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).filter_map(|event| match event {
        Event::Start(_) => {
            depth += 1;
            (depth <= NESTING_MAX).then_some(event)
        }
        Event::End(_) => {
            depth = depth.saturating_sub(1);
            (depth < NESTING_MAX).then_some(event)
        }
        // The sanitizer takes quadratic time and memory on unbalanced tags, so it only gets tags written here.
        Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(without_tags(&html).into())),
        event => Some(event),
    });
    let mut out = String::new();
    html::push_html(&mut out, events);
    ammonia::clean(&out)
}

fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => out.push(c),
            _ => {}
        }
    }
    out
}
