//! Why a service could not be configured, built or used.

use engine::EngineError;
use store::StoreError;

use crate::signals::StopSignal;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, ServiceError>;

/// What stopped a command or a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// An invalid option, configuration or name; the message has what to write instead.
    #[error("{0}")]
    Usage(String),
    /// A check failed, or something external did not work.
    #[error("{0}")]
    Failed(String),
    /// The folder of the database cannot be used.
    #[error("{0}")]
    Folder(String),
    /// The process was asked to end before there was a run.
    #[error("{1}")]
    Stopped(StopSignal, String),
    /// The engine or its store failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Reading or writing failed.
    #[error("writing failed: {0}")]
    Output(#[from] std::io::Error),
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        ServiceError::Engine(error.into())
    }
}

impl From<serde_json::Error> for ServiceError {
    fn from(error: serde_json::Error) -> Self {
        ServiceError::Output(error.into())
    }
}
