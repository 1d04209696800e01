//! The network of a binary built without vectors: there is none, so nothing is downloaded for it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::sources::Sources;

/// The width of `net.rs`, so that the file of vectors stays valid.
pub(crate) const WIDTH: usize = 384;

/// Never constructed.
#[allow(dead_code, reason = "it is only named")]
pub(crate) struct Net(Infallible);

impl Net {
    pub(crate) fn tokens(&self, _text: &str) -> Result<Vec<u32>, String> {
        match self.0 {}
    }

    pub(crate) fn encode(&self, _texts: Vec<Vec<u32>>) -> Vec<Vec<f32>> {
        match self.0 {}
    }
}

pub(super) fn give_way() {}

pub(super) fn are_there(_folder: &Path) -> bool {
    false
}

const NOT_BUILT: &str = "this binary was built without vectors; build it with the feature `vectors`";

pub(super) fn pull(_folder: &Path, _sources: &Sources, _stop: &AtomicBool) -> Result<(), String> {
    Err(NOT_BUILT.into())
}

pub(super) fn load(_folder: &Path) -> Result<Net, String> {
    Err(NOT_BUILT.into())
}
