//! The token that is made each time a server starts: in a file that only the account of the server can read, and in a link for browsers.
//!
//! Programs of the same account need no token (see `server::guard`). It is for everybody else whom the account lets in: browsers of another account,
//! requests through a proxy, and systems where the account of a connection cannot be known.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use server::guard;

use crate::exit::{Result, Trouble};
use crate::hub;
use crate::place::Place;
use crate::private;

const FOLDER: &str = "access";
const ENDING: &str = "token";

/// The token of this start; its file is removed with it.
pub(crate) struct StartToken {
    pub(crate) token: String,
    file: Option<PathBuf>,
}

impl StartToken {
    pub(crate) fn new() -> Result<StartToken> {
        let token = guard::secret().map_err(|problem| Trouble::Failed(problem.message))?;
        Ok(StartToken { token, file: None })
    }

    /// Writes the file, once the address is known.
    pub(crate) fn keep(&mut self, place: &Place, address: SocketAddr) -> Result<()> {
        let folder = folder(place)?;
        let wrong = |error: std::io::Error| Trouble::Place(format!("the token cannot be kept in {}: {error}", folder.display()));
        private::make_folder(&folder).map_err(wrong)?;
        let file = folder.join(format!("{}.{ENDING}", address.port()));
        private::write(&file, &format!("{}\n", self.token)).map_err(wrong)?;
        self.file = Some(file);
        Ok(())
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn link(&self, address: SocketAddr) -> String {
        link(&address.to_string(), &self.token)
    }
}

impl Drop for StartToken {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Without a server the token is worth nothing.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A server of this account that runs with this database.
pub(crate) struct Running {
    pub(crate) link: String,
    pub(crate) file: PathBuf,
}

/// Servers that were started with this database and still listen.
pub(crate) fn running(place: &Place) -> Result<Vec<Running>> {
    let Ok(files) = std::fs::read_dir(folder(place)?) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for file in files.flatten().map(|file| file.path()) {
        let port = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u16>().ok());
        let (Some(port), Ok(token)) = (port, std::fs::read_to_string(&file)) else { continue };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // A server that was killed leaves its file.
        if TcpStream::connect(address).is_ok() {
            all.push(Running { link: link(&address.to_string(), token.trim()), file });
        }
    }
    all.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(all)
}

fn link(address: &str, token: &str) -> String {
    format!("http://{address}/open?token={token}")
}

fn folder(place: &Place) -> Result<PathBuf> {
    Ok(hub::folder(place)?.join(FOLDER))
}
