//! A reader of JSON lines with a limit for the length of one line.
//!
//! A line that grows too long is skipped to its end and replaced by an error for the request that it
//! answered, so that one call fails with a reason and the connection stays open. The request's id may stand at either end of the
//! message (some SDKs write it last), so every byte is looked at and none is kept.
//!
//! The inner transport has the same limit and drops the part of the line that already went through.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::server::StderrTail;

/// One message, of any kind.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 20;
/// A server that sends more than this in one message is disconnected.
const SKIPPED_BYTES_MAX: u64 = 2 << 30;
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) struct Bounded<R> {
    inner: R,
    chunk: Box<[u8]>,
    /// What is read and not yet handed on: `chunk[from..to]`, then `pending`.
    from: usize,
    to: usize,
    pending: Vec<u8>,
    line_bytes: u64,
    scan: Scan,
    stderr_tail: Arc<StderrTail>,
    is_cut_off: bool,
}

impl<R> Bounded<R> {
    pub(crate) fn new(inner: R, stderr_tail: Arc<StderrTail>) -> Self {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Bounded { inner, chunk, from: 0, to: 0, pending: Vec::new(), line_bytes: 0, scan: Scan::default(), stderr_tail, is_cut_off: false }
    }

    /// Takes bytes of the chunk up to the end of a line or of what may go through; what goes through is written to `out`.
    fn pass(&mut self, out: &mut ReadBuf<'_>) {
        while self.from < self.to && self.pending.is_empty() && out.remaining() > 0 {
            let chunk = &self.chunk[self.from..self.to];
            let line_end = chunk.iter().position(|byte| *byte == b'\n');
            let is_skipping = self.line_bytes > LINE_BYTES_MAX as u64;
            let mut length = line_end.unwrap_or(chunk.len());
            if !is_skipping {
                let room = usize::try_from(LINE_BYTES_MAX as u64 + 1 - self.line_bytes).unwrap_or(usize::MAX);
                length = length.min(room).min(out.remaining());
                out.put_slice(&chunk[..length]);
            }
            self.scan.read(&chunk[..length]);
            self.line_bytes += length as u64;
            let is_at_end = line_end == Some(length);
            self.from += length;
            if is_at_end {
                self.from += 1;
                self.end_line();
            } else if self.line_bytes > SKIPPED_BYTES_MAX {
                self.is_cut_off = true;
                self.stderr_tail.note(format!("it was cut off after {SKIPPED_BYTES_MAX} bytes of one message"));
                return;
            }
        }
    }

    fn end_line(&mut self) {
        self.pending.push(b'\n');
        if self.line_bytes > LINE_BYTES_MAX as u64
            && let Some(id) = self.scan.id.take()
        {
            self.pending.extend_from_slice(too_large(&id, self.line_bytes).as_bytes());
            self.pending.push(b'\n');
        }
        self.line_bytes = 0;
        self.scan = Scan::default();
    }
}

/// The error that stands for a reply which was too large. `id` is JSON.
pub(crate) fn too_large(id: &str, bytes: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{TOO_LARGE},"message":"the reply has {bytes} bytes, and at most {LINE_BYTES_MAX} are taken"}}}}"#
    )
}

/// In the range that JSON-RPC leaves to implementations; only ever made on this side.
pub(crate) const TOO_LARGE: i32 = -32_013;

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let before = out.filled().len();
        loop {
            if !this.pending.is_empty() {
                let length = this.pending.len().min(out.remaining());
                out.put_slice(&this.pending[..length]);
                this.pending.drain(..length);
            }
            this.pass(out);
            if out.filled().len() > before || out.remaining() == 0 || this.is_cut_off {
                return Poll::Ready(Ok(()));
            }
            if !this.pending.is_empty() || this.from < this.to {
                continue;
            }
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut chunk))?;
            (this.from, this.to) = (0, chunk.filled().len());
            if this.to == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Follows one JSON object and notices the value of its own `id`.
#[derive(Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    is_value: bool,
    is_id: bool,
    text: Vec<u8>,
    id: Option<String>,
}

/// Longer keys and ids are not ours.
const SCANNED_BYTES_MAX: usize = 64;

impl Scan {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    self.keep(byte);
                    if self.depth == 1 && !self.is_value {
                        self.is_id = self.text == b"\"id\"";
                    }
                    return;
                }
                _ => {}
            }
            self.keep(byte);
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 {
                    self.text.clear();
                }
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.is_value = true;
                self.text.clear();
            }
            b',' if self.depth == 1 => {
                self.end_value();
                (self.is_value, self.is_id) = (false, false);
                self.text.clear();
            }
            byte if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.text.len() < SCANNED_BYTES_MAX {
            self.text.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 && self.is_value && self.is_id && self.id.is_none() && !self.text.is_empty() {
            self.id = std::str::from_utf8(&self.text).ok().filter(|id| serde_json::from_str::<serde_json::Value>(id).is_ok()).map(str::to_owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#, Some("7")),
            (r#"{"result":{"id":8,"a":["{\"id\":9}"]},"jsonrpc":"2.0","id":7}"#, Some("7")),
            (r#"{"result":{"text":"\\\"id\":9,"}, "id" : "a-1" }"#, Some("\"a-1\"")),
            (r#"{"method":"note","params":{"id":8}}"#, None),
            (r#"{"key":"id","x":5}"#, None),
        ];
        for (text, id) in cases {
            let mut scan = Scan::default();
            scan.read(text.as_bytes());
            assert_eq!(scan.id.as_deref(), id, "{text}");
        }
    }

    #[tokio::test]
    async fn a_line_too_long_becomes_an_error_and_the_next_one_is_read() {
        for long in [0, 10, LINE_BYTES_MAX - 60, LINE_BYTES_MAX + 1, LINE_BYTES_MAX * 3] {
            let first = format!("{{\"result\":\"{}\",\"id\":3}}", "x".repeat(long));
            let input = format!("{first}\n{{\"id\":4}}\n");
            let mut out = Vec::new();
            Bounded::new(input.as_bytes(), Arc::default()).read_to_end(&mut out).await.unwrap();
            let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            assert_eq!(lines.last().unwrap(), b"{\"id\":4}");
            if first.len() <= LINE_BYTES_MAX {
                assert_eq!(lines[0], first.as_bytes());
                assert_eq!(lines.len(), 2);
            } else {
                assert_eq!(lines[0].len(), LINE_BYTES_MAX + 1, "the transport behind drops this one");
                assert_eq!(std::str::from_utf8(lines[1]).unwrap(), too_large("3", first.len() as u64));
            }
        }
    }
}
