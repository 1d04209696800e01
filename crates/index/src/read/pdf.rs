//! PDF: the text of each page.
//!
//! The reader runs on a thread of its own with a large stack, since files nest as deep as they like, and is left behind when it
//! takes too long: there is no way to end a thread. It may also panic, which only costs this file.

use std::panic::catch_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};

use super::{Block, Document, Limits, Skipped};
use crate::passage::Place;

const STACK_BYTES: usize = 64 << 20;

pub(super) fn read(bytes: Vec<u8>, limits: Limits) -> Result<Document, Skipped> {
    let broken = |why: String| Skipped::Broken(why);
    if !bytes.windows(5).take(1024).any(|window| window == b"%PDF-") {
        return Err(broken("it is not a PDF".into()));
    }
    let (sender, receiver) = channel();
    let work = move || {
        let pages = catch_unwind(|| pdf_extract::extract_text_from_mem_by_pages(&bytes).map_err(|error| error.to_string()));
        // Nobody listens any more when it took too long.
        let _ = sender.send(pages.unwrap_or_else(|_| Err("its reader gave up on it".into())));
    };
    std::thread::Builder::new().name("pdf".into()).stack_size(STACK_BYTES).spawn(work).map_err(|error| broken(error.to_string()))?;
    let pages = match receiver.recv_timeout(limits.time_max) {
        Ok(pages) => pages.map_err(broken)?,
        Err(RecvTimeoutError::Timeout) => return Err(Skipped::TooSlow { seconds_max: limits.time_max.as_secs() }),
        Err(RecvTimeoutError::Disconnected) => return Err(broken("its reader ended".into())),
    };
    if pages.iter().map(String::len).sum::<usize>() as u64 > limits.bytes_max {
        return Err(Skipped::TooLarge { bytes_max: limits.bytes_max });
    }
    let mut document = Document::default();
    for (page, text) in (1..).zip(&pages) {
        for paragraph in super::text::read(text).blocks {
            document.blocks.push(Block { text: paragraph.text, place: Some(Place::Page(page)), ..Default::default() });
        }
    }
    Ok(document)
}
