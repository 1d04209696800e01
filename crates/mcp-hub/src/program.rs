//! Which program a server is, for a person who decides whether it may be started.

use super::Tools;
use super::config::ServerTransport;
use super::server::Origin;

impl Tools {
    /// The command line that switching this server on would start. `None` if it is on, or is no program.
    pub fn program_to_start(&self, name: &str) -> Option<String> {
        let server = self.0.own_server(name).filter(|server| !self.0.health(server).enabled)?;
        let Origin::Configured(config) = &server.origin else { return None };
        match &config.reach {
            ServerTransport::Stdio { command, args, .. } => {
                Some(std::iter::once(command).chain(args).map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
            }
            ServerTransport::Http { .. } => None,
        }
    }
}

/// A word as it would be written in a shell, so that two command lines never look the same.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
