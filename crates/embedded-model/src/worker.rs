//! The thread that owns the model: loads it for the first call, answers calls in turn, and frees it when it is idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use graph::ModelCall;

use super::chat::{self, Marks};
use super::decode::{self, DecodeRequest, Decoded};
use super::gguf::Gguf;
use super::grammar::Grammars;
use super::net::{Kv, Net};
use super::prefix::{Limits, Prefixes, Start};
use super::prefix_files::{self, PrefixFiles};
use super::vocabulary::Vocabulary;
use super::weights::Adapter;
use super::{Answer, EmbeddedError, Event, Finish, GeneratedOutput, Options, Order, Task, Timing, Tokens};

/// The longest text of a token. A prompt that is too long even with tokens of this length is refused before it is tokenized.
const BYTES_PER_TOKEN_MAX: usize = 64;

/// The thread ends when the sender is dropped.
pub(super) fn start(path: PathBuf, options: Options) -> Result<SyncSender<Order>, EmbeddedError> {
    let (sender, orders) = sync_channel(options.queue_max.max(1));
    let work = move || work(&path, &options, &orders);
    std::thread::Builder::new().name("embedded".into()).spawn(work).map_err(|error| EmbeddedError::bug(format!("no thread for it: {error}")))?;
    Ok(sender)
}

fn work(path: &Path, options: &Options, orders: &Receiver<Order>) {
    let mut loaded = None;
    loop {
        let order = match &loaded {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => orders.recv_timeout(options.idle_max),
        };
        match order {
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                loaded = None;
                tracing::debug!("the embedded model was idle and is unloaded");
            }
            Ok(order) => {
                // Weights are other people's data and candle trusts some of it; what it stumbles over must not end us.
                let result = catch_unwind(AssertUnwindSafe(|| perform(&mut loaded, path, options, &order))).unwrap_or_else(|panic| {
                    loaded = None;
                    let why = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
                    Err(EmbeddedError::damaged(format!("computing with them failed ({})", why.unwrap_or("no reason given"))))
                });
                // The caller may be gone.
                let _ = order.events.send(Event::Done(Box::new(result)));
                // The answer does not wait for files.
                if let Some(loaded) = &mut loaded {
                    loaded.save_prefix();
                }
            }
        }
    }
}

fn perform(loaded: &mut Option<LoadedModel>, path: &Path, options: &Options, order: &Order) -> Result<Answer, EmbeddedError> {
    let is_cancelled = || order.is_cancelled.load(Ordering::Relaxed);
    if is_cancelled() {
        return Err(EmbeddedError::Cancelled);
    }
    let started = Instant::now();
    let (loaded, load) = match loaded {
        Some(loaded) => (loaded, Duration::ZERO),
        None => (loaded.insert(LoadedModel::load(path, options)?), started.elapsed()),
    };
    let mut on_text = |text: &str| {
        if !text.is_empty() {
            let _ = order.events.send(Event::Delta(text.to_owned()));
        }
    };
    let mut answer = match &order.task {
        Task::Warm => loaded.warm()?,
        Task::Answer(call) => loaded.answer(call, options, &mut on_text, &is_cancelled)?,
    };
    answer.timing.load = load;
    Ok(answer)
}

struct LoadedModel {
    net: Net,
    vocabulary: Vocabulary,
    grammars: Grammars,
    prefixes: Prefixes<Kv>,
    files: Option<PrefixFiles>,
    /// What is to be kept in a file when the call is answered.
    unsaved: Option<(Vec<u32>, Kv)>,
}

impl LoadedModel {
    fn load(path: &Path, options: &Options) -> Result<Self, EmbeddedError> {
        let gguf = Gguf::open(path)?;
        let merged = options.adapter.map(|adapter| adapter.merged(path)).transpose()?;
        let gguf = match &merged {
            Some(merged) => gguf.with(Gguf::open(merged)?),
            None => gguf,
        };
        let vocabulary = Vocabulary::load(&gguf)?;
        let net = Net::load(&gguf, options.context_tokens_max, options.kernels)?;
        if vocabulary.len() > net.sizes.vocabulary {
            return Err(EmbeddedError::damaged(format!("{} tokens have names and {} have weights", vocabulary.len(), net.sizes.vocabulary)));
        }
        let grammars = Grammars::new(&vocabulary)?;
        let prefixes = Prefixes::new(Limits { entries_max: options.prefixes_max, tokens_max: options.prefix_tokens_max });
        let files = if options.keeps_prefixes && options.prefixes_max > 0 {
            prefix_files(merged.as_deref().unwrap_or(path), &net, options.adapter)
        } else {
            None
        };
        Ok(LoadedModel { net, vocabulary, grammars, prefixes, files, unsaved: None })
    }

    fn warm(&mut self) -> Result<Answer, EmbeddedError> {
        let mut kv = self.net.kv(16)?;
        // More than one, since candle repacks the weights for batches when it first meets one.
        let tokens = [self.vocabulary.turn_start; 8];
        self.net.forward(&mut kv, &tokens, true)?;
        let (tokens, timing) = (Tokens::default(), Timing::default());
        Ok(Answer { output: GeneratedOutput::Text(String::new()), finish: Finish::Stop, tokens, timing, network: self.net.info() })
    }

