//! Where the database is: a `postgres://` URL, what it may say beyond what tokio-postgres knows, and its name without the password.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A peer that answers nothing for so long is gone, so that a lost machine is noticed before its leases are taken over.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Printed without its password.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) authorities: Option<PathBuf>,
    name: String,
}

impl Address {
    /// Reads `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…&sslrootcert=…&options=…]`.
    pub fn parse(url: &str) -> Result<Address, String> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut authorities = None;
        let mut mode = None;
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => authorities = Some(PathBuf::from(path)),
                // Certificates are verified in every mode that uses TLS.
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => mode = Some(SslMode::Require),
                Some(("sslmode", "prefer")) => mode = Some(SslMode::Prefer),
                Some(("sslmode", "disable")) => mode = Some(SslMode::Disable),
                Some(("sslmode", other)) => return Err(format!("sslmode={other} is not known; use disable, prefer or verify-full")),
                _ => kept.push(pair),
            }
        }
        let plain = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            // Its source has what is wrong and repeats no values.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("the store's URL cannot be read ({why}); it is written postgres://USER@HOST:PORT/DATABASE")
        })?;
        if config.get_hosts().is_empty() {
            return Err("the store's URL names no host; it is written postgres://USER@HOST:PORT/DATABASE".to_owned());
        }
        // Off this machine, text that people wrote is encrypted unless the URL disables it.
        config.ssl_mode(mode.unwrap_or_else(|| if config.get_hosts().iter().all(is_here) { SslMode::Disable } else { SslMode::Require }));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        if config.get_application_name().is_none() {
            config.application_name("baton");
        }
        config.keepalives_idle(SILENCE_MAX);
        config.tcp_user_timeout(SILENCE_MAX);
        let name = name_of(&config);
        Ok(Address { config, authorities, name })
    }

    /// Whether the address contains a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// The same address with this password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Address {
        self.config.password(password);
        self
    }

    /// The same database with another search path, for tests and for several stores in one database.
    #[must_use]
    pub fn with_schema(mut self, schema: &str) -> Address {
        self.config.options(format!("-c search_path={schema}"));
        self
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.name)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Address({self})")
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn name_of(config: &Config) -> String {
    let mut name = "postgres://".to_owned();
    if let Some(user) = config.get_user() {
        name = name + user + "@";
    }
    let host = |(place, host): (usize, &Host)| {
        let ports = config.get_ports();
        let port = ports.get(place).or(ports.last()).map_or_else(String::new, |port| format!(":{port}"));
        match host {
            Host::Tcp(host) => format!("{host}{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}{port}", folder.display()),
        }
    };
    name += &config.get_hosts().iter().enumerate().map(host).collect::<Vec<_>>().join(",");
    if let Some(database) = config.get_dbname() {
        name = name + "/" + database;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_printed() {
        let address = Address::parse("postgres://ada:s3cret@db.example:5433/baton?sslmode=verify-full&sslrootcert=/ca.pem").unwrap();
        assert_eq!(address.to_string(), "postgres://ada@db.example:5433/baton");
        assert!(!format!("{address:?}").contains("s3cret") && address.has_password());
        assert_eq!((address.config.get_ssl_mode(), address.authorities), (SslMode::Require, Some("/ca.pem".into())));
        let error = Address::parse("postgres://ada:s3cret@db:notaport/baton").unwrap_err();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn other_machines_are_reached_with_tls_unless_disabled() {
        let mode = |url: &str| Address::parse(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://db.example/baton"), SslMode::Require);
        assert_eq!(mode("postgres://db.example/baton?sslmode=disable"), SslMode::Disable);
        for here in ["postgres://localhost/baton", "postgres://127.0.0.1:5/baton", "postgresql://u@[::1]/b"] {
            assert_eq!(mode(here), SslMode::Disable, "{here}");
        }
        assert!(Address::parse("postgres://db/baton?sslmode=maybe").unwrap_err().contains("verify-full"));
    }
}
