//! The whole model, tiny: a made-up network of a few thousand numbers in a real GGUF file, and damaged copies of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use candle_core::quantized::gguf_file::{self, Value as Field};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use graph::{Message, ModelCall};
use serde_json::json;
use tempfile::TempDir;

use super::gguf::Gguf;
use super::net::Net;
use super::*;

/// A made-up network.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    feed: usize,
    /// Of token names there may be fewer.
    vocabulary: usize,
    /// Of most matrices, and of those that matter more.
    formats: [GgmlDType; 2],
}

const TINY: Shape = Shape { width: 64, feed: 96, vocabulary: 260, formats: [GgmlDType::Q8_0; 2] };

/// In the formats that our own kernels know.
const SMALL: Shape = Shape { width: 256, feed: 512, vocabulary: 272, formats: [GgmlDType::Q4K, GgmlDType::Q6K] };

/// Letters of GPT-2's alphabet of bytes, then the marks.
fn tokens() -> (Vec<String>, Vec<i32>) {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let moved = (0..=u8::MAX).filter(|byte| !printable(byte)).count() as u32;
    let letters = (0..=u8::MAX).filter(printable).map(u32::from).chain(256..256 + moved);
    let mut tokens: Vec<String> = letters.filter_map(char::from_u32).map(String::from).collect();
    let mut kinds = vec![1; tokens.len()];
    for mark in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] {
        tokens.push(mark.into());
        kinds.push(3);
    }
    (tokens, kinds)
}

/// Numbers that look like chance and are always the same.
fn numbers(count: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5) * scale
    };
    (0..count).map(|_| next()).collect()
}

fn write_gguf(path: &Path, shape: Shape) {
    let Shape { width, feed, vocabulary, formats: [most, some] } = shape;
    let (tokens, kinds) = tokens();
    let texts = |texts: Vec<String>| Field::Array(texts.into_iter().map(Field::String).collect());
    let header = [
        ("general.architecture", Field::String("qwen2".into())),
        ("qwen2.block_count", Field::U32(2)),
        ("qwen2.embedding_length", Field::U32(width as u32)),
        ("qwen2.attention.head_count", Field::U32(4)),
        ("qwen2.attention.head_count_kv", Field::U32(2)),
        ("qwen2.attention.layer_norm_rms_epsilon", Field::F32(1e-6)),
        ("qwen2.rope.freq_base", Field::F32(10_000.0)),
        ("qwen2.context_length", Field::U32(1024)),
        ("tokenizer.ggml.model", Field::String("gpt2".into())),
        ("tokenizer.ggml.pre", Field::String("qwen2".into())),
        ("tokenizer.ggml.merges", texts(vec!["a b".into()])),
        ("tokenizer.ggml.token_type", Field::Array(kinds.into_iter().map(Field::I32).collect())),
    ];
    let mut tokens_and_pair = tokens;
    // The merge above needs its result to be a token; it replaces nothing.
    tokens_and_pair.insert(256, "ab".into());
    let mut header: Vec<(&str, Field)> = header.into_iter().collect();
    if let Some((_, Field::Array(kinds))) = header.iter_mut().find(|(key, _)| key.ends_with("token_type")) {
        kinds.insert(256, Field::I32(1));
    }
    assert!(tokens_and_pair.len() <= vocabulary);
    header.push(("tokenizer.ggml.tokens", texts(tokens_and_pair)));

    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut add = |name: String, shape: &[usize], scale: f32| {
        let count = shape.iter().product();
        let tensor = Tensor::from_vec(numbers(count, tensors.len() as u64 + 1, scale), shape, &Device::Cpu).unwrap();
        let matters = ["token_embd", "attn_v", "ffn_down"].iter().any(|part| name.contains(part));
        let dtype = match shape.len() {
            2 if matters => some,
            2 => most,
            _ => GgmlDType::F32,
        };
        tensors.push((name, QTensor::quantize(&tensor, dtype).unwrap()));
    };
    add("token_embd.weight".into(), &[vocabulary, width], 2.0);
    for layer in 0..2 {
        let mut part = |part: &str, shape: &[usize]| add(format!("blk.{layer}.{part}"), shape, 0.5);
        part("attn_q.weight", &[width, width]);
        part("attn_k.weight", &[width / 2, width]);
        part("attn_v.weight", &[width / 2, width]);
        part("attn_output.weight", &[width, width]);
        part("attn_q.bias", &[width]);
        part("attn_k.bias", &[width / 2]);
        part("attn_v.bias", &[width / 2]);
        part("attn_norm.weight", &[width]);
        part("ffn_norm.weight", &[width]);
        part("ffn_gate.weight", &[feed, width]);
        part("ffn_up.weight", &[feed, width]);
        part("ffn_down.weight", &[width, feed]);
    }
    add("output_norm.weight".into(), &[width], 2.0);
    let header: Vec<(&str, &Field)> = header.iter().map(|(key, field)| (*key, field)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut fs::File::create(path).unwrap(), &header, &tensors).unwrap();
}

