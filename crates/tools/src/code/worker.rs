//! Inside the sandbox: reads one request from standard input, runs it, and writes its messages to standard output, one JSON object per
//! line.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use monty::{MontyRun, RunProgress};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyFileHandle, MontyObject, MontyPath, NameLookupResult, OsFunctionCall,
    PrintWriter, PrintWriterCallback, ResourceLimits, ResourceTracker,
};
use serde_json::{Map, Value};

use super::protocol::{Request, WorkerMessage};
use super::sandbox::{Limits, Restrictions};
use crate::workspace::FileBytes;

/// Deeper values are returned as Python prints them.
const VALUE_DEPTH_MAX: usize = 40;
const FLUSH_BYTES: usize = 4096;

pub(super) fn work(limits: &Limits, walls: &Restrictions) {
    send_message(&WorkerMessage::Walls(walls.clone()));
    let mut text = String::new();
    let message =
        match io::stdin().read_to_string(&mut text).map_err(|e| e.to_string()).and_then(|_| serde_json::from_str(&text).map_err(|e| e.to_string())) {
            Ok(request) => run(request, limits),
            Err(e) => WorkerMessage::Failed { error: format!("the request makes no sense: {e}"), kind: "request".into() },
        };
    send_message(&message);
}

fn send_message(message: &WorkerMessage) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        // If nothing reads, the parent is about to kill this process.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

fn run(request: Request, limits: &Limits) -> WorkerMessage {
    if let Err(error) = request.files.iter().try_for_each(|file| place_file(&limits.scratch, file)) {
        return WorkerMessage::Failed { error: format!("the files of the workspace do not fit into the sandbox: {error}"), kind: "request".into() };
    }
    let mut printer = Printer { pending: String::new(), left: request.output_bytes_max };
    let ended = execute(request.code, request.inputs, request.run_ms_max, limits, &mut printer);
    printer.flush();
    match ended {
        Ok(value) => {
            // Files written by a failed program are dropped with the sandbox.
            if let Err(error) = send_changed(&limits.scratch, &request.files) {
                return WorkerMessage::Failed { error: format!("the files it wrote cannot be read back: {error}"), kind: "request".into() };
            }
            let result = json_of(&value, 0);
            let text = if let Value::String(text) = &result { text.clone() } else { result.to_string() };
            WorkerMessage::Done {
                result: if text.len() > request.result_bytes_max { Value::String(shortened(text, request.result_bytes_max)) } else { result },
            }
        }
        Err(e) => WorkerMessage::Failed { kind: e.exc_type().to_string(), error: e.to_string().chars().take(20_000).collect() },
    }
}

fn place_file(scratch: &Path, file: &FileBytes) -> io::Result<()> {
    let path = scratch.join(&file.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, &file.bytes)
}

/// Reports every regular file that differs from what was given.
fn send_changed(scratch: &Path, given: &[FileBytes]) -> io::Result<()> {
    let mut folders = vec![scratch.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let Some(name) = path.strip_prefix(scratch).ok().and_then(Path::to_str).map(str::to_owned) else { continue };
                let bytes = fs::read(&path)?;
                if !given.iter().any(|file| file.path == name && file.bytes == bytes) {
                    send_message(&WorkerMessage::File(FileBytes { path: name, bytes }));
                }
            }
        }
    }
    Ok(())
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    text.push('…');
    text
}

