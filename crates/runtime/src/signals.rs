//! The signals that ask a process to stop: interrupt (Ctrl-C) and terminate (`kill`, the kubelet).

use std::io;

/// Receives the signals from the moment it is made; earlier ones end the process at once.
pub struct Signals {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

// === impl Signals ===

impl Signals {
    /// Must be called inside a tokio runtime.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    /// Never fails here; signals do on Unix.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Resolves at the next of the signals.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }

    /// Resolves at the next of the signals.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without signals there is nothing to wait for but the end.
            std::future::pending::<()>().await;
        }
    }
}