    fn answer(
        &mut self,
        call: &ModelCall,
        options: &Options,
        on_text: &mut dyn FnMut(&str),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Answer, EmbeddedError> {
        let context = self.net.sizes.context;
        let limit = call.tokens_max.map_or(options.answer_tokens_max, |max| usize::try_from(max).unwrap_or(usize::MAX)).max(1);
        let bytes: usize = call.messages.iter().map(|message| message.content.len()).sum();
        let too_long = |prompt: usize, answer: usize| EmbeddedError::TooLong { prompt, answer, context };
        if bytes / BYTES_PER_TOKEN_MAX > context {
            return Err(too_long(bytes / BYTES_PER_TOKEN_MAX, limit));
        }
        let marks = Marks { start: self.vocabulary.turn_start, end: self.vocabulary.turn_end };
        let prompt = chat::prompt(&call.messages, &marks, |text| self.vocabulary.encode(text))?;
        // A generous limit shrinks to what is left; a prompt that leaves hardly anything is refused.
        let left = context.saturating_sub(prompt.len());
        if left < limit.min(ANSWER_TOKENS_MIN) {
            return Err(too_long(prompt.len(), limit));
        }
        let limit = limit.min(left);
        let grammar = call.schema.as_ref().map(|schema| self.grammars.matcher(schema)).transpose()?;
        let mut kv = self.remember(&prompt, prompt.len() + limit)?;
        let cached = kv.len();
        let request = DecodeRequest { prompt: &prompt, grammar, tokens_max: limit, temperature: call.temperature.unwrap_or_default() };
        let decoded = decode::decode(&self.net, &self.vocabulary, &mut kv, request, on_text, is_cancelled);
        // Of a call that was cut short, what was read of the prompt stays useful.
        let generated = match &decoded {
            Ok(decoded) => decoded.tokens.as_slice(),
            Err(_) => {
                kv.truncate(prompt.len());
                &[]
            }
        };
        let known: Vec<u32> = prompt.iter().chain(generated).copied().take(kv.len()).collect();
        if known.len() == kv.len() {
            self.observe(&prompt, &kv)?;
            let sizes = &self.net.sizes;
            self.prefixes.keep(known, kv, |kv, len| kv.fork(sizes, len, len))?;
        }
        let Decoded { text, tokens, forced, finish, timing } = decoded?;
        let tokens = Tokens { prompt: prompt.len(), cached, answer: tokens.len(), forced };
        let output = match (&call.schema, finish) {
            (None, _) => GeneratedOutput::Text(text),
            (Some(_), Finish::Stop) => GeneratedOutput::Json(
                serde_json::from_str(&text).map_err(|error| EmbeddedError::bug(format!("a grammar let this through: {text} ({error})")))?,
            ),
            (Some(_), Finish::Length) => return Err(EmbeddedError::Truncated { tokens: tokens.answer, text }),
        };
        Ok(Answer { output, finish, tokens, timing, network: self.net.info() })
    }

    /// Room for `capacity` tokens that begins with as much of the prompt as is known.
    fn remember(&mut self, prompt: &[u32], capacity: usize) -> Result<Kv, EmbeddedError> {
        if let Some(kv) = self.read_prefix(prompt, capacity)? {
            return Ok(kv);
        }
        let sizes = &self.net.sizes;
        match self.prefixes.find(prompt) {
            Start::Fresh => self.net.kv(capacity),
            Start::Extend(kv) if kv.capacity() >= capacity => Ok(kv),
            Start::Extend(kv) => kv.fork(sizes, kv.len(), capacity),
            Start::Fork { memory, len } => memory.fork(sizes, len, capacity),
        }
    }
}

impl LoadedModel {
    /// What a file has of the prompt, where that is more than is in memory.
    fn read_prefix(&mut self, prompt: &[u32], capacity: usize) -> Result<Option<Kv>, EmbeddedError> {
        let Some(files) = &mut self.files else { return Ok(None) };
        let Some((at, len)) = files.find(prompt, self.prefixes.known(prompt)) else { return Ok(None) };
        let like = self.net.kv(1)?;
        let read = like.own().and_then(|like| files.load(at, capacity, like));
        Ok(read.map(|memory| Kv::of(memory, len, capacity)))
    }

    /// Takes note of the instructions that a prompt begins with, and copies what is to be kept of them.
    fn observe(&mut self, prompt: &[u32], kv: &Kv) -> Result<(), EmbeddedError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let is_start = |token: &u32| *token == self.vocabulary.turn_start;
        let instructions = prompt.iter().skip(1).position(is_start).map_or(0, |at| at + 1);
        let (instructions, rest) = prompt.split_at(instructions);
        if let Some(len) = files.observe(instructions, rest).filter(|len| *len <= kv.len()) {
            self.unsaved = Some((instructions[..len].to_vec(), kv.fork(&self.net.sizes, len, len)?));
        }
        Ok(())
    }

    fn save_prefix(&mut self) {
        if let (Some(files), Some((tokens, kv))) = (&mut self.files, self.unsaved.take())
            && let Some(memory) = kv.own()
        {
            files.keep(&tokens, memory);
        }
    }
}

/// Only our own kernels' memory has a form for files.
fn prefix_files(path: &Path, net: &Net, adapter: Option<&Adapter>) -> Option<PrefixFiles> {
    net.kv(1).ok()?.own()?;
    let kernels = net.info().kernels.to_string();
    let with = adapter.map_or_else(|| kernels.clone(), |adapter| format!("{kernels} {}", adapter.key()));
    match prefix_files::identity(path, &with) {
        Ok(identity) => Some(PrefixFiles::open(path, identity)),
        Err(error) => {
            tracing::debug!("prefixes are not kept in files: {error}");
            None
        }
    }
}

/// Fewer than this left for the answer is a prompt that does not fit.
const ANSWER_TOKENS_MIN: usize = 64;
