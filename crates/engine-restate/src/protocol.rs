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
        Ok((Invocation { vm, incoming, has_ended: false, outgoing }, head, Outgoing(sent)))
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
