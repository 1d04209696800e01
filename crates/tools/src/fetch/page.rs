//! Extracts text from a body: decodes it, keeps readable content, and splits it into passages at headings.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use dom_smoothie::{Config, Readability, TextMode};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use index::ReadLimits;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::get::FetchedBody;
use super::turns::PageTurns;
use crate::reader::{Job, JobResult, ReaderProcess};
use crate::time::rfc3339;

/// What is known about a body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) address: String,
    pub(crate) kind: String,
    pub(crate) changed: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(super) title: Option<String>,
    pub(super) at: Option<String>,
    pub(super) sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Section {
    /// The headings above it, outermost first.
    pub(super) heading: Option<String>,
    pub(super) text: String,
}

/// About the size of one citation.
const SECTION_BYTES_MAX: usize = 1_600;
/// Deeper than real pages; parsers of trees are recursive.
const DEPTH_MAX: usize = 400;
const ELEMENTS_MAX: usize = 60_000;
const STACK_BYTES: usize = 32 << 20;
const DOCUMENT_TEXT_BYTES_MAX: u64 = 32 << 20;
const READ_MAX: Duration = Duration::from_secs(30);
/// Parsing is CPU-bound, so the number of concurrent pages is limited.
static TURNS: LazyLock<PageTurns> = LazyLock::new(|| PageTurns::new(2));

/// Rejects unreadable types before their bytes are fetched. PDF and DOCX need a reader process.
pub(super) fn check_kind(address: &Url, kind: &str, has_reader: bool) -> Result<(), String> {
    let bare = bare(kind);
    if let Some(format) = document_format(&bare, address.path()) {
        return match has_reader {
            true => Ok(()),
            false => Err(format!(
                "{address} is a {} file, which is not read here; look for the same as a web page, or put the file into a folder that \
                 `docs` searches",
                format.to_uppercase()
            )),
        };
    }
    if is_html(&bare) || is_text(&bare) || bare.is_empty() {
        return Ok(());
    }
    Err(format!("{address} is `{bare}`, which is not text; look for a page that describes it"))
}

/// In the reader process if there is one, otherwise on a thread of this process. Users take turns.
pub(super) async fn read(got: FetchedBody, reader: Option<&ReaderProcess>, user: Option<&str>) -> Result<Page, String> {
    let turn = TURNS.take(user, got.body.len()).await?;
    let address = got.address.clone();
    let fetched = Fetched { address: got.address.to_string(), kind: got.kind, changed: got.changed };
    if let Some(reader) = reader {
        return match reader.run_async(Job::Page(fetched), got.body, READ_MAX, turn).await {
            Ok(JobResult::Page(page)) => page,
            Ok(JobResult::Document(_)) => Err(format!("{address} could not be parsed; try another source")),
            Err(why) => Err(format!("{address}: {why}; try another source")),
        };
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        // The receiver may be gone; the permit is released only when the work is done.
        let _ = sender.send(parse(&fetched, &got.body));
        drop(turn);
    };
    let thread = std::thread::Builder::new().name("page".into()).stack_size(STACK_BYTES);
    thread.spawn(work).map_err(|error| format!("no thread to read on: {error}; try again"))?;
    match tokio::time::timeout(READ_MAX, receiver).await {
        Ok(Ok(end)) => end,
        Ok(Err(_)) => Err(format!("{address} could not be parsed; try another source")),
        Err(_) => Err(format!("{address} takes longer than {} s to parse; try another source", READ_MAX.as_secs())),
    }
}

pub(crate) fn parse(fetched: &Fetched, body: &[u8]) -> Result<Page, String> {
    let kind = bare(&fetched.kind);
    let path = fetched.address.split(['?', '#']).next().unwrap_or_default();
    let changed = fetched.changed.as_deref().and_then(|date| httpdate::parse_http_date(date).ok());
    let changed =
        changed.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).and_then(|since| rfc3339(i64::try_from(since.as_secs()).ok()?));
    if let Some(format) = document_format(&kind, path) {
        return document(fetched, path, format, changed, body);
    }
    let text = decode(body, &fetched.kind);
    if text.contains('\0') {
        return Err(format!("{} says it is text and is not", fetched.address));
    }
    let begin = text.trim_start();
    let is_page = is_html(&kind) || (kind.is_empty() && begin.starts_with('<') && !begin.starts_with("<?xml"));
    if !is_page {
        let title = begin.lines().next().and_then(|line| line.strip_prefix("# ")).map(|line| line.trim().to_owned());
        return Ok(Page { title, at: changed, sections: sections(&text) });
    }
    let (title, at, markdown) = readable(&text, &fetched.address);
    Ok(Page { title, at: at.or(changed), sections: sections(&markdown) })
}