fn tiny() -> (TempDir, PathBuf) {
    made(TINY)
}

fn made(shape: Shape) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiny.gguf");
    write_gguf(&path, shape);
    (folder, path)
}

/// With candle's kernels because of the formats, and with each that this processor has.
fn all() -> Vec<((TempDir, PathBuf), Options)> {
    let with = |kernels: Kernels| (made(SMALL), Options { kernels, ..Options::default() });
    let mut all = vec![(tiny(), Options::default())];
    all.extend(Kernels::available().into_iter().map(with));
    all
}

fn call(messages: &[(&str, &str)], tokens_max: u32) -> ModelCall {
    let messages = messages.iter().map(|(role, content)| Message { role: (*role).into(), content: (*content).into() }).collect();
    ModelCall { messages, tokens_max: Some(tokens_max), ..ModelCall::default() }
}

async fn ask(model: &Embedded, call: &ModelCall) -> Result<Answer, EmbeddedError> {
    model.answer(call, &Progress::nowhere()).await
}

#[tokio::test]
async fn it_answers_the_same_with_and_without_memory() {
    for ((_folder, path), options) in all() {
        let forgetful = Embedded::with(&path, Options { prefixes_max: 0, ..options.clone() });
        memory_changes_nothing(&Embedded::with(&path, options), &forgetful).await;
    }
}

/// A new process reads from a file what two questions of earlier ones had in common, and answers as without.
#[tokio::test]
async fn instructions_are_kept_for_the_next_process() {
    let long = "Some instructions that every call begins with. ".repeat(9);
    let asked = |question: &str| call(&[("system", &long), ("user", question)], 20);
    for ((_folder, path), options) in all() {
        let has_own_kernels = ask(&Embedded::with(&path, options.clone()), &asked("first")).await.unwrap().network.kernels != Kernels::Candle;
        for question in ["second", "third"] {
            ask(&Embedded::with(&path, options.clone()), &asked(question)).await.unwrap();
        }
        // The file is written after the answer is sent: the model that wrote it is asked once more, which waits for that.
        let writer = Embedded::with(&path, options.clone());
        for question in ["fourth", "fifth"] {
            ask(&writer, &asked(question)).await.unwrap();
        }
        let kept = ask(&Embedded::with(&path, options.clone()), &asked("abc")).await.unwrap();
        let fresh = ask(&Embedded::with(&path, Options { keeps_prefixes: false, ..options }), &asked("abc")).await.unwrap();
        assert_eq!(kept.output, fresh.output);
        assert_eq!((kept.tokens.cached > long.len() / 2, fresh.tokens.cached), (has_own_kernels, 0), "{:?}", kept.tokens);
    }
}

async fn memory_changes_nothing(model: &Embedded, forgetful: &Embedded) {
    let long = "Some instructions that every call begins with. ".repeat(9);
    for (question, is_cached) in [("abc", false), ("abd", true), ("abc", true), ("another", true)] {
        let call = call(&[("system", &long), ("user", question)], 20);
        let (answer, other) = (ask(model, &call).await.unwrap(), ask(forgetful, &call).await.unwrap());
        assert_eq!(answer.output, other.output, "{question}");
        assert_eq!(answer.tokens.cached > long.len() / 2, is_cached, "{:?}", answer.tokens);
        assert_eq!(other.tokens.cached, 0);
    }
}

#[tokio::test]
async fn the_streamed_text_is_the_answer() {
    let (_folder, path) = tiny();
    let streamed = Arc::new(Mutex::new(String::new()));
    let sink = streamed.clone();
    let progress = Progress::to(move |text| sink.lock().unwrap().push_str(text));
    for temperature in [0.0, 1.0] {
        streamed.lock().unwrap().clear();
        let call = ModelCall { temperature: Some(temperature), ..call(&[("user", "Grüße, 世界 😀 <|im_end|>")], 40) };
        let model = Embedded::open(&path);
        let answer = model.answer(&call, &progress).await.unwrap();
        assert_eq!(answer.output, GeneratedOutput::Text(streamed.lock().unwrap().clone()));
        assert_eq!(ask(&model, &call).await.unwrap().output, answer.output, "the same question is answered the same");
    }
}

