//! The handler `drive`: the engine drives a run, and each effect it asks for is a call of `perform`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{EngineError, Performed, RunState};
use graph::{Failure, FailureKind, Reply, RunId, ThreadId, UserId};
use restate_sdk_shared_core::{CallHandle, NotificationHandle, PayloadOptions, Target, VM as _, Value};
use serde_json::json;
use store::StoreError;
use tokio::sync::oneshot;

use crate::client::DriveInput;
use crate::job::{self, PayloadStore, call_key, decode_reply, encode_job};
use crate::protocol::{Invocation, InvocationEnd, Progress};
use crate::remote::{Call, DriveMessage};
use crate::worker::Shared;
use crate::{EFFECT_SERVICE, PERFORM, crashes, memo};

/// How long the ids of calls that are to be stopped are waited for.
const STOPPING_MAX: Duration = Duration::from_secs(5);

/// A call that was made and not answered.
struct OpenCall {
    run: RunId,
    call: CallHandle,
    reply: Option<oneshot::Sender<Performed>>,
    /// It is to be stopped as soon as its id is known.
    is_unwanted: bool,
}

impl OpenCall {
    fn awaited(&self) -> NotificationHandle {
        if self.is_unwanted { self.call.invocation_id_notification_handle } else { self.call.call_notification_handle }
    }
}

pub(crate) async fn drive(mut invocation: Invocation, shared: Arc<Shared>) -> Result<(), InvocationEnd> {
    let input = invocation.input().await?;
    let thread = ThreadId::from(input.key.as_str());
    let run = match serde_json::from_slice::<DriveInput>(&input.input) {
        Ok(wanted) => wanted.run,
        Err(error) => return invocation.end(Err((400, format!("the input of drive is {{\"run\": …}}: {error}")))).await,
    };
    match shared.engine.store().run(&run).await {
        Ok(Some(row)) if row.thread == thread => {}
        Ok(_) => return invocation.end(Err((404, format!("there is no run {run} in thread {thread}")))).await,
        Err(error) => return invocation.fail(error.to_string()).await,
    }
    tracing::debug!(%run, invocation = input.invocation_id, "driving");
    let mut suspected_user = None;
    if invocation.is_retried() {
        let counted = async {
            let user = shared.engine.store().thread(&thread).await?.and_then(|row| row.user).unwrap_or_default();
            Ok::<_, StoreError>((crashes::count_opening(&shared, &user, &thread).await?, user))
        };
        match counted.await {
            Ok((attempts, user)) if attempts > u64::from(shared.engine.takeovers_max()) => {
                let given_up = shared.engine.give_up(&run, attempts).await;
                crashes::forget_opening(&shared, &user, &thread).await;
                return match given_up {
                    Ok(()) => invocation.end(Err((422, format!("run {run} ended its worker {attempts} times")))).await,
                    Err(error) => invocation.fail(error.to_string()).await,
                };
            }
            Ok((_, user)) => suspected_user = Some(user),
            Err(error) => return invocation.fail(error.to_string()).await,
        }
    }
    let mut driving = Driving { run: run.clone(), invocation, shared: shared.clone(), open: Vec::new(), suspected_user };
    let driven = driving.until_stopped(&thread).await?;
    driving.stop_unwanted().await?;
    let invocation = driving.invocation;
    match driven {
        Ok(state) => {
            let is_over = matches!(state, RunState::Over(_));
            invocation.end(Ok(described(&run, &state))).await?;
            if is_over {
                shared.forget(&thread).await;
            }
            Ok(())
        }
        Err(error) if is_final(&error) => {
            tracing::error!(%run, "the run cannot be driven: {error}");
            invocation.end(Err((422, error.to_string()))).await
        }
        Err(error) => {
            tracing::warn!(%run, "the run is tried again: {error}");
            invocation.fail(error.to_string()).await
        }
    }
}

struct Driving {
    run: RunId,
    invocation: Invocation,
    shared: Arc<Shared>,
    open: Vec<OpenCall>,
    /// The user of a run that may be what ended its worker, until it is opened.
    suspected_user: Option<UserId>,
}

impl Driving {
    /// Drives the run until it has ended or waits for a person. When this is dropped, calls of the run get no replies, and its driver gives up.
    async fn until_stopped(&mut self, thread: &ThreadId) -> Result<Result<RunState, EngineError>, InvocationEnd> {
        let (_opened, mut messages) = self.shared.calls.open(thread);
        let engine = self.shared.engine.clone();
        let run = self.run.clone();
        let mut driven = Box::pin(engine.drive(&run));
        loop {
            self.take_completed().await?;
            self.invocation.flush().await?;
            tokio::select! {
                biased;
                state = &mut driven => {
                    self.note_opened(thread).await;
                    return Ok(state);
                }
                Some(message) = messages.recv() => {
                    self.note_opened(thread).await;
                    self.take(message).await?;
                    while let Ok(message) = messages.try_recv() {
                        self.take(message).await?;
                    }
                }
                received = self.invocation.receive() => received?,
            }
            // Otherwise it is seen with the replies. Without a message of the server it cannot have been.
            if self.open.is_empty() && self.invocation.is_open() && matches!(self.invocation.progress(Vec::new()).await?, Some(Progress::Cancelled)) {
                self.cancelled().await;
            }
        }
    }

    async fn note_opened(&mut self, thread: &ThreadId) {
        if let Some(user) = self.suspected_user.take() {
            crashes::forget_opening(&self.shared, &user, thread).await;
        }
    }

