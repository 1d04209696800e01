//! Which servers there are: `mcp.json` files as other hosts write them.
//!
//! ```json
//! {"mcpServers": {
//!   "notes":  {"command": "npx", "args": ["-y", "notes-server"], "env": {"NOTES_TOKEN": "${NOTES_TOKEN}"}},
//!   "orders": {"url": "https://orders.example/mcp", "headers": {"Authorization": "Bearer ${ORDERS_KEY:-none}"}, "trusted": true}
//! }}
//! ```
//!
//! Read as they are: comments and trailing commas (VS Code), `servers` or `context_servers` in place of `mcpServers`, the
//! addresses `serverUrl` and `httpUrl`, the variables `${NAME}`, `${env:NAME}`, `${NAME:-default}` and `${workspaceFolder}`. Fields
//! nobody here knows are left alone. One wrong entry is a remark, and the others still count.
//!
//! Files of imported servers ([`Config::read_imported`]) are read otherwise, because their content is not trusted: no variable is filled in, except in
//! the values of `env` and `headers` those that a person listed in the entry's `variables`.
//!
//! What Baton adds, and others ignore: `trusted` (its annotations count, see `repeatability`), `toolsDisabled`, `oauth`,
//! `protocolVersion` (for a server that answers the question which one badly).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Reads environment variables; tests bring their own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The contents of a file of servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Servers by name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Entries that cannot be used, each with the reason.
    pub remarks: Vec<String>,
}

/// A server of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// How it is reached.
    pub reach: ServerTransport,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Its hints about its own tools count.
    pub trusted: bool,
    /// Tools of it that are switched off.
    pub tools_disabled: BTreeSet<String>,
    /// Its OAuth client, if one was registered by hand.
    pub oauth: Option<OAuth>,
    /// The revision of MCP to use; negotiated by default.
    pub revision: Option<String>,
    /// A digest of the entry as it was written, before variables were filled in. `None` for a server that is not from a file.
    pub definition: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the keys of the configuration, which the module describes")]
pub enum ServerTransport {
    /// A child process.
    Stdio { command: String, args: Vec<String>, env: BTreeMap<String, RedactedText>, cwd: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: String, headers: BTreeMap<String, RedactedText> },
}

/// A client that was registered by hand with the server's authorization server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OAuth {
    /// The id of the registered client.
    pub client_id: Option<String>,
    /// The secret of the registered client.
    pub client_secret: Option<RedactedText>,
    /// An `https:` address of this client's own description, for authorization servers that read one.
    pub metadata_url: Option<String>,
    /// Scopes to request; empty: those that the server names.
    pub scopes: Vec<String>,
    /// Whether its authorization server may be at a private address although the server's own address is a name, as inside a company.
    pub private_addresses: bool,
}

/// A value that may be a secret: `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedText(String);

impl RedactedText {
    /// Wraps a value.
    pub fn new(text: impl Into<String>) -> Self {
        RedactedText(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RedactedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactedText(…)")
    }
}

impl ServerConfig {
    /// A server that is a child process.
    pub fn stdio(command: impl Into<String>, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ServerConfig::new(ServerTransport::Stdio { command: command.into(), args, env: BTreeMap::new(), cwd: None })
    }

    /// A server behind an address.
    pub fn http(url: impl Into<String>) -> Self {
        ServerConfig::new(ServerTransport::Http { url: url.into(), headers: BTreeMap::new() })
    }

    /// A server that is switched on and not trusted.
    pub fn new(reach: ServerTransport) -> Self {
        ServerConfig { reach, enabled: true, trusted: false, tools_disabled: BTreeSet::new(), oauth: None, revision: None, definition: None }
    }

    /// The same server, trusted.
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }
}

