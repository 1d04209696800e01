//! What the page needs at its start as two files instead of some sixty: one module, one style sheet. Files that are only loaded later stay files.
//!
//! `index.html` names the modules of the start (`modulepreload`) and the style sheets. Each module becomes a block that puts its exports into one object;
//! a module that is loaded later takes what it imports from that object, so that every module still exists once:
//!
//! ```text
//! import * as vendored0 from "preact";                 import { modules } from "/assets/js/main.js";
//! export const modules = {};                           const { t } = modules["js/core/words.js"];
//! { …; modules["js/core/words.js"] = { t }; }          export function Tools() { … }
//! { const { t } = modules["js/core/words.js"]; … }
//!     js/main.js: all of the start, needed first           js/view/tools.js, as it is sent
//! ```
//!
//! Only the syntax that the modules of `web/` use is known: imports and exports that begin a line, named exports, no cycles. A test bundles them all.

use std::collections::{BTreeMap, BTreeSet};

/// Where the modules begin; the bundle takes its place.
const MAIN: &str = "js/main.js";
const STYLE: &str = "style/start.css";
const ASSETS: &str = "/assets/";
const PRELOAD: &str = r#"<link rel="modulepreload" href="/assets/"#;
const SHEET: &str = r#"<link rel="stylesheet" href="/assets/"#;

/// The files by name with the start bundled, `index.html` included.
pub(super) fn bundle(mut files: BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let index = text(&files, super::INDEX)?;
    let named = |start: &str| -> Vec<String> {
        index.lines().filter_map(|line| line.trim().strip_prefix(start)?.split_once('"')).map(|(name, _)| name.to_owned()).collect()
    };
    // Vendored modules have other syntax, and stay files.
    let start: BTreeSet<String> = named(PRELOAD).into_iter().filter(|name| name.starts_with("js/")).chain([MAIN.to_owned()]).collect();
    let mut script = Script::default();
    script.add(MAIN, &files, &start, &mut Vec::new())?;
    for name in &start {
        if !script.done.contains(name) {
            return Err(format!("index.html names {name}, which {MAIN} does not need"));
        }
    }
    let sheets = named(SHEET);
    let style: Vec<String> = sheets.iter().map(|name| text(&files, name)).collect::<Result<_, _>>()?;

    let later: Vec<String> = files.keys().filter(|name| name.starts_with("js/") && !start.contains(*name)).cloned().collect();
    for name in later {
        let sent = taking_from_bundle(&name, &text(&files, &name)?, &start)?;
        files.insert(name, sent.into_bytes());
    }
    // Shared conversations link single style sheets.
    files.retain(|name, _| name == MAIN || !start.contains(name));
    files.insert(MAIN.to_owned(), script.text().into_bytes());
    files.insert(STYLE.to_owned(), style.join("\n").into_bytes());
    let is_bundled = |line: &str| {
        let line = line.trim();
        line.strip_prefix(SHEET).is_some() || line.strip_prefix(PRELOAD).is_some_and(|rest| rest.starts_with("js/"))
    };
    let mut html: String = index.lines().filter(|line| !is_bundled(line)).map(|line| format!("{line}\n")).collect();
    html = html.replacen("</title>", &format!("</title>\n    {SHEET}{STYLE}\">"), 1);
    files.insert(super::INDEX.to_owned(), html.into_bytes());
    Ok(files)
}

