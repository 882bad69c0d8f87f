//! Those of bridged pairs that wait for the kernel to come so far: sends, ends, closes, and an end in front of which bytes are still to come.

use super::endpoint::Sending;
use super::pairs::{At, Bridged, Departing, LOOK_AGAIN_MOST, tick};
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use corelane_os::clock;
use corelane_seam::Completion;
use corelane_seam::slab::Key;
use std::os::fd::AsFd;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Looks at those that wait for the kernel, where it is time.
    #[inline]
    pub(super) fn settle_bridged(&mut self, completions: &mut Vec<Completion>) {
        if self.bridged.is_some() {
            self.settle_due(completions);
        }
    }

    // Apart, so that a lane without pairs pays only for the check, and reads no clock.
    #[inline(never)]
    fn settle_due(&mut self, completions: &mut Vec<Completion>) {
        let now = clock::now();
        let Some(bridged) = self.bridged.as_mut().filter(|bridged| bridged.look_at <= now) else { return };
        for key in bridged.due(now) {
            if self.endpoints.get(key).is_some() {
                self.settle(key, completions);
            }
        }
        self.let_depart(now);
    }

    fn settle(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let Some(bridged) = &mut self.bridged else { return };
        let number = bridged.number(key);
        let side = bridged.side(number);
        let (finishes, awaits_rest) = (side.finishes, std::mem::take(&mut side.awaits_rest));
        side.is_waiting = false;
        if let Sending::Bytes(held) = self.endpoints.at(key.index).sending {
            self.resume_send(key, held.get(), completions);
        }
        if awaits_rest {
            let endpoint = self.endpoints.at_mut(key.index);
            endpoint.mark_news();
            endpoint.exhaust = true;
            self.queue(key);
        }
        if finishes {
            self.finish_bridged(key);
        }
    }

    /// Closes those whose close has waited long enough.
    fn let_depart(&mut self, now: u64) {
        let Some(bridged) = &mut self.bridged else { return };
        let Bridged { bridge, pairs, departing, look_at, .. } = &mut **bridged;
        let gone: Vec<Departing> = departing
            .extract_if(.., |one| {
                if one.at > now {
                    *look_at = one.at.min(*look_at);
                    return false;
                }
                one.pause = (2 * one.pause).min(LOOK_AGAIN_MOST);
                one.at = tick(now, one.pause);
                let towards = one.number ^ 1;
                let at =
                    At { bridge, number: towards, start: None, end: Some(one.endpoint.descriptor.as_fd()), is_broken: false };
                let pair = pairs.at_mut(one.number >> 1);
                let departs = pair.sides[towards as usize & 1].direction.is_clear(&at) || one.until <= now;
                *look_at = if departs { *look_at } else { one.at.min(*look_at) };
                departs
            })
            .collect();
        for Departing { bits, endpoint, handle, number, .. } in gone {
            if let Some(bridged) = &mut self.bridged {
                bridged.pairs.at_mut(number >> 1).departing -= 1;
                bridged.forget(number);
            }
            self.release(Key::from_bits(bits), endpoint);
            self.closing.push((bits, handle));
        }
    }
}