fn execute(code: String, inputs: Map<String, Value>, run_ms_max: u64, limits: &Limits, printer: &mut Printer) -> Result<MontyObject, MontyException> {
    let (names, values): (Vec<_>, Vec<_>) = inputs.into_iter().map(|(name, value)| (name, object_of(value))).unzip();
    let tracker = ResourceTracker::new(ResourceLimits::default().max_duration(Duration::from_millis(run_ms_max)));
    let run = MontyRun::new(code, "code.py", names, CompileOptions::default())?;
    let mut progress = run.start(values, tracker, PrintWriter::Callback(printer))?;
    loop {
        progress = match progress {
            RunProgress::Complete(value) => return Ok(value),
            RunProgress::OsCall(call) => call.resume_with(PrintWriter::Callback(printer), |asked| serve(&limits.scratch, &asked))?,
            RunProgress::NameLookup(lookup) => lookup.resume(NameLookupResult::Undefined, PrintWriter::Callback(printer))?,
            RunProgress::FunctionCall(call) => {
                let name = call.function_name.clone();
                call.resume(ExtFunctionResult::NotFound(name), PrintWriter::Callback(printer))?
            }
            RunProgress::ResolveFutures(_) => {
                return Err(MontyException::new(ExcType::RuntimeError, Some("nothing outside can be awaited here".into())));
            }
        };
    }
}

struct Printer {
    pending: String,
    left: usize,
}

impl Printer {
    fn add(&mut self, text: &str) -> Result<(), MontyException> {
        if text.len() > self.left {
            self.left = 0;
            return Err(MontyException::new(ExcType::MemoryError, Some("more was printed than is kept; print less".into())));
        }
        self.left -= text.len();
        self.pending.push_str(text);
        if self.pending.len() >= FLUSH_BYTES {
            self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            send_message(&WorkerMessage::Out(std::mem::take(&mut self.pending)));
        }
    }
}

impl PrintWriterCallback for Printer {
    fn stdout_write(&mut self, output: std::borrow::Cow<'_, str>) -> Result<(), MontyException> {
        self.add(&output)
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.add(end.encode_utf8(&mut [0; 4]))
    }
}

