//! The W3C `traceparent` header: whose trace a call belongs to, across processes. Whether traces are kept at all, the program decides; where they
//! are not, both of these do nothing.

use http::HeaderMap;
use opentelemetry::global;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// Says in the headers of a call which span it is made in.
pub(crate) fn carry(headers: &mut HeaderMap) {
    let span = Span::current();
    if !span.is_none() {
        global::get_text_map_propagator(|propagator| propagator.inject_context(&span.context(), &mut HeaderInjector(headers)));
    }
}

/// Puts a span that has not begun yet under the caller's. What cannot be read as one is as good as none.
pub fn continue_trace(span: &Span, headers: &HeaderMap) {
    let caller = global::get_text_map_propagator(|propagator| propagator.extract(&HeaderExtractor(headers)));
    if caller.span().span_context().is_valid() {
        // Refused only where nobody collects spans.
        let _ = span.set_parent(caller);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn what_one_process_carries_the_next_goes_on_with() {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let mut headers = HeaderMap::new();
        carry(&mut headers);
        assert!(headers.is_empty(), "no trace, no header");

        let provider = SdkTracerProvider::builder().build();
        let subscriber = tracing_subscriber::registry().with(tracing_opentelemetry::layer().with_tracer(provider.tracer("test")));
        tracing::subscriber::with_default(subscriber, || {
            let caller = tracing::info_span!("caller");
            caller.in_scope(|| carry(&mut headers));
            let callee = tracing::info_span!(parent: None, "callee");
            continue_trace(&callee, &headers);
            let ids = |span: &Span| span.context().span().span_context().clone();
            assert!(headers[TRACEPARENT].to_str().unwrap().contains(&ids(&caller).span_id().to_string()), "{headers:?}");
            assert_eq!(ids(&callee).trace_id(), ids(&caller).trace_id());

            let alone = tracing::info_span!(parent: None, "alone");
            continue_trace(&alone, &HeaderMap::from_iter([(TRACEPARENT.parse().unwrap(), "nonsense".parse().unwrap())]));
            assert_ne!(ids(&alone).trace_id(), ids(&caller).trace_id());
        });
    }
}
