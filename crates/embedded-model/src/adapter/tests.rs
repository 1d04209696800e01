use candle_core::quantized::gguf_file::Content;
use tempfile::TempDir;

use super::*;

const ROWS: usize = 32;
const WIDTH: usize = 96;
const RANK: usize = 3;

fn value(at: usize, of: usize) -> f32 {
    ((at * 37 + of * 11) % 101) as f32 / 50.0 - 1.0
}

/// A safetensors file of one change.
fn file(factor: &[(&str, &str, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    header.insert("__metadata__".into(), serde_json::json!({ "rank": "3" }));
    for (name, dtype, shape, bytes) in factor {
        header.insert((*name).into(), serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [data.len(), data.len() + bytes.len()] }));
        data.extend(bytes);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

fn ints(count: usize, of: usize) -> Vec<u8> {
    (0..count).map(|at| ((at * 13 + of) % 255) as u8).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

const SCALES: ([f32; RANK], [f32; RANK]) = ([0.002, 0.001, 0.003], [0.004, 0.002, 0.001]);

fn change() -> Vec<u8> {
    file(&[
        ("blk.0.attn_q.a", "I8", vec![RANK, WIDTH], ints(RANK * WIDTH, 1)),
        ("blk.0.attn_q.a_scale", "F32", vec![RANK], floats(&SCALES.0)),
        ("blk.0.attn_q.b", "I8", vec![ROWS, RANK], ints(ROWS * RANK, 2)),
        ("blk.0.attn_q.b_scale", "F32", vec![RANK], floats(&SCALES.1)),
    ])
}

/// A base with one matrix and an output matrix, and its values.
fn base(folder: &TempDir) -> (PathBuf, Vec<f32>) {
    let matrix = |of: usize| Tensor::from_vec((0..ROWS * WIDTH).map(|at| value(at, of)).collect::<Vec<f32>>(), (ROWS, WIDTH), &Device::Cpu).unwrap();
    let [q, output] = [1, 2].map(|of| QTensor::quantize(&matrix(of), GgmlDType::Q5_0).unwrap());
    let path = folder.path().join("base.gguf");
    let tensors = [("blk.0.attn_q.weight", &q), ("output.weight", &output)];
    gguf_file::write(&mut File::create(&path).unwrap(), &[("general.architecture", &Value::String("qwen2".into()))], &tensors).unwrap();
    (path, numbers(&q))
}

fn numbers(tensor: &QTensor) -> Vec<f32> {
    tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

fn adapter(base: &Path, bytes: Vec<u8>) -> Adapter {
    let leak = |text: String| -> &'static str { text.leak() };
    let (sha256, base_sha256) = (hex(&Sha256::digest(&bytes)), hex(&Sha256::digest(fs::read(base).unwrap())));
    Adapter { name: "test", bytes: bytes.leak(), sha256: leak(sha256), base_sha256: leak(base_sha256) }
}

#[test]
fn what_is_merged_is_the_base_and_the_change_to_the_rounding_of_q6_k() {
    let folder = TempDir::new().unwrap();
    let (path, values) = base(&folder);
    let merged = adapter(&path, change()).merged(&path).unwrap();
    let mut file = File::open(&merged).unwrap();
    let content = Content::read(&mut file).unwrap();
    assert_eq!(content.tensor_infos.len(), 2);
    let found = content.tensor(&mut file, "blk.0.attn_q.weight", &Device::Cpu).unwrap();
    assert_eq!((found.shape().dims(), found.dtype()), (&[ROWS, 256][..], GgmlDType::Q6K));
    let found = numbers(&found);
    let (a, b) = (ints(RANK * WIDTH, 1), ints(ROWS * RANK, 2));
    let int = |byte: u8| f64::from(byte.cast_signed());
    let (mut most, mut moved) = (0.0_f64, 0.0_f64);
    for row in 0..ROWS {
        for at in 0..256 {
            let found = f64::from(found[row * 256 + at]);
            if at >= WIDTH {
                assert_eq!(found, 0.0, "row {row}, {at}");
                continue;
            }
            let change: f64 =
                (0..RANK).map(|r| int(b[row * RANK + r]) * f64::from(SCALES.1[r]) * int(a[r * WIDTH + at]) * f64::from(SCALES.0[r])).sum();
            let wanted = f64::from(values[row * WIDTH + at]) + change;
            most = most.max((found - wanted).abs());
            moved = moved.max(change.abs());
        }
    }
    // Values reach about 1.2, in steps of a 32nd of that, so rounding moves them by half of that at most and scales are rounded too.
    assert!(most < 0.03, "{most}");
    assert!(moved > 0.1, "the change is larger than rounding: {moved}");
}

#[test]
fn what_was_made_is_found_again_and_others_are_removed() {
    let folder = TempDir::new().unwrap();
    let (path, _) = base(&folder);
    let adapter = adapter(&path, change());
    let old = folder.path().join("base.gguf.tuned-0123456789abcdef.gguf");
    fs::write(&old, "made with another adapter").unwrap();
    let merged = adapter.merged(&path).unwrap();
    assert!(!old.exists());
    let made = fs::metadata(&merged).unwrap().modified().unwrap();
    assert_eq!(adapter.merged(&path).unwrap(), merged);
    assert_eq!(fs::metadata(&merged).unwrap().modified().unwrap(), made);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn other_bytes_and_other_weights_are_refused() {
    let folder = TempDir::new().unwrap();
    let (path, _) = base(&folder);
    let good = adapter(&path, change());
    let damaged = Adapter { sha256: "00", ..good };
    assert!(damaged.merged(&path).unwrap_err().to_string().contains("SHA-256"), "its own hash is checked");
    let foreign = Adapter { base_sha256: "00", ..good };
    let error = foreign.merged(&path).unwrap_err().to_string();
    assert!(error.contains("belongs to weights with the SHA-256 00"), "{error}");
    assert!(matches!(good.merged(&folder.path().join("none.gguf")), Err(EmbeddedError::NoWeights { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of what failed");
}

#[test]
fn an_adapter_that_does_not_fit_is_refused() {
    let folder = TempDir::new().unwrap();
    let (path, _) = base(&folder);
    let of = |entries: &[(&str, &str, Vec<usize>, Vec<u8>)]| adapter(&path, file(entries)).merged(&path).unwrap_err().to_string();
    assert!(of(&[("x.a", "I8", vec![1, 4], ints(4, 0))]).contains("x has no a_scale"));
    assert!(of(&[("x.a", "F64", vec![1], vec![0; 8])]).contains("F64"));
    assert!(of(&[("x.c", "I8", vec![2], ints(2, 0))]).contains("belongs to nothing"));
    assert!(of(&[("x.a", "I8", vec![3, 4], ints(4, 0))]).contains("for the shape"));
    let scale = || floats(&[1.0]);
    let other = of(&[
        ("blk.0.attn_q.a", "I8", vec![1, 8], ints(8, 0)),
        ("blk.0.attn_q.a_scale", "F32", vec![1], scale()),
        ("blk.0.attn_q.b", "I8", vec![ROWS, 1], ints(ROWS, 0)),
        ("blk.0.attn_q.b_scale", "F32", vec![1], scale()),
    ]);
    assert!(other.contains("the adapter is for 32 of 8"), "{other}");
    assert!(adapter(&path, vec![1, 2]).merged(&path).unwrap_err().to_string().contains("empty"));
}

#[test]
fn the_shipped_adapter_is_the_one_that_was_measured() {
    let adapter = crate::weights::adapter_of("qwen2.5-coder-0.5b-tuned").unwrap();
    assert_eq!(hex(&Sha256::digest(adapter.bytes)), adapter.sha256);
    assert_eq!(Factors::read(adapter.bytes).unwrap().0.len(), 24 * 7, "each matrix of each layer");
    for name in ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "other"] {
        assert!(crate::weights::adapter_of(name).is_none());
    }
}
