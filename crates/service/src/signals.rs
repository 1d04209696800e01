//! Signals that ask the process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as sent by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Receives termination signals.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From here on these signals no longer end the process directly.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Interrupts { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}