#[tokio::test]
async fn a_schema_is_followed_or_the_cut_is_reported() {
    for ((_folder, path), options) in all() {
        follows_a_schema(&Embedded::with(&path, options)).await;
    }
}

async fn follows_a_schema(model: &Embedded) {
    let schema = json!({
        "type": "object",
        "properties": {"tool": {"enum": ["search", "é\u{301}crire"]}, "many": {"type": "boolean"}, "word": {"type": "string", "maxLength": 5}},
        "required": ["tool", "many", "word"], "additionalProperties": false, "uniqueItems": true,
    });
    let mut seen = HashSet::new();
    for at in 0..20 {
        let call = ModelCall { schema: Some(schema.clone()), temperature: Some(1.5), ..call(&[("user", &format!("question {at}"))], 200) };
        let GeneratedOutput::Json(value) = ask(model, &call).await.unwrap().output else { panic!("a schema gives JSON") };
        assert!(["search", "é\u{301}crire"].contains(&value["tool"].as_str().unwrap()), "{value}");
        assert!(value["many"].is_boolean() && value["word"].as_str().unwrap().chars().count() <= 5, "{value}");
        seen.insert(value["word"].to_string());
    }
    assert!(seen.len() > 3, "{seen:?}");
    let cut = ModelCall { schema: Some(schema), ..call(&[("user", "question")], 12) };
    assert!(matches!(ask(model, &cut).await, Err(EmbeddedError::Truncated { .. })));
    let bad = ModelCall { schema: Some(json!({"type": "nonsense"})), ..call(&[("user", "question")], 12) };
    assert!(matches!(ask(model, &bad).await, Err(EmbeddedError::BadSchema { .. })));
}

#[test]
fn all_kernels_agree_and_ours_in_any_pieces_to_the_bit() {
    let (_folder, path) = made(SMALL);
    let gguf = Gguf::open(&path).unwrap();
    let tokens: Vec<u32> = (0..61).map(|i| i * 37 % 255).collect();
    let logits = |net: &Net, pieces: &[usize]| {
        let mut kv = net.kv(tokens.len()).unwrap();
        let mut logits = Vec::new();
        for &piece in pieces {
            let seen = kv.len();
            logits = net.forward(&mut kv, &tokens[seen..seen + piece], true).unwrap();
            // What was forked goes on as if it were the same.
            kv = kv.fork(&net.sizes, kv.len(), tokens.len()).unwrap();
        }
        assert_eq!((kv.len(), logits.len()), (tokens.len(), SMALL.vocabulary));
        logits
    };
    let with = |kernels: Kernels| {
        let net = Net::load(&gguf, 1024, kernels).unwrap();
        assert_eq!(net.info().kernels, kernels);
        net
    };
    let (scalar, candle) = (logits(&with(Kernels::Scalar), &[61]), logits(&with(Kernels::Candle), &[61]));
    let spread = |logits: &[f32]| (logits.iter().map(|x| x * x).sum::<f32>() / logits.len() as f32).sqrt();
    let differences: Vec<f32> = scalar.iter().zip(&candle).map(|(scalar, candle)| scalar - candle).collect();
    assert!(spread(&differences) < 0.05 * spread(&candle), "{} of {}", spread(&differences), spread(&candle));
    for kernels in Kernels::available().into_iter().filter(|kernels| *kernels != Kernels::Candle) {
        let net = with(kernels);
        for pieces in [&[61][..], &[1; 61], &[17, 2, 3, 8, 31]] {
            assert_eq!(logits(&net, pieces), scalar, "{kernels}, {pieces:?}");
        }
    }
    assert_eq!(Net::load(&gguf, 1024, Kernels::Auto).unwrap().info().kernels, Kernels::available()[0]);
}

#[test]
fn kernels_that_cannot_run_are_an_error_that_names_others() {
    let ((_folder, small), (_other_folder, tiny)) = (made(SMALL), tiny());
    let load = |path: &Path, kernels: Kernels| Net::load(&Gguf::open(path).unwrap(), 1024, kernels).map(|net| net.info().kernels);
    assert_eq!(load(&tiny, Kernels::Auto), Ok(Kernels::Candle), "its formats are not ours");
    let error = load(&tiny, Kernels::Scalar).unwrap_err().to_string();
    assert!(error.contains("Q4_K") && error.contains("auto"), "{error}");
    let foreign = Kernels::ALL.into_iter().skip(1).find(|kernels| !Kernels::available().contains(kernels)).unwrap();
    let error = load(&small, foreign).unwrap_err().to_string();
    assert!(error.contains(foreign.name()) && error.contains("scalar"), "{error}");
}

