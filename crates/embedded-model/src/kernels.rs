//! Which kernels compute the network.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

#[cfg(feature = "inference")]
use super::kernel::{self, Set};

/// What a machine could do at most, with all threads of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// In 10⁹ bytes a second.
    pub memory_gb_s: f64,
    /// 10⁹ products of a Q4_K weight and an activation a second, 64 rows at a time, all in the first caches.
    pub products_g_s: f64,
}

/// A choice of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Kernels {
    /// The fastest of our own that this processor runs; candle's for weights in formats that ours do not know.
    #[default]
    Auto,
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2 with FMA.
    Avx2,
    /// NEON with products of bytes.
    NeonDot,
    /// NEON without products of bytes.
    Neon,
    /// No special instructions.
    Scalar,
    /// candle's, which know more formats.
    Candle,
}

impl Kernels {
    /// All choices, for help texts.
    pub const ALL: [Kernels; 7] = [Kernels::Auto, Kernels::Avx512, Kernels::Avx2, Kernels::NeonDot, Kernels::Neon, Kernels::Scalar, Kernels::Candle];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Kernels::Auto => "auto",
            Kernels::Avx512 => "avx512",
            Kernels::Avx2 => "avx2",
            Kernels::NeonDot => "neon-dot",
            Kernels::Neon => "neon",
            Kernels::Scalar => "scalar",
            Kernels::Candle => "candle",
        }
    }

    /// The kernels that this processor runs, without [`Kernels::Auto`]; the fastest first.
    pub fn available() -> Vec<Kernels> {
        #[cfg(feature = "inference")]
        {
            kernel::available().into_iter().filter_map(|set| set.name.parse().ok()).chain([Kernels::Candle]).collect()
        }
        #[cfg(not(feature = "inference"))]
        {
            Vec::new()
        }
    }

    pub(super) fn limits(self) -> Option<Limits> {
        #[cfg(feature = "inference")]
        {
            self.set().map(kernel::limits)
        }
        #[cfg(not(feature = "inference"))]
        {
            None
        }
    }

    /// Our own set, if it is one of ours and this processor runs it.
    #[cfg(feature = "inference")]
    pub(super) fn set(self) -> Option<&'static Set> {
        kernel::available().into_iter().find(|set| self == Kernels::Auto || set.name == self.name())
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernels {
    type Err = UnknownKernels;

    fn from_str(name: &str) -> Result<Self, UnknownKernels> {
        Kernels::ALL.into_iter().find(|kernels| kernels.name() == name).ok_or_else(|| UnknownKernels(name.to_owned()))
    }
}

impl TryFrom<String> for Kernels {
    type Error = UnknownKernels;

    fn try_from(name: String) -> Result<Self, UnknownKernels> {
        name.parse()
    }
}

/// A name that is not in [`Kernels::ALL`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("there are no kernels named {0:?}; known are {names}", names = list(&Kernels::ALL))]
pub struct UnknownKernels(String);

pub(super) fn list(kernels: &[Kernels]) -> String {
    kernels.iter().map(|kernels| kernels.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(all(test, feature = "inference"))]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_the_best_that_runs_is_chosen() {
        for kernels in Kernels::ALL {
            assert_eq!(kernels.to_string().parse(), Ok(kernels));
        }
        let available = Kernels::available();
        assert!(available.ends_with(&[Kernels::Scalar, Kernels::Candle]), "{available:?}");
        assert_eq!(Kernels::Auto.set().map(|set| set.name), Some(available[0].name()));
        for kernels in Kernels::ALL.into_iter().skip(1) {
            assert_eq!(kernels.set().is_some(), available.contains(&kernels) && kernels != Kernels::Candle, "{kernels}");
        }
        let error = "sse".parse::<Kernels>().unwrap_err().to_string();
        assert!(error.contains("\"sse\"") && error.contains("avx2"), "{error}");
    }
}
