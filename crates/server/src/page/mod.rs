//! The page's files, as they are in `web/`: `index.html` at `/`, everything else under `/assets/`.
//!
//! They are in the binary ([`files`]), pressed once at the start, and known by a hash of their content: what is asked for with its hash may be kept
//! forever. What is needed at the start is one module and one style sheet ([`bundle`]). Modules import one another by plain paths, so the import map is
//! given a line for each; it is the one inline script, and the policy names its hash. A file stored as `NAME.gz` is served as `NAME`: large vendored files are compressed once, not at each start. Diagrams are drawn in a
//! sandboxed frame of its own origin, whose document and scripts are in [`diagram_headers`]. In builds for developing, and with `BATON_WEB=DIR`, files are read from the folder each
//! time, so that a change is seen at once; `BATON_WEB=packed` serves what is in the binary in any build.

mod bundle;
mod files;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

const INDEX: &str = "index.html";
/// In place of a folder: what is in the binary.
const PACKED: &str = "packed";
/// Ending of files that are stored compressed.
const STORED_GZIP: &str = ".gz";
/// Limit of such a file when a client does not accept gzip.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;
const DIAGRAM_FRAME: &str = "diagram/frame.html";
const DIAGRAM_SCRIPTS: [&str; 2] = ["diagram/frame.js", "vendor/mermaid.tiny.js"];
/// No network, no markup of its own script, an opaque origin even when the document is opened directly. Mermaid writes `<style>` into its drawings.
const DIAGRAM_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; \
                              sandbox allow-scripts";

/// The files of the page. Cheap to clone.
#[derive(Clone)]
pub struct Page(Arc<Source>);

enum Source {
    Folder(PathBuf),
    Packed(BTreeMap<String, File>),
}

struct File {
    /// `None`: stored compressed, and unpacked for the rare client that does not accept gzip.
    plain: Option<Bytes>,
    /// Where pressing is worth it.
    gzip: Option<Bytes>,
    hash: String,
}

impl Page {
    /// Out of this folder, or what is in the binary.
    pub fn new(folder: Option<PathBuf>) -> Self {
        if folder.as_deref() == Some(Path::new(PACKED)) {
            return Page(Arc::new(Source::Packed(pack(files::FILES))));
        }
        // The source tree, for work on the page.
        let here = cfg!(debug_assertions).then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")).filter(|here| here.is_dir());
        Page(Arc::new(match folder.or(here) {
            Some(folder) => Source::Folder(folder),
            None => Source::Packed(pack(files::FILES)),
        }))
    }

    /// The routes of the page's files; they need no token.
    pub fn router(&self) -> Router {
        Router::new().route("/", get(index)).route("/assets/{*path}", get(asset)).with_state(self.clone())
    }
}

