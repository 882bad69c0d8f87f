//! Ctrl-C and its like as something that is asked for, so that servers are always ended by their guards.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// While it exists, the signals that ask this process to end wait to be noticed by [`Interrupt::check`].
pub struct Interrupt {
    signals: SignalFd,
}

impl Interrupt {
    /// Blocks the signals in this thread, and in all that it starts from now on.
    pub fn block() -> Result<Self> {
        let set = asked_to_end();
        set.thread_block().context("blocking signals")?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("signalfd")?;
        Ok(Self { signals })
    }

    /// Fails when one has arrived. To be called at least every few seconds.
    pub fn check(&self) -> Result<()> {
        if let Some(info) = self.signals.read_signal().context("signalfd")? {
            bail!("interrupted by signal {}: nothing was written", info.ssi_signo);
        }
        Ok(())
    }
}

/// Undoes [`Interrupt::block`] in a process that is about to become another program.
pub fn unblock() -> Result<()> {
    asked_to_end().thread_unblock().context("unblocking signals")
}

fn asked_to_end() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    set
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn a_signal_is_noticed_once_and_does_not_end_the_process() {
        let interrupt = Interrupt::block().expect("signalfd");
        interrupt.check().expect("nothing has arrived");
        // To this thread only; the other threads of the test program take no part.
        raise(Signal::SIGHUP).expect("raise");
        let error = interrupt.check().expect_err("it has arrived");
        assert!(error.to_string().contains("signal 1"), "{error}");
        interrupt.check().expect("it was taken");
        unblock().expect("unblock");
    }
}
