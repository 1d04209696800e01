//! [`evidence::JUDGE`]: whether texts support claims, computed in this process on blocking threads, a few requests at a time.

use std::sync::Arc;

use evidence::{Entailment, JUDGE, JudgeReply, JudgeRequest, Pair};
use graph::{Failure, FailureKind};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Gives the model that judges pairs, loaded when it is first needed; or why there is none.
pub type Judge = fn() -> Result<&'static dyn Entailment, String>;

/// More pairs are not judged in one request.
const PAIRS_MAX: usize = 1_024;
/// Requests that compute at the same time; each uses all cores for its batch, so that more would only take turns.
const AT_ONCE_MAX: usize = 2;
/// Requests that wait or compute; further ones are refused, and their answers are checked by the rules alone.
const QUEUED_MAX: usize = 64;

#[derive(Clone)]
pub(super) struct JudgeQueue {
    judge: Judge,
    /// One permit for each request from its arrival to its reply.
    queue: Arc<Semaphore>,
    slots: Arc<Semaphore>,
}

impl JudgeQueue {
    pub(super) fn new(judge: Judge) -> Self {
        JudgeQueue { judge, queue: Arc::new(Semaphore::new(QUEUED_MAX)), slots: Arc::new(Semaphore::new(AT_ONCE_MAX)) }
    }

    pub(super) async fn reply(&self, arguments: &Value) -> Result<JudgeReply, Failure> {
        let wrong = |why: String| Failure::new(FailureKind::Invalid, format!("{JUDGE}: {why}"));
        let internal = |why: String| Failure::new(FailureKind::Internal, why);
        let request = JudgeRequest::deserialize(arguments).map_err(|error| wrong(error.to_string()))?;
        let is_full = |_| Failure::new(FailureKind::Limit, format!("{QUEUED_MAX} requests already wait for the verifier"));
        let queued = self.queue.clone().try_acquire_owned().map_err(is_full)?;
        let slot = self.slots.clone().acquire_owned().await.map_err(|error| internal(error.to_string()))?;
        let judge = self.judge;
        let judged = tokio::task::spawn_blocking(move || {
            // Held by the computation and not by its caller: a request that is cancelled still computes.
            let _held = (queued, slot);
            let pairs: Vec<Pair<'_>> = request.pairs().ok_or_else(|| wrong("a pair names no text or claim".to_owned()))?;
            if pairs.len() > PAIRS_MAX {
                return Err(wrong(format!("{} pairs, but at most {PAIRS_MAX} are judged at once", pairs.len())));
            }
            let model = judge().map_err(|why| Failure::new(FailureKind::Refused, why))?;
            let answered = request.answer().and_then(|answer| model.judge_answer(answer));
            Ok(JudgeReply { judgements: model.judge(&pairs), weights: model.weights(), answered })
        });
        judged.await.map_err(|error| internal(error.to_string()))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use evidence::{DecisionWeights, Judgement};
    use serde_json::json;

    use super::*;

    /// Counts how many requests it judges at the same time.
    struct Slow;

    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    impl Entailment for Slow {
        fn judge(&self, pairs: &[Pair<'_>]) -> Vec<Judgement> {
            let now = NOW.fetch_add(1, Ordering::SeqCst) + 1;
            MOST.fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            NOW.fetch_sub(1, Ordering::SeqCst);
            vec![Judgement::default(); pairs.len()]
        }

        fn weights(&self) -> DecisionWeights {
            DecisionWeights::default()
        }
    }

    #[tokio::test]
    async fn only_a_few_requests_compute_and_a_full_queue_refuses() {
        let judging = JudgeQueue::new(|| Ok(&Slow));
        let request = json!(JudgeRequest::new([Pair { evidence: "a", claim: "b" }].into_iter()));
        let all = (0..QUEUED_MAX + 3).map(|_| judging.reply(&request));
        let replies = futures::future::join_all(all).await;
        let refused: Vec<&Failure> = replies.iter().filter_map(|reply| reply.as_ref().err()).collect();
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert!(refused.iter().all(|failure| failure.kind == FailureKind::Limit && failure.message.contains("64 requests")), "{refused:?}");
        assert_eq!(MOST.load(Ordering::SeqCst), AT_ONCE_MAX);
        assert!(judging.reply(&request).await.is_ok(), "the queue is free again");
    }
}