    async fn take(&mut self, message: DriveMessage) -> Result<(), InvocationEnd> {
        match message {
            DriveMessage::Call(call) => self.call(*call).await,
            DriveMessage::Cancel(run) => {
                for open in self.open.iter_mut().filter(|open| open.run == run) {
                    open.is_unwanted = true;
                    open.reply = None;
                }
                Ok(())
            }
        }
    }

    async fn call(&mut self, call: Call) -> Result<(), InvocationEnd> {
        let Call { job, watched, reply } = call;
        let (run, key) = (job.run.clone(), call_key(&job));
        let place = PayloadStore {
            store: &**self.shared.engine.store(),
            user: job.context.user.clone(),
            key: format!("{}{key}-job", job::prefix(&job.thread)),
            now_ms: (self.shared.clock)(),
        };
        let payload = match encode_job(job, watched, &place).await {
            Ok(payload) => payload,
            Err(error) => {
                // The driver may have gone.
                let _ = reply.send(unusable(&error.to_string()));
                return Ok(());
            }
        };
        let target = Target {
            service: EFFECT_SERVICE.to_owned(),
            handler: PERFORM.to_owned(),
            key: None,
            idempotency_key: Some(key),
            scope: None,
            limit_key: None,
            headers: Vec::new(),
        };
        let call = self.invocation.vm.sys_call(target, payload, None, PayloadOptions::unstable_serialization())?;
        self.open.push(OpenCall { run, call, reply: Some(reply), is_unwanted: false });
        Ok(())
    }

    /// Passes on the replies that are there. Leaves nothing that is: the next message is then waited for.
    async fn take_completed(&mut self) -> Result<(), InvocationEnd> {
        while !self.open.is_empty() {
            let awaited = self.open.iter().map(OpenCall::awaited).collect();
            match self.invocation.progress(awaited).await? {
                Some(Progress::Completed) => {}
                Some(Progress::Cancelled) => {
                    self.cancelled().await;
                    continue;
                }
                Some(Progress::Execute(_)) | None => return Ok(()),
            }
            let mut index = 0;
            while index < self.open.len() {
                if !self.invocation.vm.is_completed(self.open[index].awaited()) {
                    index += 1;
                    continue;
                }
                let open = self.open.swap_remove(index);
                let value = self.invocation.vm.take_notification(open.awaited())?;
                match (value, open.reply) {
                    (Some(Value::InvocationId(id)), _) if open.is_unwanted => self.invocation.vm.sys_cancel_invocation(id)?,
                    (Some(value), Some(reply)) => {
                        let performed = self.performed(value).await;
                        // The driver may have gone.
                        let _ = reply.send(performed);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    async fn performed(&self, value: Value) -> Performed {
        match value {
            Value::Success(bytes) => match decode_reply(&bytes, &**self.shared.engine.store()).await {
                Ok(performed) => performed,
                Err(error) => unusable(&error.to_string()),
            },
            Value::Failure(failure) if failure.code == 409 => {
                Performed::Replied(Reply::failed(Failure::new(FailureKind::Cancelled, "the call was cancelled at the Restate server")))
            }
            Value::Failure(failure) => unusable(&failure.message),
            Value::Void | Value::StateKeys(_) | Value::InvocationId(_) => unusable("the Restate server sent something else than a reply"),
        }
    }

    /// Somebody cancelled the invocation at the Restate server, which has cancelled its calls already.
    async fn cancelled(&self) {
        let run = &self.run;
        tracing::info!(%run, "cancelled at the Restate server");
        match self.shared.engine.cancel(run, "cancelled at the Restate server").await {
            Ok(_) | Err(EngineError::Over { .. }) => {}
            Err(error) => tracing::warn!(%run, "the run could not be cancelled: {error}"),
        }
    }

    /// Stops calls that are no longer needed, once their ids are known.
    async fn stop_unwanted(&mut self) -> Result<(), InvocationEnd> {
        self.open.retain(|open| open.is_unwanted);
        let stopping = async {
            loop {
                self.take_completed().await?;
                self.invocation.flush().await?;
                if self.open.is_empty() {
                    return Ok(());
                }
                self.invocation.receive().await?;
            }
        };
        match tokio::time::timeout(STOPPING_MAX, stopping).await {
            Ok(stopped) => stopped,
            Err(_) => {
                tracing::warn!("some calls of a run that has ended could not be stopped; their replies are not used");
                Ok(())
            }
        }
    }
}

impl Shared {
    /// Deletes what was kept for calls of a thread.
    async fn forget(&self, thread: &ThreadId) {
        let store = self.engine.store();
        let forgotten = async {
            let user = store.thread(thread).await?.and_then(|row| row.user).unwrap_or_default();
            job::forget(&**store, &user, thread, &[memo::KIND, crashes::KIND]).await
        };
        if let Err(error) = forgotten.await {
            tracing::info!(%thread, "what was kept for its calls is deleted with its next run: {error}");
        }
    }
}

fn unusable(why: &str) -> Performed {
    Performed::Replied(Reply::failed(Failure::new(FailureKind::Internal, why)))
}

fn described(run: &RunId, state: &RunState) -> Bytes {
    let state = match state {
        RunState::Over(_) => "over",
        RunState::Parked(_) => "waiting",
        RunState::Going | RunState::Lost(_) => "going",
    };
    Bytes::from(json!({ "run": run, "state": state }).to_string())
}

/// Whether trying again cannot help: the flow has changed since the run was started, or its journal is damaged.
fn is_final(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::NoFlow { .. }
            | EngineError::Run(_)
            | EngineError::Entry { .. }
            | EngineError::Crashed { .. }
            | EngineError::Store(StoreError::NoRun { .. } | StoreError::NoThread { .. })
    )
}
