//! Reads a GGUF file: the numbers of its header and its tensors, with words for what is missing.
//!
//! candle's reader copies each tensor into memory of its own, so the file is read once and not mapped; the page cache makes
//! the second load cheap. It trusts parts of the header, so sums that could overflow or divide by nothing are checked here first.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::Device;
use candle_core::quantized::QTensor;
use candle_core::quantized::gguf_file::{Content, Value};

use super::Trouble;

pub(super) struct Gguf {
    content: Content,
    file: BufReader<File>,
}

impl Gguf {
    pub(super) fn open(path: &Path) -> Result<Self, Trouble> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Trouble::NoWeights { path: path.into() }),
            Err(error) => return Err(Trouble::damaged(format!("{} cannot be opened: {error}", path.display()))),
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let content = Content::read(&mut file).map_err(|error| Trouble::damaged(format!("{} is not a GGUF file: {error}", path.display())))?;
        for (name, tensor) in &content.tensor_infos {
            let elements = tensor.shape.dims().iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
            if elements.and_then(|elements| elements.checked_mul(8)).is_none() {
                return Err(Trouble::damaged(format!("tensor {name} claims an impossible shape, {:?}", tensor.shape.dims())));
            }
        }
        Ok(Gguf { content, file })
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    pub(super) fn tensor(&mut self, name: &str) -> Result<QTensor, Trouble> {
        self.content.tensor(&mut self.file, name, &Device::Cpu).map_err(|error| Trouble::damaged(format!("tensor {name}: {error}")))
    }

    /// A number that counts something, so never zero.
    pub(super) fn count(&self, key: &str) -> Result<usize, Trouble> {
        let count = self.value(key)?.to_u64().ok().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=1 << 24).contains(n));
        count.ok_or_else(|| Trouble::damaged(format!("{key} is not a sensible number")))
    }

    pub(super) fn float(&self, key: &str) -> Result<f32, Trouble> {
        let float = self.value(key)?.to_f32().ok().filter(|x| x.is_finite());
        float.ok_or_else(|| Trouble::damaged(format!("{key} is not a number")))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, Trouble> {
        self.value(key)?.to_string().map(String::as_str).map_err(|_| Trouble::damaged(format!("{key} is not a text")))
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Value], Trouble> {
        self.value(key)?.to_vec().map(Vec::as_slice).map_err(|_| Trouble::damaged(format!("{key} is not a list")))
    }

    fn value(&self, key: &str) -> Result<&Value, Trouble> {
        self.content.metadata.get(key).ok_or_else(|| Trouble::damaged(format!("its header has no {key}")))
    }
}
