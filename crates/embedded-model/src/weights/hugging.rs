//! From Hugging Face or a mirror of it: one file, resumed where an earlier pull stopped.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use reqwest::{StatusCode, header};

use super::{Pinned, Source, Step};

pub(super) const ENDPOINT: &str = "https://huggingface.co";

/// Short, because there is another source to try.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Silence in the middle of a file.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub(super) async fn fetch(model: &Pinned, endpoint: &str, partial: &Path, on_step: &(dyn Fn(Step) + Send + Sync)) -> Result<(), String> {
    let here = |error: std::io::Error| format!("{}: {error}", partial.display());
    let mut file = OpenOptions::new().create(true).append(true).open(partial).map_err(here)?;
    let mut done = file.metadata().map_err(here)?.len();
    if done > model.bytes {
        file.set_len(0).map_err(here)?;
        done = 0;
    }
    if done == model.bytes {
        return Ok(());
    }
    let url = format!("{}/{}/resolve/main/{}", endpoint.trim_end_matches('/'), model.repository, model.file);
    let client = reqwest::Client::builder().connect_timeout(CONNECT_MAX).read_timeout(SILENCE_MAX).build().map_err(|error| error.to_string())?;
    let mut request = client.get(&url);
    if done > 0 {
        request = request.header(header::RANGE, format!("bytes={done}-"));
    }
    let mut response = request.send().await.map_err(|error| error_chain(&error))?;
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {}
        // It does not do ranges, or has another file by now.
        StatusCode::OK => {
            file.set_len(0).map_err(here)?;
            done = 0;
        }
        status => return Err(format!("{url} answers {status}")),
    }
    while let Some(bytes) = response.chunk().await.map_err(|error| format!("it broke off after {done} bytes: {}", error_chain(&error)))? {
        done += bytes.len() as u64;
        if done > model.bytes {
            file.set_len(0).map_err(here)?;
            return Err(format!("it sends more than the {} bytes of the file", model.bytes));
        }
        file.write_all(&bytes).map_err(here)?;
        on_step(Step { source: Source::Hugging, done_bytes: done, total_bytes: model.bytes });
    }
    file.sync_all().map_err(here)?;
    if done < model.bytes { Err(format!("it broke off after {done} of {} bytes", model.bytes)) } else { Ok(()) }
}

/// The error and what caused it, since the first alone has no details.
fn error_chain(error: &reqwest::Error) -> String {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}
