//! Matrices of quantized weights, held only as long as the kernels look at them.
//!
//! candle's kernels lay most matrices out anew when they first multiply with them, and from then on look at that copy alone; yet
//! the original would stay in memory beside it, which was a third of all this model took. So a matrix here reads its original
//! from the file, is multiplied once with as many rows as it will meet (kernels choose by that), and lets the original go if
//! every product was made without it. Should a kernel ask for it after all, as one for larger batches may on other processors, it is
//! read again and then stays.
//!
//! ```text
//!   file ──read──> blocks ──first products──> laid out anew ──> every product
//!     ^              └── nobody needs them: let go
//!     └── somebody does: read again, and keep
//! ```

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor, QuantizedType};
use candle_core::{CpuStorage, DType, Device, Module, Result, Tensor};

/// Where a tensor lies in the file.
#[derive(Clone)]
pub(super) struct TensorLocation {
    pub(super) file: Arc<Mutex<File>>,
    pub(super) start: u64,
    pub(super) dtype: GgmlDType,
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl TensorLocation {
    fn row_bytes(&self) -> usize {
        self.width / self.dtype.block_size() * self.dtype.type_size()
    }

    fn read(&self, rows: impl Iterator<Item = std::ops::Range<usize>>) -> std::io::Result<Box<dyn QuantizedType>> {
        let mut bytes = Vec::new();
        for rows in rows {
            let filled = bytes.len();
            bytes.resize(filled + rows.len() * self.row_bytes(), 0);
            self.fill(rows.start, &mut bytes[filled..])?;
        }
        Ok(self.dtype.from_data(bytes.into()))
    }

    /// The blocks from a row on, as they are in the file.
    pub(super) fn fill(&self, row: usize, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.start + (row * self.row_bytes()) as u64))?;
        file.read_exact(bytes)
    }
}

/// Rows that are looked up one at a time, and so need not be in memory at all: the system keeps the file at hand.
pub(super) struct Rows(pub(super) TensorLocation);

impl Rows {
    pub(super) fn get(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let Rows(place) = self;
        if let Some(id) = ids.iter().find(|id| **id as usize >= place.rows) {
            candle_core::bail!("row {id} of {}", place.rows)
        }
        let found = place.read(ids.iter().map(|&id| id as usize..id as usize + 1))?;
        let numbers: Vec<u32> = (0..ids.len() as u32).collect();
        match found.embedding(&numbers, ids.len(), place.width)? {
            CpuStorage::F32(values) => Ok(values),
            other => candle_core::bail!("rows came as {:?}", candle_core::backend::BackendStorage::dtype(&other)),
        }
    }
}

pub(super) struct Matrix {
    weight: QMatMul,
    blocks: Arc<Blocks>,
}

/// How many rows a matrix is multiplied with: kernels, and what they lay out anew, differ by that.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Use {
    /// One at a time, so nothing is laid out for batches.
    Single,
    Batches,
}

impl Matrix {
    pub(super) fn load(place: TensorLocation, used: Use) -> Result<Self> {
        let (rows, width) = (place.rows, place.width);
        let blocks = Arc::new(Blocks { place, held: RwLock::default(), is_read: AtomicBool::new(false) });
        let tensor = QTensor::new(QStorage::Cpu(Box::new(Shared(blocks.clone()))), (rows, width))?;
        let matrix = Matrix { weight: QMatMul::from_qtensor(tensor)?, blocks };
        let tries: &[usize] = match used {
            Use::Single => &[1],
            Use::Batches => &[1, 2],
        };
        for &rows in tries {
            matrix.weight.forward(&Tensor::zeros((rows, width), DType::F32, &Device::Cpu)?)?;
        }
        if !matrix.blocks.is_read.load(Ordering::Relaxed) {
            matrix.blocks.release();
        }
        Ok(matrix)
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.forward(x)
    }

    /// Several products with the same `x`, in one go where there is a kernel for that. It is meant for few rows.
    pub(super) fn forward_all<const N: usize>(matrices: [&Matrix; N], x: &Tensor) -> Result<[Tensor; N]> {
        let tensors = matrices.iter().filter_map(|matrix| match &matrix.weight {
            QMatMul::QTensor(tensor) => Some(tensor.as_ref()),
            QMatMul::Tensor(_) | QMatMul::TensorF16(_) => None,
        });
        let tensors: Vec<&QTensor> = tensors.collect();
        let is_alike = tensors.len() == N && tensors.iter().all(|tensor| tensor.dtype() == tensors[0].dtype());
        if is_alike
            && x.dim(0)? < FEW_ROWS
            && let Some(products) = QTensor::gemv_fused_shared_lhs(&tensors, x)?
            && let Ok(products) = products.try_into()
        {
            return Ok(products);
        }
        let products: Vec<Tensor> = matrices.iter().map(|matrix| matrix.forward(x)).collect::<Result<_>>()?;
        products.try_into().map_err(|_| candle_core::Error::Msg("as many products as matrices".into()))
    }

    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        self.blocks.held.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// From here on kernels for whole batches are better than one for several matrices.
const FEW_ROWS: usize = 32;

/// The original of a matrix: in the file, and while it is needed in memory.
struct Blocks {
    place: TensorLocation,
    held: RwLock<Option<Box<dyn QuantizedType>>>,
    /// Whether a product was made from the original itself.
    is_read: AtomicBool,
}

impl Blocks {
    fn with<T>(&self, look: impl FnOnce(&dyn QuantizedType) -> T) -> Result<T> {
        if let Some(held) = &*self.held.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(look(held.as_ref()));
        }
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let held = match &mut *held {
            Some(held) => held,
            empty => empty.insert(self.place.read(std::iter::once(0..self.place.rows))?),
        };
        Ok(look(held.as_ref()))
    }