/// `pdf` or `docx`, by the media type, or by the address where there is none.
fn document_format(kind: &str, path: &str) -> Option<&'static str> {
    match kind {
        "application/pdf" => Some("pdf"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Some("docx"),
        "" | "application/octet-stream" => ["pdf", "docx"].into_iter().find(|ending| path.to_lowercase().ends_with(&format!(".{ending}"))),
        _ => None,
    }
}

fn document(fetched: &Fetched, path: &str, format: &str, at: Option<String>, body: &[u8]) -> Result<Page, String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let limits = ReadLimits { bytes_max: DOCUMENT_TEXT_BYTES_MAX, time_max: READ_MAX };
    let read = index::read_document(Path::new(&format!("{stem}.{format}")), body, limits);
    let read = read.map_err(|why| format!("{}: {why}; try another source", fetched.address))?;
    let mut sections = Vec::new();
    let mut blocks = read.texts().peekable();
    while let Some((text, place)) = blocks.next() {
        let mut text = text.to_owned();
        while let Some((more, _)) = blocks.next_if(|(more, other)| *other == place && text.len() + more.len() < SECTION_BYTES_MAX) {
            text.push_str("\n\n");
            text.push_str(more);
        }
        let heading: Vec<(usize, String)> = place.into_iter().map(|place| (1, place.to_string())).collect();
        close(&mut sections, &heading, &mut text);
    }
    Ok(Page { title: Some(read.title().to_owned()), at, sections })
}

/// Title, date and Markdown of a page.
fn readable(html: &str, address: &str) -> (Option<String>, Option<String>, String) {
    let plain = || (title_of(html), None, stripped(html));
    if depth(html) > DEPTH_MAX {
        return plain();
    }
    let config = Config { text_mode: TextMode::Markdown, max_elements_to_parse: ELEMENTS_MAX, ..Config::default() };
    let article = Readability::new(html, Some(address), Some(config)).and_then(|mut reader| reader.parse());
    let Ok(article) = article else { return plain() };
    let text = article.text_content.to_string();
    let all = stripped(html);
    // Short pages and link lists are not articles; then the whole text is better.
    let text = if text.trim().len() < 200 && all.len() > 2 * text.len() { all } else { text };
    let title = Some(article.title.trim().to_owned()).filter(|title| !title.is_empty()).or_else(|| title_of(html));
    (title, article.published_time.or(article.modified_time), text)
}

fn bare(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_lowercase()
}

fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

fn is_text(kind: &str) -> bool {
    let known = [
        "application/json",
        "application/ld+json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
    ];
    kind.starts_with("text/") || known.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml")
}

/// Byte order mark, then the header, then the page; then a guess.
fn decode(body: &[u8], kind: &str) -> String {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return encoding.decode(body).0.into_owned();
    }
    let declared = label(kind).or_else(|| label(&String::from_utf8_lossy(&body[..body.len().min(2_048)])));
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    // Pages that declare Latin-1 are often UTF-8, and valid UTF-8 is hardly ever accidental.
    let is_utf8 = std::str::from_utf8(body).is_ok();
    let encoding = match declared {
        Some(encoding) if encoding == WINDOWS_1252 && is_utf8 => UTF_8,
        Some(encoding) => encoding,
        None if is_utf8 => UTF_8,
        None => WINDOWS_1252,
    };
    encoding.decode(body).0.into_owned()
}

fn label(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let rest = lower[lower.find("charset")? + "charset".len()..].trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let label: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.')).collect();
    Some(label).filter(|label| !label.is_empty())
}