impl Config {
    /// Reads a file and replaces variables.
    pub fn read(path: &Path, env: Env<'_>) -> Result<Config, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Config::parse(&text, path.parent(), env).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The servers that were imported. Of the environment, an entry sees the variables it lists.
    pub fn read_imported(path: &Path, env: Env<'_>) -> Result<Config, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Config::parse_with(&text, &|entry| imported_server(entry, env)).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// `folder` is what `${workspaceFolder}` and a relative `cwd` mean.
    pub fn parse(text: &str, folder: Option<&Path>, env: Env<'_>) -> Result<Config, String> {
        let fill = |text: &str| expand(text, folder, env);
        Config::parse_with(text, &|entry| server(entry, folder, &fill, &fill))
    }

    fn parse_with(text: &str, server: &dyn Fn(&Value) -> Result<ServerConfig, String>) -> Result<Config, String> {
        let file: Value = serde_json::from_str(&plain_json(text)).map_err(|error| format!("not JSON: {error}"))?;
        let entries = entries(&file).ok_or("there is no \"mcpServers\" (nor \"servers\") object in it")?;
        let mut config = Config::default();
        for (written, entry) in entries {
            let name = server_name(written);
            match server(entry) {
                Ok(_) if config.servers.contains_key(&name) => {
                    config.remarks.push(format!("{written}: there are two servers called {name}; the first counts"));
                }
                Ok(server) => drop(config.servers.insert(name, server)),
                Err(why) => config.remarks.push(format!("{written}: {why}")),
            }
        }
        Ok(config)
    }

    /// Adds another file's servers; those that are there already stay.
    pub fn merge(&mut self, other: Config) {
        for (name, server) in other.servers {
            self.servers.entry(name).or_insert(server);
        }
        self.remarks.extend(other.remarks);
    }
}

/// A name that can stand before a dot: tools are called `server.tool`.
pub fn server_name(written: &str) -> String {
    let clean: String = written.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' }).collect();
    let clean = clean.trim_matches('-');
    if clean.is_empty() { "server".to_owned() } else { clean.to_owned() }
}

fn entries(file: &Value) -> Option<&Map<String, Value>> {
    let places = ["/mcpServers", "/servers", "/context_servers", "/mcp/servers"];
    places.iter().find_map(|place| file.pointer(place).and_then(Value::as_object))
}

/// One entry, as far as anybody's spelling of it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Entry {
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Option<Value>>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
    enabled: Option<bool>,
    trusted: bool,
    #[serde(alias = "disabledTools", alias = "excludeTools")]
    tools_disabled: BTreeSet<String>,
    oauth: Option<OAuthEntry>,
    protocol_version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OAuthEntry {
    client_id: Option<String>,
    client_secret: Option<String>,
    metadata_url: Option<String>,
    scopes: Vec<String>,
    private_addresses: bool,
}

type Fill<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// An imported entry: nothing is filled in but the listed variables, and these only into values of `env` and `headers`.
fn imported_server(entry: &Value, env: Env<'_>) -> Result<ServerConfig, String> {
    let listed: BTreeSet<String> = entry.get("variables").and_then(|listed| serde_json::from_value(listed.clone()).ok()).unwrap_or_default();
    let as_written = |text: &str| match text.contains("${") {
        true => Err(format!("{text:?} names a variable, which is not filled in for an imported server")),
        false => Ok(text.to_owned()),
    };
    let only_listed = |name: &str| listed.contains(name).then(|| env(name)).flatten();
    server(entry, None, &as_written, &|text: &str| expand(text, None, &only_listed))
}

/// `fill` puts variables into an entry, and `fill_value` into the values of `env` and `headers`.
fn server(entry: &Value, folder: Option<&Path>, fill: Fill<'_>, fill_value: Fill<'_>) -> Result<ServerConfig, String> {
    let definition = Some(definition(entry));
    let entry: Entry = serde_json::from_value(entry.clone()).map_err(|error| error.to_string())?;
    let reach = match (&entry.command, &entry.url) {
        _ if entry.kind.as_deref() == Some("sse") => {
            return Err("it uses HTTP+SSE, which streamable HTTP replaced in 2025; name its streamable address with \"type\": \"http\"".into());
        }
        (Some(command), _) => ServerTransport::Stdio {
            command: fill(command)?,
            args: entry.args.iter().map(|arg| fill(arg)).collect::<Result<_, _>>()?,
            env: variables(&entry.env, fill_value)?,
            cwd: entry.cwd.as_deref().map(fill).transpose()?.map(|cwd| folder.map_or_else(|| PathBuf::from(&cwd), |folder| folder.join(&cwd))),
        },
        (None, Some(url)) => {
            let url = fill(url)?;
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(format!("{url:?} is no http(s) address"));
            }
            let headers =
                entry.headers.iter().map(|(name, value)| Ok((name.clone(), RedactedText(fill_value(value)?)))).collect::<Result<_, String>>()?;
            ServerTransport::Http { url, headers }
        }
        (None, None) => return Err("it has neither \"command\" nor \"url\"".into()),
    };
    let oauth = entry
        .oauth
        .map(|oauth| {
            let client_secret = oauth.client_secret.as_deref().map(fill).transpose()?.map(RedactedText);
            let OAuthEntry { client_id, metadata_url, scopes, private_addresses, .. } = oauth;
            Ok::<_, String>(OAuth { client_id, client_secret, metadata_url, scopes, private_addresses })
        })
        .transpose()?;
    let enabled = entry.enabled.unwrap_or(!entry.disabled);
    let Entry { trusted, tools_disabled, protocol_version: revision, .. } = entry;
    Ok(ServerConfig { reach, enabled, trusted, tools_disabled, oauth, revision, definition })
}

/// A digest of an entry, whatever the order of its fields. What switches it on or off, and what describes it, is left out.
fn definition(entry: &Value) -> String {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "disabled" | "enabled" | "description"));
    }
    let digest = Sha256::digest(sorted(&entry).to_string().as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let by_name: BTreeMap<&String, Value> = fields.iter().map(|(name, value)| (name, sorted(value))).collect();
            by_name.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Hosts let numbers and booleans stand for text here.
fn variables(env: &BTreeMap<String, Option<Value>>, fill: &dyn Fn(&str) -> Result<String, String>) -> Result<BTreeMap<String, RedactedText>, String> {
    let mut filled = BTreeMap::new();
    for (name, value) in env {
        let text = match value {
            None => continue,
            Some(Value::String(text)) => fill(text)?,
            Some(other) => other.to_string(),
        };
        filled.insert(name.clone(), RedactedText(text));
    }
    Ok(filled)
}

/// Puts in the variables. A missing one is an error: a server started with `${TOKEN}` for a token fails later and worse.
fn expand(text: &str, folder: Option<&Path>, env: Env<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}').map(|length| at + length) else { break };
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..end];
        let (name, fallback) = inside.split_once(":-").map_or((inside, None), |(name, fallback)| (name, Some(fallback)));
        let value = match name.strip_prefix("env:").unwrap_or(name) {
            "workspaceFolder" | "workspaceRoot" => folder.map(|folder| folder.display().to_string()),
            "userHome" => env("HOME"),
            "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
            name if name.starts_with("input:") => {
                return Err(format!("it asks the user for {name:?}; put the value into an environment variable instead"));
            }
            name => env(name),
        };
        match value.or_else(|| fallback.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => return Err(format!("the environment variable {name} is not set")),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// JSON without the comments and trailing commas that editors allow.
fn plain_json(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let (mut in_string, mut escaped) = (false, false);
    while let Some(c) = chars.next() {
        match c {
            _ if in_string => {
                out.push(c);
                in_string = escaped || c != '"';
                escaped = !escaped && c == '\\';
            }
            '"' => {
                in_string = true;
                out.push(c);
            }
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            '}' | ']' => {
                let end = out.trim_end().len();
                if out[..end].ends_with(',') {
                    out.truncate(end - 1);
                }
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// Values that must not show up in anybody's error text.
pub(crate) fn secrets(config: &ServerConfig) -> Vec<String> {
    const TELLING: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE"];
    /// Shorter ones are placeholders, and striking them would garble every sentence.
    const BYTES_MIN: usize = 6;
    let mut secrets: Vec<String> = Vec::new();
    let mut add = |value: &str| {
        // `Bearer abc`: the scheme is no secret, and what follows may be repeated without it.
        secrets.extend(value.split_whitespace().filter(|part| part.len() > BYTES_MIN).map(str::to_owned));
    };
    match &config.reach {
        ServerTransport::Stdio { env, .. } => env
            .iter()
            .filter(|(name, _)| TELLING.iter().any(|word| name.to_ascii_uppercase().contains(word)))
            .for_each(|(_, value)| add(value.reveal())),
        ServerTransport::Http { headers, .. } => headers.values().for_each(|value| add(value.reveal())),
    }
    if let Some(secret) = config.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref()) {
        add(secret.reveal());
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("abc-secret-123".into()),
            "HOME" => Some("/home/ada".into()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Config {
        Config::parse(text, Some(Path::new("/project")), &env).unwrap()
    }

    #[test]
    fn files_of_other_hosts_are_read_as_they_are() {
        let claude = r#"{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "fs", "${HOME}/docs"], "env": {"A_TOKEN": "${TOKEN}", "N": 3}}}}"#;
        let vscode = "{ // servers\n \"inputs\": [], \"servers\": {\"fs\": {\"type\": \"stdio\", \"command\": \"npx\", /* why */ \
             \"args\": [\"-y\", \"fs\", \"${userHome}/docs\",], \"env\": {\"A_TOKEN\": \"${env:TOKEN}\", \"N\": 3}, \"dev\": {}},}}";
        let zed =
            r#"{"context_servers": {"fs": {"command": "npx", "args": ["-y", "fs", "${HOME}/docs"], "env": {"A_TOKEN": "${TOKEN}", "N": "3"}}}}"#;
        for text in [claude, vscode, zed] {
            let config = parse(text);
            assert_eq!(config.remarks, [""; 0], "{text}");
            let ServerTransport::Stdio { command, args, env, .. } = &config.servers["fs"].reach else { panic!("{config:?}") };
            assert_eq!((command.as_str(), args[2].as_str()), ("npx", "/home/ada/docs"));
            assert_eq!((env["A_TOKEN"].reveal(), env["N"].reveal()), ("abc-secret-123", "3"));
        }
        let http = parse(
            r#"{"mcpServers": {"My Orders.v2": {"type": "http", "serverUrl": "https://x/mcp", "headers": {"K": "${NO:-d//e}"}, "disabled": true}}}"#,
        );
        let orders = &http.servers["My-Orders-v2"];
        assert!(!orders.enabled && !orders.trusted);
        assert!(matches!(&orders.reach, ServerTransport::Http { url, headers } if url == "https://x/mcp" && headers["K"].reveal() == "d//e"));
    }

    #[test]
    fn a_wrong_entry_is_a_remark_and_the_others_count() {
        let cases = [
            (r#"{}"#, "neither"),
            (r#"{"command": "x", "env": {"K": "${MISSING}"}}"#, "MISSING is not set"),
            (r#"{"command": "x", "args": ["${input:key}"]}"#, "environment variable instead"),
            (r#"{"type": "sse", "url": "https://x/sse"}"#, "streamable"),
            (r#"{"url": "ftp://x"}"#, "no http(s) address"),
            (r#"{"command": 3}"#, "invalid type"),
        ];
        for (entry, why) in cases {
            let config = parse(&format!(r#"{{"mcpServers": {{"bad": {entry}, "good": {{"command": "x"}}}}}}"#));
            assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["good"], "{entry}");
            assert!(config.remarks[0].contains(why), "{:?}", config.remarks);
        }
        assert!(Config::parse("[]", None, &env).unwrap_err().contains("mcpServers"));
        assert!(Config::parse("{", None, &env).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn an_imported_entry_sees_of_the_environment_what_a_person_listed() {
        let read = |entry: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("imported.json");
            std::fs::write(&path, format!(r#"{{"mcpServers": {{"evil": {entry}}}}}"#)).unwrap();
            Config::read_imported(&path, &env).unwrap()
        };
        for entry in [
            r#"{"url": "https://evil.example/${TOKEN}"}"#,
            r#"{"url": "https://evil.example/${env:TOKEN}/mcp"}"#,
            r#"{"command": "npx", "args": ["-y", "x", "--key=${TOKEN}"]}"#,
            r#"{"command": "${HOME}/x"}"#,
            r#"{"command": "x", "cwd": "${workspaceFolder}"}"#,
            r#"{"command": "x", "env": {"PLACE": "${userHome}"}}"#,
            r#"{"command": "x", "env": {"KEY": "${TOKEN}"}}"#,
            r#"{"url": "https://evil.example", "variables": ["TOKEN"], "oauth": {"clientSecret": "${TOKEN}"}}"#,
            r#"{"url": "https://evil.example/${TOKEN}", "variables": ["TOKEN"]}"#,
        ] {
            let config = read(entry);
            assert!(config.servers.is_empty() && config.remarks.len() == 1, "{entry}: {config:?}");
        }
        let header = |variables: &str| {
            let entry = format!(r#"{{"url": "https://evil.example", "headers": {{"TOKEN": "${{TOKEN:-}}"}}, "variables": {variables}}}"#);
            let ServerTransport::Http { headers, .. } = read(&entry).servers["evil"].reach.clone() else { panic!("http") };
            headers["TOKEN"].reveal().to_owned()
        };
        assert_eq!((header("[]").as_str(), header(r#"["TOKEN"]"#).as_str(), header(r#"["OTHER"]"#).as_str()), ("", "abc-secret-123", ""));
    }

    #[test]
    fn a_definition_covers_the_entry_and_not_whether_it_is_enabled() {
        let of = |entry: &str| parse(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).servers["a"].definition.clone().unwrap();
        let plain = of(r#"{"command": "x", "args": ["y"], "env": {"A": "1"}}"#);
        assert_eq!(plain, of(r#"{"disabled": true, "description": "d", "env": {"A": "1"}, "args": ["y"], "command": "x"}"#));
        for other in [
            r#"{"command": "x", "args": ["z"], "env": {"A": "1"}}"#,
            r#"{"command": "x", "args": ["y"], "env": {"A": "2"}}"#,
            r#"{"command": "x", "args": ["y"], "env": {"A": "1"}, "variables": ["TOKEN"]}"#,
        ] {
            assert_ne!(plain, of(other), "{other}");
        }
    }

    #[test]
    fn secrets_never_show() {
        let config = parse(
            r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "${TOKEN}", "MODE": "production"}}, "b": {"url": "https://x", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}"#,
        );
        assert!(!format!("{config:?}").contains("abc-secret"));
        assert_eq!(secrets(&config.servers["a"]), ["abc-secret-123"]);
        assert_eq!(secrets(&config.servers["b"]), ["abc-secret-123"]);
    }
}