/// File operations on the scratch folder.
fn serve(scratch: &Path, asked: &OsFunctionCall) -> ExtFunctionResult {
    let place = |path: &MontyPath| -> io::Result<PathBuf> {
        let mut inside = scratch.to_owned();
        for part in Path::new(path.as_str()).components() {
            match part {
                Component::Normal(name) => inside.push(name),
                Component::ParentDir => return Err(io::Error::from(io::ErrorKind::PermissionDenied)),
                _ => {}
            }
        }
        Ok(inside)
    };
    let number = |n: usize| MontyObject::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let name = asked.fs_primary_path().map(str::to_owned);
    let done: io::Result<MontyObject> = (|| {
        Ok(match asked {
            OsFunctionCall::Exists(path) => MontyObject::Bool(place(path)?.exists()),
            OsFunctionCall::IsFile(path) => MontyObject::Bool(place(path)?.is_file()),
            OsFunctionCall::IsDir(path) => MontyObject::Bool(place(path)?.is_dir()),
            OsFunctionCall::IsSymlink(path) => MontyObject::Bool(place(path)?.is_symlink()),
            OsFunctionCall::ReadText(path) => MontyObject::String(fs::read_to_string(place(path)?)?),
            OsFunctionCall::ReadBytes(path) => MontyObject::Bytes(fs::read(place(path)?)?),
            OsFunctionCall::Iterdir(path) => {
                let names = fs::read_dir(place(path)?)?
                    .map(|entry| Ok(MontyObject::Path(format!("{}/{}", path.as_str().trim_end_matches('/'), entry?.file_name().to_string_lossy()))));
                MontyObject::List(names.collect::<io::Result<_>>()?)
            }
            OsFunctionCall::WriteText(args) => fs::write(place(&args.path)?, &args.data).map(|()| number(args.data.chars().count()))?,
            OsFunctionCall::WriteBytes(args) => fs::write(place(&args.path)?, &args.data).map(|()| number(args.data.len()))?,
            OsFunctionCall::AppendText(args) => append(&place(&args.path)?, args.data.as_bytes()).map(|()| number(args.data.chars().count()))?,
            OsFunctionCall::AppendBytes(args) => append(&place(&args.path)?, &args.data).map(|()| number(args.data.len()))?,
            OsFunctionCall::Open(args) => {
                let mode = args.mode.as_str();
                let mut options = fs::File::options();
                let options = match mode.chars().next() {
                    Some('w') => options.write(true).create(true).truncate(true),
                    Some('x') => options.write(true).create_new(true),
                    Some('a') => options.append(true).create(true),
                    _ => options.read(true),
                };
                options.open(place(&args.path)?)?;
                MontyObject::FileHandle(MontyFileHandle { path: args.path.as_str().to_owned(), mode: args.mode, position: 0 })
            }
            OsFunctionCall::Mkdir(args) => {
                let path = place(&args.path)?;
                let made = if args.parents { fs::create_dir_all(&path) } else { fs::create_dir(&path) };
                made.or_else(|e| if args.exist_ok && path.is_dir() { Ok(()) } else { Err(e) })?;
                MontyObject::None
            }
            OsFunctionCall::Unlink(path) => fs::remove_file(place(path)?).map(|()| MontyObject::None)?,
            OsFunctionCall::Rmdir(path) => fs::remove_dir(place(path)?).map(|()| MontyObject::None)?,
            OsFunctionCall::Rename(args) => {
                fs::rename(place(&args.src)?, place(&args.dst)?).map(|()| MontyObject::Path(args.dst.as_str().to_owned()))?
            }
            OsFunctionCall::Getenv(args) => args.default.clone(),
            OsFunctionCall::GetEnviron => MontyObject::dict(Vec::<(MontyObject, MontyObject)>::new()),
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        })
    })();
    match done {
        Ok(value) => ExtFunctionResult::Return(value),
        Err(e) if e.kind() == io::ErrorKind::Unsupported => ExtFunctionResult::Error(asked.on_no_handler()),
        Err(e) => {
            let kind = match e.kind() {
                io::ErrorKind::NotFound => ExcType::FileNotFoundError,
                io::ErrorKind::PermissionDenied => ExcType::PermissionError,
                io::ErrorKind::AlreadyExists => ExcType::FileExistsError,
                _ => ExcType::OSError,
            };
            ExtFunctionResult::Error(MontyException::new(kind, Some(format!("{e}: {:?}", name.unwrap_or_default()))))
        }
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::File::options().append(true).create(true).open(path)?.write_all(bytes)
}

fn object_of(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => MontyObject::Int(whole),
            None => MontyObject::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => MontyObject::String(text),
        Value::Array(items) => MontyObject::List(items.into_iter().map(object_of).collect()),
        Value::Object(fields) => {
            MontyObject::dict(fields.into_iter().map(|(name, value)| (MontyObject::String(name), object_of(value))).collect::<Vec<_>>())
        }
    }
}

/// The value as JSON; anything else as Python prints it.
fn json_of(object: &MontyObject, depth: usize) -> Value {
    if depth > VALUE_DEPTH_MAX {
        return Value::String(object.py_repr());
    }
    match object {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(*value),
        MontyObject::Int(whole) => (*whole).into(),
        MontyObject::Float(real) => serde_json::Number::from_f64(*real).map_or_else(|| Value::String(object.py_repr()), Value::Number),
        MontyObject::String(text) => Value::String(text.clone()),
        MontyObject::List(items) | MontyObject::Tuple(items) | MontyObject::Set(items) | MontyObject::FrozenSet(items) => {
            Value::Array(items.iter().map(|item| json_of(item, depth + 1)).collect())
        }
        MontyObject::NamedTuple { field_names, values, .. } => {
            Value::Object(field_names.iter().cloned().zip(values.iter().map(|value| json_of(value, depth + 1))).collect())
        }
        MontyObject::Dict(pairs) => {
            let name = |key: &MontyObject| if let MontyObject::String(text) = key { text.clone() } else { key.py_repr() };
            Value::Object(pairs.iter().map(|(key, value)| (name(key), json_of(value, depth + 1))).collect())
        }
        other => Value::String(other.py_repr()),
    }
}