    /// Only while no product is computed: it invalidates addresses that were given out.
    fn release(&self) {
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn read<T>(&self, look: impl FnOnce(&dyn QuantizedType) -> Result<T>) -> Result<T> {
        self.is_read.store(true, Ordering::Relaxed);
        self.with(look)?
    }
}

/// What candle takes for a tensor's storage.
struct Shared(Arc<Blocks>);

impl QuantizedType for Shared {
    fn dtype(&self) -> GgmlDType {
        self.0.place.dtype
    }

    fn matmul_t(&self, mkn: (usize, usize, usize), lhs: &[f32], dst: &mut [f32]) -> Result<()> {
        self.0.read(|blocks| blocks.matmul_t(mkn, lhs, dst))
    }

    fn matmul_t_f16(&self, mkn: (usize, usize, usize), lhs: &[half::f16], dst: &mut [half::f16]) -> Result<()> {
        self.0.read(|blocks| blocks.matmul_t_f16(mkn, lhs, dst))
    }

    fn embedding(&self, ids: &[u32], rows: usize, hidden: usize) -> Result<CpuStorage> {
        self.0.read(|blocks| blocks.embedding(ids, rows, hidden))
    }

    fn dequantize(&self, elem_count: usize) -> Result<CpuStorage> {
        // Requested once, by a matrix that does not need the original afterwards.
        self.0.with(|blocks| blocks.dequantize(elem_count))?
    }

    fn storage_size_in_bytes(&self) -> usize {
        self.0.place.rows * self.0.place.row_bytes()
    }

    /// Asked for when a matrix is laid out anew.
    fn as_ptr(&self) -> *const u8 {
        match self.0.with(|blocks| blocks.as_ptr()) {
            Ok(address) => address,
            // The trait has no error here; the owner of the thread catches the panic.
            Err(error) => panic!("the weights cannot be read again: {error}"),
        }
    }

    fn block_size(&self) -> usize {
        self.0.place.dtype.block_size()
    }

    fn from_float(&mut self, _: &[f32]) {
        unreachable!("weights are never quantized here");
    }

    fn from_float_imatrix(&mut self, _: &[f32], _: &[f32], _: usize) {
        unreachable!("weights are never quantized here");
    }

    fn size(&self) -> usize {
        self.storage_size_in_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ROWS: usize = 32;
    const WIDTH: usize = 256;

    /// A file of quantized numbers, and the tensor they came from.
    fn place(dtype: GgmlDType) -> (TensorLocation, QTensor) {
        let values: Vec<f32> = (0..ROWS * WIDTH).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
        let tensor = QTensor::quantize(&Tensor::from_vec(values, (ROWS, WIDTH), &Device::Cpu).unwrap(), dtype).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        file.write_all(&tensor.data().unwrap()).unwrap();
        (TensorLocation { file: Arc::new(Mutex::new(file)), start: 6, dtype, rows: ROWS, width: WIDTH }, tensor)
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn a_matrix_multiplies_the_same_whatever_it_holds() {
        for dtype in [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q8_0, GgmlDType::Q5_0, GgmlDType::F32] {
            let (place, tensor) = place(dtype);
            let plain = QMatMul::from_qtensor(tensor).unwrap();
            let matrix = Matrix::load(place, Use::Batches).unwrap();
            for rows in [1, 2, 3, 40] {
                let x: Vec<f32> = (0..rows * WIDTH).map(|i| (i % 17) as f32 / 17.0).collect();
                let x = Tensor::from_vec(x, (rows, WIDTH), &Device::Cpu).unwrap();
                let expected = numbers(&plain.forward(&x).unwrap());
                assert_eq!(numbers(&matrix.forward(&x).unwrap()), expected, "{dtype:?} {rows}");
                let [a, b] = Matrix::forward_all([&matrix, &matrix], &x).unwrap();
                assert_eq!((numbers(&a), numbers(&b)), (expected.clone(), expected), "{dtype:?} {rows}");
            }
        }
    }

    #[test]
    fn the_original_is_kept_where_products_need_it() {
        // This kind has no other layout.
        assert!(Matrix::load(place(GgmlDType::Q5_0).0, Use::Batches).unwrap().is_held());
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            assert!(!Matrix::load(place(GgmlDType::Q4K).0, Use::Single).unwrap().is_held());
        }
    }

    #[test]
    fn what_was_let_go_is_read_again() {
        let (place, tensor) = place(GgmlDType::Q4K);
        let matrix = Matrix::load(place, Use::Batches).unwrap();
        matrix.blocks.release();
        let found = Shared(matrix.blocks.clone()).embedding(&[3], ROWS, WIDTH).unwrap();
        let CpuStorage::F32(found) = found else { panic!("{found:?}") };
        assert_eq!(found, numbers(&tensor.dequantize(&Device::Cpu).unwrap())[3 * WIDTH..4 * WIDTH]);
        assert!(matrix.is_held());
    }

    #[test]
    fn rows_are_read_from_the_file() {
        for dtype in [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::F16] {
            let (place, tensor) = place(dtype);
            let whole = numbers(&tensor.dequantize(&Device::Cpu).unwrap());
            let rows = Rows(place);
            let found = rows.get(&[31, 0, 31]).unwrap();
            let row = |at: usize| whole[at * WIDTH..(at + 1) * WIDTH].to_vec();
            assert_eq!(found, [row(31), row(0), row(31)].concat(), "{dtype:?}");
            assert!(rows.get(&[32]).is_err());
        }
    }
}
