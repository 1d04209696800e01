//! One invocation as Restate's service protocol has it: messages in, messages out, and the state machine of `restate-sdk-shared-core` between them.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use restate_sdk_shared_core::{
    AwaitResponse, AwaitingOnPolicy, CoreVM, Error, Input, JournalReplay, NonEmptyValue, NotificationHandle, PayloadOptions, ResponseHead,
    RetryPolicy, RunExitResult, TerminalFailure, UnresolvedFuture, VM as _, VMOptions,
};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Messages that may wait for the network.
const OUTGOING_MAX: usize = 256;

/// Why an invocation cannot continue here. Restate retries it, here or in another worker, if it must.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvocationEnd {
    #[error("the connection to the Restate server was lost")]
    Disconnected,
    #[error("the invocation is suspended until it is needed again")]
    Suspended,
    #[error("{0}")]
    Protocol(Error),
}

impl From<Error> for InvocationEnd {
    fn from(error: Error) -> InvocationEnd {
        if error.is_suspended_error() { InvocationEnd::Suspended } else { InvocationEnd::Protocol(error) }
    }
}

pub(crate) struct Invocation {
    pub(crate) vm: CoreVM,
    start: Start,
    incoming: Incoming,
    has_ended: bool,
    outgoing: mpsc::Sender<Bytes>,
}

/// The body of a response: what the invocation sends.
pub(crate) struct Outgoing(mpsc::Receiver<Bytes>);

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Invocation {
    /// The invocation that a request begins, and what to answer.
    pub(crate) fn new(headers: http::HeaderMap, incoming: Incoming, replays: bool) -> Result<(Invocation, ResponseHead, Outgoing), Error> {
        let options = VMOptions {
            awaiting_on_policy: AwaitingOnPolicy::DontSend,
            journal_replay: if replays { JournalReplay::Enabled } else { JournalReplay::Disabled },
            ..VMOptions::default()
        };
        let vm = CoreVM::new(headers, options)?;
        let head = vm.get_response_head();
        let (outgoing, sent) = mpsc::channel(OUTGOING_MAX);
        Ok((Invocation { vm, start: Start::Partial(Vec::new()), incoming, has_ended: false, outgoing }, head, Outgoing(sent)))
    }

    /// Reads until the input and the journal are there.
    pub(crate) async fn input(&mut self) -> Result<Input, InvocationEnd> {
        while !self.vm.is_ready_to_execute()? {
            if self.has_ended {
                return Err(InvocationEnd::Disconnected);
            }
            self.receive().await?;
        }
        Ok(self.vm.sys_input()?)
    }

    /// Waits for the next message of the server. Safe to drop and call again.
    pub(crate) async fn receive(&mut self) -> Result<(), InvocationEnd> {
        if self.has_ended {
            // No more input comes; the other direction may still be open.
            self.outgoing.closed().await;
            return Err(InvocationEnd::Disconnected);
        }
        tokio::select! {
            frame = self.incoming.frame() => match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.start.read(&data);
                        self.vm.notify_input(data);
                    }
                }
                Some(Err(_)) => return Err(InvocationEnd::Disconnected),
                None => {
                    self.has_ended = true;
                    self.vm.notify_input_closed();
                }
            },
            () = self.outgoing.closed() => return Err(InvocationEnd::Disconnected),
        }
        Ok(())
    }

    /// Whether an attempt before this one did not end. Known once the input is there. A hint: the server forgets it when it restarts.
    pub(crate) fn is_retried(&self) -> bool {
        matches!(self.start, Start::Read { retries: 1.. })
    }

    /// Whether the server still sends.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_ended
    }

    /// Sends what the state machine has to say.
    pub(crate) async fn flush(&mut self) -> Result<(), InvocationEnd> {
        let bytes = self.vm.take_output();
        if bytes.is_empty() {
            return Ok(());
        }
        self.outgoing.send(bytes).await.map_err(|_| InvocationEnd::Disconnected)
    }

    /// What of these is there, or whether the invocation was cancelled. `None`: a message of the server is needed first.
    pub(crate) async fn progress(&mut self, awaited: Vec<NotificationHandle>) -> Result<Option<Progress>, InvocationEnd> {
        let awaited = UnresolvedFuture::FirstCompleted(awaited.into_iter().map(UnresolvedFuture::Single).collect());
        let response = self.vm.do_await(awaited);
        // A suspension is a message too.
        self.flush().await?;
        Ok(match response? {
            AwaitResponse::AnyCompleted => Some(Progress::Completed),
            AwaitResponse::CancelSignalReceived => Some(Progress::Cancelled),
            AwaitResponse::ExecuteRun(handle) => Some(Progress::Execute(handle)),
            AwaitResponse::WaitingExternalProgress { .. } | AwaitResponse::EphemeralNotificationReady(_) => None,
        })
    }

    /// Notes in the journal that something begins. Returns whether it was noted before, by an attempt that did not end; `None` if the invocation
    /// was cancelled first.
    pub(crate) async fn note(&mut self, name: &str) -> Result<Option<bool>, InvocationEnd> {
        let run = self.vm.sys_run(name.to_owned())?;
        loop {
            match self.progress(vec![run.handle]).await? {
                Some(Progress::Completed) => {
                    self.vm.take_notification(run.handle)?;
                    return Ok(Some(run.replayed));
                }
                Some(Progress::Execute(handle)) => {
                    self.vm.propose_run_completion(handle, RunExitResult::Success(Bytes::from_static(b"null")), RetryPolicy::default())?;
                }
                Some(Progress::Cancelled) => return Ok(None),
                None => {
                    self.flush().await?;
                    self.receive().await?;
                }
            }
        }
    }

    /// Ends the invocation with a result.
    pub(crate) async fn end(mut self, result: Result<Bytes, (u16, String)>) -> Result<(), InvocationEnd> {
        let value = match result {
            Ok(bytes) => NonEmptyValue::Success(bytes),
            Err((code, message)) => NonEmptyValue::Failure(TerminalFailure { code, message, metadata: Vec::new() }),
        };
        self.vm.sys_write_output(value, PayloadOptions::default())?;
        self.vm.sys_end()?;
        self.flush().await
    }

    /// Ends the attempt; Restate makes another one.
    pub(crate) async fn fail(mut self, why: String) -> Result<(), InvocationEnd> {
        self.vm.notify_error(Error::new(500_u16, why), None);
        self.flush().await
    }
}