/// An upper bound of the nesting depth: unclosed elements count as open.
fn depth(html: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let bytes = html.as_bytes();
    for (at, _) in html.match_indices('<') {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(c) if c.is_ascii_alphabetic() => {
                let name: String = html[at + 1..].chars().take_while(char::is_ascii_alphanumeric).take(10).collect();
                let is_lone = [
                    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p", "li", "option", "td",
                    "tr", "th", "dt", "dd",
                ];
                if !is_lone.contains(&name.to_ascii_lowercase().as_str()) {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
            }
            _ => {}
        }
    }
    deepest
}

fn title_of(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = unescaped(&html[begin..end]).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(title).filter(|title| !title.is_empty())
}

/// All text of a page in one pass without a tree, for pages that are too deep to parse.
fn stripped(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let mut text = String::new();
    let mut at = 0;
    while let Some(open) = lower[at..].find('<').map(|open| at + open) {
        text.push_str(&html[at..open]);
        let rest = &lower[open..];
        let silent = ["script", "style", "noscript", "template", "svg", "head", "title"];
        let hidden = silent
            .into_iter()
            .find(|name| rest[1..].starts_with(name) && !rest.as_bytes().get(1 + name.len()).is_some_and(u8::is_ascii_alphanumeric));
        if let Some(name) = hidden {
            let close = format!("</{name}");
            // An unclosed element takes the rest, as in a browser.
            at = rest.find(&close).map_or(html.len(), |end| open + end + close.len());
            at = lower[at..].find('>').map_or(html.len(), |end| at + end + 1);
            continue;
        }
        if rest.starts_with("<!--") {
            at = rest.find("-->").map_or(html.len(), |end| open + end + 3);
            continue;
        }
        let is_tag = rest.as_bytes().get(1).is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, b'/' | b'!' | b'?'));
        if !is_tag {
            text.push('<');
            at = open + 1;
            continue;
        }
        let name: String = rest[1..].trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).take(12).collect();
        let breaks = [
            "p",
            "div",
            "br",
            "li",
            "tr",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "section",
            "article",
            "table",
            "ul",
            "ol",
            "pre",
            "blockquote",
            "dt",
            "dd",
            "main",
            "header",
            "footer",
            "nav",
        ];
        if breaks.contains(&name.as_str()) {
            text.push('\n');
        } else if matches!(name.as_str(), "td" | "th") {
            text.push(' ');
        }
        at = rest.find('>').map_or(html.len(), |end| open + end + 1);
    }
    text.push_str(&html[at..]);
    let lines = unescaped(&text)
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>();
    lines.join("\n\n")
}

fn unescaped(text: &str) -> String {
    [("&nbsp;", " "), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Splits Markdown at its headings, and long parts at their paragraphs.
pub(super) fn sections(markdown: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut text = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = !is_code && (1..=6).contains(&level) && line.as_bytes().get(level) == Some(&b' ');
        if is_heading {
            close(&mut sections, &headings, &mut text);
            let name = line[level..].trim().trim_end_matches('#').trim().to_owned();
            headings.retain(|(above, _)| *above < level);
            headings.push((level, name));
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    close(&mut sections, &headings, &mut text);
    sections
}

fn close(sections: &mut Vec<Section>, headings: &[(usize, String)], text: &mut String) {
    let names: Vec<&str> = headings.iter().map(|(_, name)| name.as_str()).filter(|name| !name.is_empty()).collect();
    let heading = Some(crate::passage::cut(&names.join(" > "), 300)).filter(|heading| !heading.is_empty());
    let mut part = String::new();
    let mut end = |part: &mut String| {
        let whole = part.trim();
        if !whole.is_empty() {
            sections.push(Section { heading: heading.clone(), text: whole.to_owned() });
        }
        part.clear();
    };
    for block in text.split("\n\n") {
        if !part.is_empty() && part.len() + block.len() > SECTION_BYTES_MAX {
            end(&mut part);
        }
        // A block longer than a passage is split at words.
        let mut rest = block;
        while rest.len() > SECTION_BYTES_MAX {
            let mut at = SECTION_BYTES_MAX;
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let at = rest[..at].rfind(char::is_whitespace).filter(|space| *space > at / 2).unwrap_or(at);
            part.push_str(&rest[..at]);
            end(&mut part);
            rest = &rest[at..];
        }
        part.push_str(rest);
        part.push_str("\n\n");
    }
    end(&mut part);
    text.clear();
}
