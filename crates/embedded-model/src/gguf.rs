//! Reads a GGUF file: the numbers of its header and its tensors, with words for what is missing.
//!
//! The file is read and not mapped: what the kernels need is laid out anew in memory anyway, and the page cache makes the second
//! load cheap. candle trusts parts of the header, so sums that could overflow or divide by nothing are checked here first.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Device;
use candle_core::quantized::QTensor;
use candle_core::quantized::gguf_file::{Content, Value};

use super::EmbeddedError;
use super::blocks::TensorLocation;

pub(super) struct Gguf {
    content: Content,
    file: Arc<Mutex<File>>,
    /// A file whose matrices are taken instead of those here (see `adapter`).
    over: Option<Box<Gguf>>,
}

impl Gguf {
    pub(super) fn open(path: &Path) -> Result<Self, EmbeddedError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(EmbeddedError::NoWeights { path: path.into() }),
            Err(error) => return Err(EmbeddedError::damaged(format!("{} cannot be opened: {error}", path.display()))),
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let content = Content::read(&mut file).map_err(|error| EmbeddedError::damaged(format!("{} is not a GGUF file: {error}", path.display())))?;
        for (name, tensor) in &content.tensor_infos {
            let elements = tensor.shape.dims().iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
            if elements.and_then(|elements| elements.checked_mul(8)).is_none() {
                return Err(EmbeddedError::damaged(format!("tensor {name} claims an impossible shape, {:?}", tensor.shape.dims())));
            }
        }
        Ok(Gguf { content, file: Arc::new(Mutex::new(file.into_inner())), over: None })
    }

    /// With the matrices of another file in place of its own.
    pub(super) fn with(self, over: Gguf) -> Self {
        Gguf { over: Some(Box::new(over)), ..self }
    }

    /// Where the numbers of each token are. An output matrix that was replaced leaves its original, which has more bits than the embedding.
    pub(super) fn embedding(&self) -> Result<TensorLocation, EmbeddedError> {
        let is_free = self.over.as_ref().is_some_and(|over| over.has("output.weight")) && self.content.tensor_infos.contains_key("output.weight");
        self.own_place(if is_free { "output.weight" } else { "token_embd.weight" })
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name) || self.over.as_ref().is_some_and(|over| over.has(name))
    }

    pub(super) fn tensor(&self, name: &str) -> Result<QTensor, EmbeddedError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.content.tensor(&mut *file, name, &Device::Cpu).map_err(|error| EmbeddedError::damaged(format!("tensor {name}: {error}")))
    }

    /// Where the rows of a matrix are to be read, all of which are there.
    pub(super) fn place(&self, name: &str) -> Result<TensorLocation, EmbeddedError> {
        match &self.over {
            Some(over) if over.has(name) => over.place(name),
            _ => self.own_place(name),
        }
    }

    fn own_place(&self, name: &str) -> Result<TensorLocation, EmbeddedError> {
        let wrong = |why: String| EmbeddedError::damaged(format!("tensor {name}: {why}"));
        let tensor = self.content.tensor_infos.get(name).ok_or_else(|| wrong("it is missing".into()))?;
        let dtype = tensor.ggml_dtype;
        let (rows, width) = tensor.shape.dims2().map_err(|error| wrong(error.to_string()))?;
        if width == 0 || rows == 0 || !width.is_multiple_of(dtype.block_size()) {
            return Err(wrong(format!("{rows} rows of {width} are not whole blocks of {}", dtype.block_size())));
        }
        let start = self.content.tensor_data_offset.saturating_add(tensor.offset);
        let bytes = (rows * (width / dtype.block_size()) * dtype.type_size()) as u64;
        let file_bytes = self.file.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0)).map_err(EmbeddedError::damaged)?;
        if file_bytes.saturating_sub(start) < bytes {
            return Err(wrong(format!("it needs {bytes} bytes from {start} on, and the file ends at {file_bytes}")));
        }
        Ok(TensorLocation { file: self.file.clone(), start, dtype, rows, width })
    }

    /// A number that counts something, so never zero.
    pub(super) fn count(&self, key: &str) -> Result<usize, EmbeddedError> {
        let count = self.value(key)?.to_u64().ok().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=1 << 24).contains(n));
        count.ok_or_else(|| EmbeddedError::damaged(format!("{key} is not a sensible number")))
    }

    pub(super) fn float(&self, key: &str) -> Result<f32, EmbeddedError> {
        let float = self.value(key)?.to_f32().ok().filter(|x| x.is_finite());
        float.ok_or_else(|| EmbeddedError::damaged(format!("{key} is not a number")))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, EmbeddedError> {
        self.value(key)?.to_string().map(String::as_str).map_err(|_| EmbeddedError::damaged(format!("{key} is not a text")))
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Value], EmbeddedError> {
        self.value(key)?.to_vec().map(Vec::as_slice).map_err(|_| EmbeddedError::damaged(format!("{key} is not a list")))
    }

    fn value(&self, key: &str) -> Result<&Value, EmbeddedError> {
        self.content.metadata.get(key).ok_or_else(|| EmbeddedError::damaged(format!("its header has no {key}")))
    }
}
