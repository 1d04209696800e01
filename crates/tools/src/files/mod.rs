//! Files below one folder, the root: the workspace of the thread, or a folder that the user named.
//!
//! Every path is resolved beneath the root's descriptor ([`crate::beneath`]), so there is no gap between check and use: `..`, absolute
//! paths, links and swapped folders cannot leave the root. Reading follows links that stay inside; writing follows none. Only regular files
//! are opened. A file with several hard links is not read, because its other name may be outside; writing replaces the file and so never
//! changes the other name.
//!
//! Content counts as the user's own, even if a flow wrote it there from other sources.
//!
//! Limits: Linux 5.6 or newer; text only; a folder that is moved out of the root *while* a file is written into it takes that file along.

mod glob;
pub(crate) mod root;
#[cfg(test)]
mod tests;

use evidence::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workspace::Workspaces;
use crate::{Builtin, CallContext, Hints, Kind, Passage, Settings, Tool, ToolError, ToolOutput, Toolset};
use root::{Entry, Root, WriteMode};

/// The server `files`: files in the workspace of a thread.
pub const KIND: Kind = Kind {
    name: "files",
    about: "Lists, reads, finds and writes text files under one folder, and nothing outside it",
    port: 8006,
    trust: Trust::Own,
    make,
};

const LINES_DEFAULT: usize = 400;
const LINES_MAX: usize = 2_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTakes {
    /// A folder's path under the root; `.` is the root itself.
    path: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadTakes {
    /// A file's path under the root, such as `notes/plan.md`.
    path: String,
    /// The first line to read, counted from 1; 1 if not said.
    #[serde(default)]
    #[schemars(range(min = 1))]
    from_line: Option<usize>,
    /// How many lines to read, at most 2000; 400 if not said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    lines: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteTakes {
    /// Where to write, as a path under the root. Missing folders are made.
    path: String,
    /// The text to write.
    content: String,
    /// `create`, which is the default, refuses when another file is there; `replace` puts the text in its place.
    #[serde(default)]
    mode: WriteArgument,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WriteArgument {
    #[default]
    Create,
    Replace,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppendTakes {
    /// The file to add to, as a path under the root. It is made if it is missing.
    path: String,
    /// The text to add at the end.
    content: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindTakes {
    /// What the path looks like: `*.md`, `reports/**/2026-*.csv`, or a part of a name. `*` and `?` stay within a folder, `**` does not.
    pattern: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListOutput {
    path: String,
    entries: Vec<Entry>,
    /// Whether there is more than is shown.
    cut: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Read {
    path: String,
    from_line: usize,
    to_line: usize,
    /// Where to go on, if the file does.
    next_line: Option<usize>,
    passages: Vec<Passage>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WriteOutput {
    path: String,
    /// What the file holds now.
    bytes: u64,
}

fn make(kind: &Kind, settings: &Settings) -> Result<Builtin, String> {
    let workspaces = settings.workspaces.as_ref().ok_or("it has no folder to keep to; name one with --root DIR")?;
    workspaces.check()?;
    let tools = [list, read, write, append, find].map(|tool| tool(workspaces));
    Ok(kind.around(Toolset::new(kind.name, kind.about, tools)))
}

/// Works in the folder of the call's thread on a blocking thread, because file IO may be slow.
async fn in_root<T: Send + 'static>(
    workspaces: Workspaces,
    call: CallContext,
    work: impl FnOnce(&Root) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let work = move || work(&workspaces.root(&call.meta)?);
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the disk work broke off; try again".into()))
}

fn list(workspaces: &Workspaces) -> Tool {
    let workspaces = workspaces.clone();
    let about = "List the files and folders in one folder under the root, with sizes. Start with `.` to see what there is.";
    Tool::new("list", about, Hints::READS, move |takes: ListTakes, call| {
        in_root(workspaces.clone(), call, move |root| {
            let (entries, cut) = root.list(&takes.path)?;
            let mut text = format!("{}: {} entries{}", takes.path, entries.len(), if cut { ", and more that are not shown" } else { "" });
            for entry in &entries {
                text.push_str(&format!("\n{}", entry.line()));
            }
            Ok(ToolOutput { text, data: ListOutput { path: takes.path, entries, cut } })
        })
    })
}

fn read(workspaces: &Workspaces) -> Tool {
    let workspaces = workspaces.clone();
    let about = "Read lines of a text file under the root. Long files are read in parts: go on at `next_line`.";
    Tool::new("read", about, Hints::READS, move |takes: ReadTakes, call| {
        in_root(workspaces.clone(), call, move |root| {
            let from_line = takes.from_line.unwrap_or(1);
            let lines = takes.lines.unwrap_or(LINES_DEFAULT);
            if from_line == 0 || !(1..=LINES_MAX).contains(&lines) {
                return Err(ToolError(format!("`from_line` counts from 1, and `lines` is from 1 to {LINES_MAX}")));
            }
            let part = root.read(&takes.path, from_line, lines)?;
            let to_line = from_line + part.lines.saturating_sub(1);
            let place = if part.lines == 0 { "empty".to_owned() } else { format!("lines {from_line}-{to_line}") };
            let more = part.next_line.map(|line| format!("\n\n(there is more: read on with from_line {line})")).unwrap_or_default();
            let text = format!("{}, {place}:\n{}{more}", takes.path, part.text);
            let name = takes.path.rsplit('/').next().unwrap_or_default().to_owned();
            let passage = Passage {
                text: part.text,
                title: Some(name.clone()),
                address: Some(takes.path.clone()),
                place: Some(place),
                at: part.at,
                confidence: None,
            };
            let is_whole = from_line == 1 && part.next_line.is_none();
            let counts = is_whole.then(|| counted(&name, &passage.text, part.lines));
            let passages = if part.lines == 0 { Vec::new() } else { [passage].into_iter().chain(counts).collect() };
            Ok(ToolOutput { text, data: Read { path: takes.path, from_line, to_line, next_line: part.next_line, passages } })
        })
    })
}

/// The size of a file, for questions about it: models count badly.
fn counted(name: &str, text: &str, lines: usize) -> Passage {
    let text = format!("{name} has {lines} lines, {} words and {} characters.", text.split_whitespace().count(), text.chars().count());
    Passage { text, title: Some(name.to_owned()), place: Some("size".to_owned()), ..Passage::default() }
}

fn write(workspaces: &Workspaces) -> Tool {
    let workspaces = workspaces.clone();
    let about = "Write a text file under the root: whole or not at all, even if the machine stops. Say with `mode` what is to happen to a file \
                 that is already there.";
    // A folder that only runs write to has no user data to lose.
    let hints = Hints { reads_only: false, destroys: !workspaces.is_own(), repeats: true, open_world: false };
    Tool::new("write", about, hints, move |takes: WriteTakes, call| {
        let mode = match takes.mode {
            WriteArgument::Create => WriteMode::Create,
            WriteArgument::Replace => WriteMode::Replace,
        };
        put(workspaces.clone(), call, takes.path, takes.content, mode)
    })
}

/// A separate tool, because annotations are per tool: writing is idempotent, appending is not.
fn append(workspaces: &Workspaces) -> Tool {
    let workspaces = workspaces.clone();
    let about = "Add text at the end of a file under the root, or begin the file. What is there stays.";
    let hints = Hints { reads_only: false, destroys: false, repeats: false, open_world: false };
    Tool::new("append", about, hints, move |takes: AppendTakes, call| put(workspaces.clone(), call, takes.path, takes.content, WriteMode::Append))
}

async fn put(
    workspaces: Workspaces,
    call: CallContext,
    path: String,
    content: String,
    mode: WriteMode,
) -> Result<ToolOutput<WriteOutput>, ToolError> {
    in_root(workspaces, call, move |root| {
        let bytes = root.write(&path, content.as_bytes(), mode)?;
        Ok(ToolOutput { text: format!("{path} is written and holds {bytes} bytes"), data: WriteOutput { path, bytes } })
    })
    .await
}

#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    pattern: String,
    entries: Vec<Entry>,
    /// Whether the search stopped at a limit.
    cut: bool,
}

fn find(workspaces: &Workspaces) -> Tool {
    let workspaces = workspaces.clone();
    let about = "Find files and folders under the root by what their path looks like. Links are shown and not followed.";
    Tool::new("find", about, Hints::READS, move |takes: FindTakes, call| {
        in_root(workspaces.clone(), call, move |root| {
            let (entries, cut) = root.find(&takes.pattern)?;
            let mut text = match entries.len() {
                0 => format!("nothing under the root looks like `{}`; `**/*.md` finds all such files in all folders", takes.pattern),
                count => format!("{count} found{}:", if cut { ", and there may be more" } else { "" }),
            };
            for entry in &entries {
                text.push_str(&format!("\n{}", entry.line()));
            }
            Ok(ToolOutput { text, data: Found { pattern: takes.pattern, entries, cut } })
        })
    })
}
