//! Sends spans to an OpenTelemetry collector, if the environment names one. `engine::trace` documents their content.
//!
//! ```text
//!   engine ─► tracing ─► a layer for that target alone ─► bounded queue ─► a thread: mapped to the conventions, sent as OTLP over HTTP
//! ```
//!
//! The standard variables configure it: `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` enable it;
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and `OTEL_BSP_*` have their
//! standard meaning; `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none` disable it. Only protobuf over HTTP is supported, not gRPC.
//!
//! Nothing waits for a collector. Spans that do not fit into the queue or cannot be sent are dropped without a retry, with one warning. On
//! exit the rest has one second.

use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use models::Name;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, KeyValue, Value, global};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Exporter};
use reqwest::Url;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Time limit for the last spans.
const LEAVING: Duration = Duration::from_secs(1);
const CONNECT_MAX: Duration = Duration::from_secs(2);
const SEND_MAX: Duration = Duration::from_secs(5);
/// Limit of a collector's response; only its status is used.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// The collector, if there is one.
pub(crate) enum Traces {
    Off,
    /// One was requested, and this is why there is none.
    Wrong(String),
    To {
        provider: SdkTracerProvider,
        has_complained: Arc<AtomicBool>,
    },
}

impl Traces {
    pub(crate) fn from_environment() -> Traces {
        let is = |name: &str, value: &str| set(name).is_some_and(|found| found.eq_ignore_ascii_case(value));
        let Some((name, address)) = [TRACES_ENDPOINT, ENDPOINT].into_iter().find_map(|name| set(name).map(|address| (name, address))) else {
            return Traces::Off;
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Traces::Off;
        }
        let protocol = set("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| set("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "http/protobuf") {
            return Traces::Wrong(format!("only http/protobuf is spoken here, not {protocol:?}; collectors take it on port 4318"));
        }
        match Url::parse(&address) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Traces::to(&url),
            _ => Traces::Wrong(format!("{name} is no address; it should be one such as http://localhost:4318")),
        }
    }

    fn to(url: &Url) -> Traces {
        let has_complained = Arc::new(AtomicBool::new(false));
        let sender = Sender { place: place(url), is_here: is_here(url), line: OnceLock::new(), has_complained: has_complained.clone() };
        // A retry would delay the end of a command; the next batch detects whether the collector is back.
        let exporter = SpanExporter::builder().with_http().with_http_client(sender).with_retry_policy(RetryPolicy::disabled()).build();
        let exporter = match exporter {
            Ok(exporter) => exporter,
            Err(error) => return Traces::Wrong(error.to_string()),
        };
        // Later values win.
        let mut resource = Resource::builder_empty()
            .with_detectors(&[Box::new(TelemetryResourceDetector)])
            .with_attribute(KeyValue::new("service.name", "baton"))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_detector(Box::new(EnvResourceDetector::new()));
        if let Some(name) = set("OTEL_SERVICE_NAME") {
            resource = resource.with_attribute(KeyValue::new("service.name", name));
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(ConventionExporter(exporter)).with_resource(resource.build()).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Traces::To { provider, has_complained }
    }

    /// Exports our spans and nothing else.
    pub(crate) fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let Traces::To { provider, .. } = self else { return None };
        let ours = Targets::new().with_target(engine::trace::TARGET, LevelFilter::TRACE);
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("baton"));
        let layer = layer.with_location(false).with_threads(false).with_target(false).with_tracked_inactivity(false);
        Some(layer.with_filter(ours).boxed())
    }

    /// Called once logging is set up.
    pub(crate) fn log_errors(&self) {
        if let Traces::Wrong(why) = self {
            tracing::warn!("no traces are sent: {why}");
        }
    }

    /// Sends the remaining spans; called last.
    pub(crate) fn finish(self) {
        if let Traces::To { provider, has_complained } = self
            && let Err(error) = provider.shutdown_with_timeout(LEAVING)
            && !has_complained.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

/// A variable with a non-empty value.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Without parts that may be secret: user, path, query.
fn place(url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

fn is_here(url: &Url) -> bool {
    let is_loopback = |host: &str| host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.host_str().is_some_and(|host| host == "localhost" || is_loopback(host))
}

/// Sends from the exporter's own thread, which may block.
struct Sender {
    place: String,
    /// A collector on this machine is reached without a proxy.
    is_here: bool,
    /// Created with the first batch: most commands have none.
    line: OnceLock<Result<Line, String>>,
    has_complained: Arc<AtomicBool>,
}

struct Line {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({})", self.place)
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        let trouble = match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("status {}", response.status().as_u16())),
            Err(error) => Some(causes(&**error)),
        };
        if let Some(why) = trouble
            && !self.has_complained.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("traces cannot be sent to {}: {why}; they are dropped, and this is logged once", self.place);
        }
        sent
    }
}

impl Sender {
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let line = self.line.get_or_init(|| Line::new(self.is_here)).as_ref().map_err(String::as_str)?;
        let request = reqwest::Request::try_from(request)?;
        line.runtime.block_on(async {
            let mut answer = line.client.execute(request).await?;
            let mut body = Vec::new();
            while let Some(bytes) = answer.chunk().await? {
                if body.len() + bytes.len() > ANSWER_BYTES_MAX {
                    break;
                }
                body.extend_from_slice(&bytes);
            }
            Ok(Response::builder().status(answer.status()).body(body.into())?)
        })
    }
}

impl Line {
    fn new(is_here: bool) -> Result<Line, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        // Headers may contain a key, so redirects are not followed. Connections are not kept between batches.
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .timeout(SEND_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0);
        let client = if is_here { client.no_proxy() } else { client };
        Ok(Line { runtime, client: client.build().map_err(|error| error.to_string())? })
    }
}

/// The innermost message is the cause; the outer ones contain the address.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Applies the conventions where a `tracing` span cannot: a name known only at the end, a list, a provider.
#[derive(Debug)]
struct ConventionExporter(SpanExporter);

impl Exporter for ConventionExporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(fit);
        self.0.export(batch).await
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.0.shutdown()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn fit(span: &mut SpanData) {
    let text = |key: &str| span.attributes.iter().find(|found| found.key.as_str() == key).map(|found| found.value.as_str().into_owned());
    let asked = text("gen_ai.request.model");
    let named: Option<Name> = asked.as_deref().and_then(|asked| asked.parse().ok());
    for attribute in &mut span.attributes {
        let value = attribute.value.as_str().into_owned();
        match (attribute.key.as_str(), &named) {
            ("gen_ai.response.finish_reasons", _) => attribute.value = Value::Array(Array::String(vec![value.into()])),
            ("gen_ai.request.model" | "gen_ai.response.model", Some(name)) if Some(&value) == asked.as_ref() => {
                attribute.value = model_of(name).into();
            }
            _ => {}
        }
    }
    if let Some(name) = &named {
        span.attributes.push(KeyValue::new("gen_ai.provider.name", provider_of(name)));
        span.name = format!("chat {}", model_of(name)).into();
    }
}

fn model_of(name: &Name) -> String {
    if name.model.is_empty() { name.to_string() } else { name.model.clone() }
}

/// The provider's name in the conventions.
fn provider_of(name: &Name) -> String {
    match name.endpoint() {
        "gemini" => "gcp.gemini".to_owned(),
        endpoint => endpoint.to_owned(),
    }
}
