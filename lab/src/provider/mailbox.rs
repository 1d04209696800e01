//! An SMTP server that stores the subject of each mail in a file, which stands for the mailbox.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub struct Mailbox {
    pub port: u16,
    path: PathBuf,
    /// Number of open connections.
    open: Arc<AtomicUsize>,
}

impl Mailbox {
    /// Serves until the runtime ends; subjects are appended to the file, one per line.
    pub async fn serve(path: &Path) -> Mailbox {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let open = Arc::new(AtomicUsize::new(0));
        let (counted, kept) = (open.clone(), path.to_owned());
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (counted, kept) = (counted.clone(), kept.clone());
                tokio::spawn(async move {
                    // A broken connection is ignored.
                    let _ = listen(caller, &kept).await;
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Mailbox { port, path: path.to_owned(), open }
    }

    /// Waits until all earlier connections are finished: then the mailbox is complete.
    pub async fn settle(&self) {
        // Connections are accepted in order, so all earlier ones are counted when this one is greeted.
        let caller = TcpStream::connect(("127.0.0.1", self.port)).await.expect("it listens");
        let mut line = String::new();
        let mut caller = BufReader::new(caller);
        caller.read_line(&mut line).await.expect("a greeting");
        drop(caller);
        while self.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub fn subjects(&self) -> Vec<String> {
        subjects(&self.path)
    }
}

/// The content of a mailbox, also from another process.
pub fn subjects(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

async fn listen(caller: TcpStream, path: &Path) -> std::io::Result<()> {
    let mut caller = BufReader::new(caller);
    caller.write_all(b"220 lab\r\n").await?;
    loop {
        let mut line = String::new();
        if caller.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let reply: &[u8] = match line.get(..4).unwrap_or_default().to_ascii_uppercase().as_str() {
            "EHLO" => b"250-lab\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
            "DATA" => {
                caller.write_all(b"354 go on\r\n").await?;
                let Some(subject) = subject_of(&mut caller).await? else { return Ok(()) };
                // Stored first: from here on it counts as sent, whether or not the client receives the reply.
                OpenOptions::new().create(true).append(true).open(path)?.write_all(format!("{subject}\n").as_bytes())?;
                b"250 kept\r\n"
            }
            "QUIT" => {
                caller.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => b"250 yes\r\n",
        };
        caller.write_all(reply).await?;
    }
}

/// The subject of a complete mail; `None` if it was interrupted.
async fn subject_of(caller: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut subject = String::new();
    loop {
        let mut line = String::new();
        if caller.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "." => return Ok(Some(subject)),
            line => {
                if let Some(rest) = line.strip_prefix("Subject: ") {
                    rest.clone_into(&mut subject);
                }
            }
        }
    }
}
