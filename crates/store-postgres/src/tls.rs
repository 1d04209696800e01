//! TLS with rustls: certificates are always verified, against the system's authorities or a file of them.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Empty where the URL wants no TLS: reading the system's authorities takes time and may fail.
#[derive(Clone)]
pub(crate) struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    /// `authorities` is a PEM file that replaces those of the system.
    pub(crate) fn new(is_needed: bool, authorities: Option<&Path>) -> Result<Tls, String> {
        if !is_needed {
            return Ok(Tls(None));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = match authorities {
            None => builder
                .with_platform_verifier()
                .map_err(|error| format!("the system's certificate authorities cannot be used: {error}"))?
                .with_no_client_auth(),
            Some(path) => {
                let unreadable = |why: String| format!("sslrootcert {}: {why}", path.display());
                let mut roots = rustls::RootCertStore::empty();
                for found in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
                    let found = found.map_err(|error| unreadable(error.to_string()))?;
                    roots.add(found).map_err(|error| unreadable(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(unreadable("there is no certificate in it".to_owned()));
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        Ok(Tls(Some(Arc::new(config))))
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connect> {
        // Asked for in every mode, also for connections without TLS.
        let Some(config) = self.0.clone() else { return Ok(Connect(None)) };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| io::Error::other(format!("{host} cannot be in a certificate: {error}")))?;
        Ok(Connect(Some((TlsConnector::from(config), name))))
    }
}

pub(crate) struct Connect(Option<(TlsConnector, ServerName<'static>)>);

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let (connector, name) = self.0.ok_or_else(|| io::Error::other("TLS was switched off by sslmode=disable"))?;
            Ok(Stream(Box::new(connector.connect(name, stream).await?)))
        })
    }
}

/// A wrapper because the trait and the stream are other crates'.
pub(crate) struct Stream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    /// The certificate is verified, so passwords go to the right server without a binding to the channel.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
