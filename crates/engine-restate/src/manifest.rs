//! What a worker offers, in the words of Restate's endpoint manifest, and for how long its invocations may take.

use serde_json::{Value, json};

use crate::bare::{CALLER_SERVICE, CALLS, NOOP, NOOP_SERVICE};
use crate::{DRIVE, EFFECT_SERVICE, PERFORM, THREAD_SERVICE};

/// The version of the manifest, for the header of the reply.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.restate.endpointmanifest.v4+json";

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// A run whose calls take longer is suspended by its worker, and resumed when one is answered.
const DRIVE_IDLE_MS: u64 = 10 * MINUTE_MS;
/// Above every deadline of an effect that a flow sets; an effect that takes longer is tried again.
const PERFORM_IDLE_MS: u64 = DAY_MS;
/// How long a reply is kept under its key.
const KEPT_MS: u64 = 3 * DAY_MS;
/// How long what happened in an invocation can be looked at.
const JOURNAL_MS: u64 = 60 * MINUTE_MS;

/// With a pause of ten seconds at most this is more than an hour; then Restate pauses the invocation, and an operator decides.
const ATTEMPTS_MAX: u64 = 500;

pub(crate) fn manifest() -> Value {
    json!({
        "protocolMode": "BIDI_STREAM",
        "minProtocolVersion": 5,
        "maxProtocolVersion": 7,
        "services": [
            {
                "name": THREAD_SERVICE,
                "ty": "VIRTUAL_OBJECT",
                "documentation": "A conversation of Baton. Its runs are driven one after the other.",
                "handlers": [handler(DRIVE, Some("EXCLUSIVE"), DRIVE_IDLE_MS, MINUTE_MS)],
            },
            {
                "name": EFFECT_SERVICE,
                "ty": "SERVICE",
                "documentation": "Performs one attempt at one effect of a run.",
                "ingressPrivate": true,
                "handlers": [handler(PERFORM, None, PERFORM_IDLE_MS, PERFORM_IDLE_MS)],
            },
        ],
    })
}

/// What the service of benchmarks offers.
pub(crate) fn bare() -> Value {
    json!({
        "protocolMode": "BIDI_STREAM",
        "minProtocolVersion": 5,
        "maxProtocolVersion": 7,
        "services": [
            { "name": CALLER_SERVICE, "ty": "VIRTUAL_OBJECT", "handlers": [handler(CALLS, Some("EXCLUSIVE"), DRIVE_IDLE_MS, MINUTE_MS)] },
            { "name": NOOP_SERVICE, "ty": "SERVICE", "ingressPrivate": true, "handlers": [handler(NOOP, None, PERFORM_IDLE_MS, PERFORM_IDLE_MS)] },
        ],
    })
}

fn handler(name: &str, ty: Option<&str>, idle_ms: u64, abort_ms: u64) -> Value {
    let mut handler = json!({
        "name": name,
        "inactivityTimeout": idle_ms,
        "abortTimeout": abort_ms,
        "idempotencyRetention": KEPT_MS,
        "journalRetention": JOURNAL_MS,
        "retryPolicyInitialInterval": 100,
        "retryPolicyExponentiationFactor": 2.0,
        "retryPolicyMaxInterval": 10_000,
        "retryPolicyMaxAttempts": ATTEMPTS_MAX,
        "retryPolicyOnMaxAttempts": "PAUSE",
    });
    if let Some(ty) = ty {
        handler["ty"] = ty.into();
    }
    handler
}