fn text(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<String, String> {
    let bytes = files.get(name).ok_or_else(|| format!("there is no file {name}"))?;
    String::from_utf8(bytes.clone()).map_err(|_| format!("{name} is not UTF-8"))
}

/// The bundle while it is written.
#[derive(Default)]
struct Script {
    /// Modules that are not bundled.
    vendored: Vec<String>,
    blocks: Vec<String>,
    done: BTreeSet<String>,
}

impl Script {
    /// Adds a module behind everything that it imports.
    fn add(&mut self, name: &str, files: &BTreeMap<String, Vec<u8>>, start: &BTreeSet<String>, path: &mut Vec<String>) -> Result<(), String> {
        if self.done.contains(name) {
            return Ok(());
        }
        if path.iter().any(|one| one == name) {
            return Err(format!("modules import one another: {} > {name}", path.join(" > ")));
        }
        path.push(name.to_owned());
        let mut body = String::new();
        let mut exported = Vec::new();
        for line in text(files, name)?.lines() {
            if let Some(import) = Import::parse(line)? {
                match import.module(name).filter(|target| files.contains_key(target)) {
                    Some(target) if start.contains(&target) => {
                        self.add(&target, files, start, path)?;
                        body.push_str(&import.taken(&module(&target)));
                    }
                    Some(target) => return Err(format!("{name} imports {target}, which index.html does not preload")),
                    None => {
                        let at = self.vendored.iter().position(|one| one == import.from).unwrap_or_else(|| {
                            self.vendored.push(import.from.to_owned());
                            self.vendored.len() - 1
                        });
                        body.push_str(&import.taken(&format!("vendored{at}")));
                    }
                }
                continue;
            }
            let line = match line.strip_prefix("export ") {
                Some(rest) => {
                    exported.push(declared(rest).ok_or_else(|| format!("{name}: {line:?} is not known"))?.to_owned());
                    rest
                }
                None => line,
            };
            body.push_str(&with_absolute_imports(line, name)?);
            body.push('\n');
        }
        path.pop();
        self.blocks.push(format!("{{\n{body}modules[\"{name}\"] = {{ {} }};\n}}\n", exported.join(", ")));
        self.done.insert(name.to_owned());
        Ok(())
    }

    fn text(&self) -> String {
        let vendored: String = self.vendored.iter().enumerate().map(|(at, from)| format!("import * as vendored{at} from \"{from}\";\n")).collect();
        format!("{vendored}export const modules = {{}};\n{}", self.blocks.concat())
    }
}

/// A module that is loaded later, with what it imports from bundled ones taken from the bundle.
fn taking_from_bundle(name: &str, source: &str, start: &BTreeSet<String>) -> Result<String, String> {
    let mut sent = String::new();
    let mut takes = false;
    for line in source.lines() {
        let import = Import::parse(line)?;
        match import.as_ref().and_then(|import| import.module(name)).filter(|target| start.contains(target)) {
            Some(target) => {
                takes = true;
                sent.push_str(&import.map(|import| import.taken(&module(&target))).unwrap_or_default());
            }
            None => {
                if let Some(target) = line.strip_prefix("export {").and_then(|_| quoted(line)).and_then(|named| resolved(name, named))
                    && start.contains(&target)
                {
                    return Err(format!("{name} exports from {target}, which is bundled"));
                }
                sent.push_str(line);
                sent.push('\n');
            }
        }
    }
    Ok(if takes { format!("import {{ modules }} from \"{ASSETS}{MAIN}\";\n{sent}") } else { sent })
}

/// `import { a, b as c } from "./x.js";`, or the same with one name without braces, or with none.
struct Import<'a> {
    names: &'a str,
    from: &'a str,
}

impl<'a> Import<'a> {
    fn parse(line: &'a str) -> Result<Option<Import<'a>>, String> {
        let Some(rest) = line.strip_prefix("import ") else { return Ok(None) };
        let names = rest.split_once(" from ").map(|(names, _)| names).unwrap_or_default();
        let whole = line.ends_with(';') && !names.contains('*');
        match quoted(rest).filter(|_| whole) {
            Some(from) => Ok(Some(Import { names, from })),
            None => Err(format!("{line:?} is not known")),
        }
    }

    /// The file it names, if it names one by its path.
    fn module(&self, importer: &str) -> Option<String> {
        resolved(importer, self.from)
    }

    /// The same names, taken from an object with the exports of the module.
    fn taken(&self, object: &str) -> String {
        match self.names {
            "" => String::new(),
            names if names.starts_with('{') => format!("const {} = {object};\n", names.replace(" as ", ": ")),
            default => format!("const {default} = {object}.default;\n"),
        }
    }
}

fn module(name: &str) -> String {
    format!("modules[\"{name}\"]")
}

fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// `../core/words.js`, seen from `js/view/app.js`, is `js/core/words.js`.
fn resolved(importer: &str, named: &str) -> Option<String> {
    if !named.starts_with('.') {
        return None;
    }
    let mut folders: Vec<&str> = importer.split('/').collect();
    folders.pop();
    for part in named.split('/') {
        match part {
            "." => {}
            ".." => drop(folders.pop()),
            part => folders.push(part),
        }
    }
    Some(folders.join("/"))
}

/// The name that `const name = …`, `function name(…)`, `async function name(…)` or `class Name …` declares.
fn declared(statement: &str) -> Option<&str> {
    let rest = ["const ", "function ", "async function ", "class "].iter().find_map(|kind| statement.strip_prefix(kind))?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))?;
    rest.get(..end).filter(|name| !name.is_empty())
}

/// `import("./tools.js")` is relative to its module, and the bundle is another one.
fn with_absolute_imports(line: &str, name: &str) -> Result<String, String> {
    const CALL: &str = "import(\"";
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(CALL) {
        let (named, behind) = after.split_once('"').ok_or_else(|| format!("{name}: {line:?} is not known"))?;
        let target = resolved(name, named).map_or_else(|| named.to_owned(), |target| format!("{ASSETS}{target}"));
        out.push_str(&format!("{before}{CALL}{target}\""));
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}