async fn index(State(page): State<Page>, headers: HeaderMap) -> Response {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "not_found", "this build has no page; the API is under /api").into_response();
    let (html, file) = match &*page.0 {
        Source::Folder(folder) => match std::fs::read(folder.join(INDEX)) {
            Ok(html) => (Bytes::from(html), None),
            Err(_) => return missing(),
        },
        Source::Packed(files) => match files.get(INDEX) {
            Some(file) => (file.plain.clone().unwrap_or_default(), Some(file)),
            None => return missing(),
        },
    };
    let policy = policy(&String::from_utf8_lossy(&html));
    let mut response = match file {
        Some(file) => file.respond(INDEX, &headers, false),
        None => sent(INDEX, html),
    };
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn asset(State(page): State<Page>, UrlPath(path): UrlPath<String>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let missing = || Problem::not_found("file").into_response();
    let mut response = match &*page.0 {
        Source::Folder(folder) => match (in_folder(folder, &path), in_folder(folder, &format!("{path}{STORED_GZIP}"))) {
            (Some(bytes), _) => sent(&path, bytes.into()),
            (None, Some(gzip)) => File::stored(gzip).respond(&path, &headers, false),
            (None, None) => return missing(),
        },
        Source::Packed(files) => match files.get(&path).filter(|_| path != INDEX) {
            Some(file) => {
                let is_exact = query.as_deref().and_then(|query| query.strip_prefix("v=")) == Some(file.hash.as_str());
                file.respond(&path, &headers, is_exact)
            }
            None => return missing(),
        },
    };
    for (name, value) in diagram_headers(&path) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The frame in which diagrams are drawn has an opaque origin, so that its scripts are loaded as those of another site.
fn diagram_headers(path: &str) -> Vec<(header::HeaderName, HeaderValue)> {
    let of = |name, value| (name, HeaderValue::from_static(value));
    match path {
        DIAGRAM_FRAME => vec![of(header::CONTENT_SECURITY_POLICY, DIAGRAM_POLICY), of(header::X_FRAME_OPTIONS, "SAMEORIGIN")],
        _ if DIAGRAM_SCRIPTS.contains(&path) => vec![of(header::HeaderName::from_static("cross-origin-resource-policy"), "cross-origin")],
        _ => Vec::new(),
    }
}

fn in_folder(folder: &Path, path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // A link in the folder could lead out of it.
    let (root, file) = (folder.canonicalize().ok()?, folder.join(path).canonicalize().ok()?);
    (is_plain && file.starts_with(&root) && file.is_file()).then(|| std::fs::read(&file).ok())?
}

impl File {
    fn of(plain: Vec<u8>) -> File {
        let hash = hash_of(&plain);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail; if it did, the file would go as it is.
        let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish()).ok().filter(|gzip| gzip.len() < plain.len()).map(Bytes::from);
        File { plain: Some(plain.into()), gzip, hash }
    }

    fn stored(gzip: Vec<u8>) -> File {
        File { plain: None, hash: hash_of(&gzip), gzip: Some(gzip.into()) }
    }

    fn unpacked(&self) -> Bytes {
        let mut plain = Vec::new();
        // The file is part of the program; a test unpacks it.
        if let Err(error) = GzDecoder::new(self.gzip.as_deref().unwrap_or_default()).take(UNPACKED_BYTES_MAX).read_to_end(&mut plain) {
            tracing::error!(%error, "a file of the page could not be unpacked");
        }
        plain.into()
    }

    fn respond(&self, name: &str, headers: &HeaderMap, is_exact: bool) -> Response {
        let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let tag = format!("\"{}\"", self.hash);
        let caching = if is_exact { "public, max-age=31536000, immutable" } else { "no-cache" };
        let mut response = match &self.gzip {
            _ if text(header::IF_NONE_MATCH).contains(&tag) => StatusCode::NOT_MODIFIED.into_response(),
            Some(gzip) if text(header::ACCEPT_ENCODING).contains("gzip") => ([(header::CONTENT_ENCODING, "gzip")], gzip.clone()).into_response(),
            _ => self.plain.clone().unwrap_or_else(|| self.unpacked()).into_response(),
        };
        let more = [
            (header::CONTENT_TYPE, HeaderValue::from_static(media_type(name))),
            (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        for (name, value) in more {
            response.headers_mut().insert(name, value);
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sent(name: &str, bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, media_type(name)), (header::CACHE_CONTROL, "no-store")], bytes).into_response()
}

fn pack(all: &[(&str, &[u8])]) -> BTreeMap<String, File> {
    let plain: BTreeMap<String, Vec<u8>> = all.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    let bundled = bundle::bundle(plain.clone()).unwrap_or_else(|why| {
        tracing::warn!("the page is served as single files: {why}");
        plain
    });
    let file = |(name, bytes): (String, Vec<u8>)| match name.strip_suffix(STORED_GZIP) {
        Some(name) => (name.to_owned(), File::stored(bytes)),
        None => (name, File::of(bytes)),
    };
    let mut packed: BTreeMap<String, File> = bundled.into_iter().map(file).collect();
    if let Some(index) = packed.get(INDEX) {
        let html = hashed(&String::from_utf8_lossy(index.plain.as_deref().unwrap_or_default()), &packed);
        packed.insert(INDEX.to_owned(), File::of(html.into_bytes()));
    }
    packed
}

/// Every `/assets/…` with the hash of what it is, and an import map with the same for every module.
fn hashed(html: &str, files: &BTreeMap<String, File>) -> String {
    let address = |name: &str, file: &File| format!("/assets/{name}?v={}", file.hash);
    let mut text = html.to_owned();
    for (name, file) in files {
        text = text.replace(&format!("\"/assets/{name}\""), &format!("\"{}\"", address(name, file)));
    }
    let Some(range) = import_map(&text) else { return text };
    let mut map: Value = serde_json::from_str(&text[range.clone()]).unwrap_or_else(|_| json!({}));
    if !map["imports"].is_object() {
        map["imports"] = json!({});
    }
    for (name, file) in files.iter().filter(|(name, _)| name.ends_with(".js") || name.ends_with(".mjs")) {
        map["imports"][format!("/assets/{name}")] = json!(address(name, file));
    }
    text.replace_range(range, &map.to_string());
    text
}

/// What stands between the tags of the import map.
fn import_map(html: &str) -> Option<std::ops::Range<usize>> {
    let tag = html.find("<script type=\"importmap\">")?;
    let start = tag + html[tag..].find('>')? + 1;
    Some(start..start + html[start..].find("</script>")?)
}

fn policy(html: &str) -> String {
    let hash = import_map(html).map(|range| {
        let digest = Sha256::digest(html[range].as_bytes());
        format!(" 'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(digest))
    });
    format!(
        "default-src 'none'; script-src 'self'{}; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; frame-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash.unwrap_or_default()
    )
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests;
