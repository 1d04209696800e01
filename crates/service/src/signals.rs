//! Signals that ask the process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Receives the signals that ask the process to end.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From here on these signals no longer end the process by themselves.
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
