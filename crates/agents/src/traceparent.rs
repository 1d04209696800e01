//! The W3C `traceparent` header, which links the spans of several processes. Without a configured exporter these functions do nothing.

use http::HeaderMap;
use opentelemetry::global;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// Adds the current span to the headers of a call.
pub(crate) fn carry(headers: &mut HeaderMap) {
    let span = Span::current();
    if !span.is_none() {
        global::get_text_map_propagator(|propagator| propagator.inject_context(&span.context(), &mut HeaderInjector(headers)));
    }
}

/// Makes the caller's span the parent of a span that has not been entered yet. A header that cannot be parsed is ignored.
pub fn continue_trace(span: &Span, headers: &HeaderMap) {
    let caller = global::get_text_map_propagator(|propagator| propagator.extract(&HeaderExtractor(headers)));
    if caller.span().span_context().is_valid() {
        // Fails only where no spans are collected.
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
