//! Downloads the weights of an embedded model.

use std::path::Path;

use embedded_model::weights::{self, Pinned, PullError, Pulled, Source, Sources, Step};

use crate::error::{Result, ServiceError};
use crate::model_options::name_of;
use crate::notices::{self, Download};
use crate::signals::Interrupts;

/// Downloads the weights, with notices about their source and failed ones. An interrupted download is kept.
pub async fn pull(pinned: &Pinned, folder: &Path, sources: Sources, is_quiet: bool) -> Result<Pulled> {
    let name = name_of(pinned);
    if !is_quiet {
        notices::note(&format!("fetching {name}: {}, once, into {}", size_text(pinned.bytes), folder.display()));
    }
    let total_bytes = pinned.bytes;
    let on_step = move |step: Step| {
        if !is_quiet {
            notices::download(Some(&Download { done_bytes: step.done_bytes, total_bytes, source: step.source.to_string() }));
        }
    };
    let mut interrupts = Interrupts::listen()?;
    let pulled = tokio::select! {
        pulled = weights::pull(pinned, folder, &sources, &on_step) => pulled,
        signal = interrupts.next() => {
            notices::download(None);
            return Err(ServiceError::Stopped(signal, "what was fetched is kept; the next pull goes on from there".into()));
        }
    };
    notices::download(None);
    match pulled {
        Ok(pulled) => {
            if !is_quiet {
                report(&name.to_string(), &pulled);
            }
            Ok(pulled)
        }
        Err(error @ PullError::NoSource { .. }) => {
            Err(ServiceError::Failed(format!("{error}\n`baton models pull {} --from FILE` takes a copy you have", pinned.name)))
        }
        Err(error) => Err(ServiceError::Failed(error.to_string())),
    }
}

fn report(name: &str, pulled: &Pulled) {
    for (source, why) in &pulled.failed {
        notices::detail(&format!("not from {source}: {why}"));
    }
    match pulled.source {
        Source::Kept => notices::note(&format!("{name} is here already: {}", pulled.path.display())),
        source => notices::note(&format!("{name} came from {source} and has the right SHA-256: {}", pulled.path.display())),
    }
}

/// The size of weights, in MB.
pub(crate) fn size_text(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