#[tokio::test]
async fn limits_are_told() {
    let (_folder, path) = tiny();
    let model = Embedded::open(&path);
    for length in [1100, 1_000_000] {
        let long = call(&[("user", &"x".repeat(length))], 100);
        let trouble = ask(&model, &long).await.unwrap_err();
        assert!(matches!(trouble, EmbeddedError::TooLong { context: 1024, .. }), "{trouble}");
    }
    let answer = ask(&model, &call(&[("user", "go on")], 100_000)).await.unwrap();
    assert!(answer.finish == Finish::Stop || answer.tokens.prompt + answer.tokens.answer == 1024, "{:?}", answer.tokens);
}

#[tokio::test]
async fn a_call_nobody_waits_for_ends_and_the_next_is_answered() {
    let (_folder, path) = tiny();
    let model = Embedded::with(&path, Options { queue_max: 1, ..Options::default() });
    model.warm().await.unwrap();
    let schema = Some(json!({"type": "array", "items": {"type": "string", "minLength": 900}, "minItems": 1}));
    let endless = ModelCall { schema, ..call(&[("user", "talk")], 900) };
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let progress = Progress::to(move |text| sender.send(text.to_owned()).unwrap_or_default());
    tokio::select! {
        _ = model.answer(&endless, &progress) => panic!("it has 900 tokens to say"),
        // What the schema forces is sent before the prompt is read; more than that is not.
        _ = async { for _ in 0..8 { receiver.recv().await; } } => {}
    }
    let started = Instant::now();
    let hi = ask(&model, &call(&[("user", "talk")], 2)).await.unwrap();
    assert!(hi.tokens.cached > 10, "what it had read stays read: {:?}", hi.tokens);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn others_go_on_while_it_thinks() {
    let (_folder, path) = tiny();
    let model = Embedded::open(&path);
    // On this runtime there is one thread for all: a call that kept it would let nobody else in.
    let turns = Arc::new(AtomicUsize::new(0));
    let others = turns.clone();
    let going = tokio::spawn(async move {
        loop {
            others.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let answer = ask(&model, &call(&[("user", "talk")], 40)).await.unwrap();
    going.abort();
    assert!(answer.tokens.answer > 0 && turns.load(Ordering::Relaxed) > 100, "{} turns", turns.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_idle_model_is_unloaded_and_loaded_again() {
    let (_folder, path) = tiny();
    let model = Embedded::with(&path, Options { idle_max: Duration::from_millis(20), ..Options::default() });
    let hi = call(&[("user", "hi")], 2);
    assert!(ask(&model, &hi).await.unwrap().timing.load > Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = ask(&model, &hi).await.unwrap();
    assert!(answer.timing.load > Duration::ZERO && answer.tokens.cached == 0, "{answer:?}");
}

#[tokio::test]
async fn damaged_weights_are_an_error_that_names_the_next_step() {
    for shape in [TINY, SMALL] {
        damage_is_told(shape).await;
    }
}

async fn damage_is_told(shape: Shape) {
    let (folder, path) = made(shape);
    let hi = call(&[("user", "hi")], 4);
    let missing = ask(&Embedded::open(folder.path().join("no.gguf")), &hi).await.unwrap_err();
    assert!(matches!(missing, EmbeddedError::NoWeights { .. }) && missing.to_string().contains("baton models pull"), "{missing}");
    let whole = fs::read(&path).unwrap();
    let header = whole.len().min(6000);
    for at in 0..64 {
        let mut bytes = whole.clone();
        if at % 2 == 0 {
            bytes.truncate(whole.len() * at / 64);
        } else {
            // One damaged byte somewhere in the header: it may go unnoticed, but it must not end the process.
            bytes[header * at / 64] ^= 0xff;
        }
        fs::write(&path, bytes).unwrap();
        if let Err(trouble) = ask(&Embedded::open(&path), &hi).await {
            assert!(matches!(trouble, EmbeddedError::Damaged { .. }), "{at}: {trouble}");
            assert!(trouble.to_string().contains("baton models pull"), "{trouble}");
        } else {
            assert!(at % 2 == 1, "a file cut at {at}/64 was accepted");
        }
    }
}