pub(crate) enum Progress {
    /// At least one of what was awaited is there.
    Completed,
    Cancelled,
    /// The note with this handle is to be made.
    Execute(NotificationHandle),
}

/// The first message of the server, for the one field that the state machine keeps to itself.
enum Start {
    Partial(Vec<u8>),
    Read { retries: u32 },
}

impl Start {
    /// The message is longer only if the thread had state at the Restate server, which it has not.
    const BYTES_MAX: usize = 64 << 10;

    fn read(&mut self, data: &[u8]) {
        let Start::Partial(bytes) = self else { return };
        bytes.extend_from_slice(data);
        match start_retries(bytes) {
            Some(retries) => *self = Start::Read { retries },
            None if bytes.len() > Start::BYTES_MAX => *self = Start::Read { retries: 0 },
            None => {}
        }
    }
}

/// `retry_count_since_last_stored_entry` of a `StartMessage`: a header of type (0), flags and length, then a protobuf message. `None` if it is not whole.
fn start_retries(bytes: &[u8]) -> Option<u32> {
    const RETRIES_FIELD: u64 = 7;
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let head = u64::from_be_bytes(*head);
    let length = usize::try_from(head & 0xffff_ffff).ok()?;
    let mut body = rest.get(..length)?;
    if head >> 48 != 0 {
        return Some(0);
    }
    while !body.is_empty() {
        let tag = varint(&mut body)?;
        match (tag >> 3, tag & 7) {
            (RETRIES_FIELD, 0) => return varint(&mut body).map(|retries| u32::try_from(retries).unwrap_or(u32::MAX)),
            (_, 0) => {
                varint(&mut body)?;
            }
            (_, 1) => body = body.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut body)?).ok()?;
                body = body.get(length..)?;
            }
            (_, 5) => body = body.get(4..)?,
            _ => return Some(0),
        }
    }
    Some(0)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u64).to_be_bytes()[..], body].concat()
    }

    #[test]
    fn the_retries_of_a_start_message_are_read_wherever_it_is_cut() {
        // id (1), debug id (2), known entries (3), key (6), retries (7) = 300, random seed (9).
        let body = [&b"\x0a\x02ab\x12\x03inv\x18\x01\x32\x01k"[..], b"\x38\xac\x02", b"\x48\x05"].concat();
        let whole = message(&body);
        for cut in 0..whole.len() {
            let mut start = Start::Partial(Vec::new());
            start.read(&whole[..cut]);
            assert!(matches!(start, Start::Partial(_)), "{cut}");
            start.read(&whole[cut..]);
            start.read(b"and what follows");
            assert!(matches!(start, Start::Read { retries: 300 }), "{cut}");
        }
        assert_eq!(start_retries(&message(b"\x18\x01")), Some(0), "none is written for a first attempt");
        assert_eq!(start_retries(&message(b"\x0b")), Some(0), "a group, which no version of the protocol has");
    }
}
