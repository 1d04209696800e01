//! TLS from a file of certificates and a file with their key, both PEM. Files that change are read again, so that a renewed certificate needs no restart.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The name of HTTP/2 in ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum TlsError {
    #[error("the certificate cannot be read from {}: {why}; it is a PEM file, the server's certificate first", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("the key cannot be read from {}: {why}; it is a PEM file with an unencrypted private key", path.display())]
    Key { path: PathBuf, why: String },
    #[error("the certificate {} and the key do not fit: {why}", path.display())]
    Pair { path: PathBuf, why: String },
}

/// A certificate and its key, which are read again when their files change.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    written: [Option<SystemTime>; 2],
    looked: Instant,
}

impl Tls {
    /// Reads the files.
    pub fn open(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let written = [written(certificate), written(key)];
        let current = Current { config: load(certificate, key)?, written, looked: Instant::now() };
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), current: Mutex::new(current) })
    }

    /// With the certificate that is in the files now. One that cannot be read leaves the one before.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_EVERY {
            current.looked = Instant::now();
            let found = [written(&self.certificate), written(&self.key)];
            if found != current.written {
                match load(&self.certificate, &self.key) {
                    Ok(config) => {
                        tracing::info!("the certificate was read again");
                        (current.config, current.written) = (config, found);
                    }
                    // The two files are seldom written in the same moment; it is tried again.
                    Err(error) => tracing::warn!("the certificate changed, and the one before is used: {error}"),
                }
            }
        }
        TlsAcceptor::from(current.config.clone())
    }
}

fn written(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |why: String| TlsError::Certificate { path: certificate.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| wrong(error.to_string()))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong("no certificate is in it".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::Key { path: key.to_owned(), why: error.to_string() })?;
    let fits = |error: rustls::Error| TlsError::Pair { path: certificate.to_owned(), why: error.to_string() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(fits)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, secret).map_err(fits)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
