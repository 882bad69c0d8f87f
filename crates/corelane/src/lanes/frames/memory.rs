//! How many frames the ports of each lane have, and how the limit of locked memory is divided among them.

use corelane_xdp::{Choice, Queue, afxdp};

/// Frames of each lane's port where nobody says how many and they can be had, and bytes of each: 8 MiB a lane, which AF_XDP has locked. How
/// many datagrams and fragments may wait follows from their number.
pub(crate) const FRAMES: usize = 4096;
pub(crate) const FRAME_BYTES: usize = 2048;
/// Frames of a port at the least and at the most.
pub(crate) const FRAMES_LEAST: usize = 256;
pub(crate) const FRAMES_MOST: usize = 1 << 16;

/// The frames that each lane's port of these choices can have at the most, where the ports ask for so many and each lane locks so many bytes beside: those of AF_XDP are
/// locked, and that is limited. Ports that say nothing share what the others leave.
pub(crate) fn most(choices: &[&Choice], asked: &[Option<usize>], beside: usize) -> Vec<usize> {
    assert!(choices.len() == asked.len(), "each port asks or does not");
    let locked: Vec<usize> = choices.iter().map(|choice| locks(choice)).collect();
    let queues: usize = locked.iter().sum();
    if queues == 0 {
        return choices.iter().map(|choice| choice.frames_max(FRAME_BYTES, beside)).collect();
    }
    let lanes = locked.iter().copied().max().unwrap_or(1);
    let all = afxdp::frames_max(FRAME_BYTES, beside * lanes / queues, queues).saturating_mul(queues);
    shares(all, &locked, asked)
}

/// Frames of all queues, divided among those of AF_XDP, so many of each port.
fn shares(all: usize, locked: &[usize], asked: &[Option<usize>]) -> Vec<usize> {
    let taken: usize = locked.iter().zip(asked).map(|(queues, asked)| queues * asked.unwrap_or(0)).sum();
    let sharing: usize = locked.iter().zip(asked).filter(|(_, asked)| asked.is_none()).map(|(queues, _)| queues).sum();
    let share = all.saturating_sub(taken) / sharing.max(1);
    let of_port = |(queues, asked): (&usize, &Option<usize>)| match asked {
        _ if *queues == 0 => FRAMES_MOST,
        Some(_) if taken > all => 0,
        Some(asked) => *asked,
        None => share,
    };
    locked.iter().zip(asked).map(of_port).collect()
}

/// Queues of a choice whose frames are locked.
fn locks(choice: &Choice) -> usize {
    choice.queues.iter().filter(|queue| matches!(queue, Queue::Xdp(_))).count()
}

/// How many frames each lane has of those that it can have at the most, and what the operator should know; none if these are too few.
pub(crate) fn frames_had(asked: Option<usize>, most: usize) -> Option<(usize, Option<String>)> {
    match asked {
        Some(asked) => (asked <= most).then_some((asked, None)),
        None if most < FRAMES_LEAST => None,
        None if most < FRAMES => {
            let note = format!(
                "{most} frames a lane and not {FRAMES}, for no more may be locked, so fewer packets can wait: raise the limit (ulimit -l, LimitMEMLOCK=), \
                 or say how many are enough (,frames=N)"
            );
            Some((most, Some(note)))
        }
        None => Some((FRAMES, None)),
    }
}

/// Frames in each ring of a port with so many: half of all, so that a burst finds room as long as there are frames, and a full ring leaves some to send.
pub(crate) fn ring_of(frames: usize) -> usize {
    1 << (frames / 2).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_many_as_are_asked_for_or_can_be_had() {
        assert_eq!(frames_had(None, FRAMES), Some((FRAMES, None)));
        assert_eq!(frames_had(Some(FRAMES_MOST), FRAMES_MOST), Some((FRAMES_MOST, None)));
        let (had, note) = frames_had(None, FRAMES - 1).unwrap();
        assert!(had == FRAMES - 1 && note.unwrap().contains("4095 frames a lane and not 4096"));
        assert_eq!((frames_had(None, FRAMES_LEAST - 1), frames_had(Some(512), 511)), (None, None));
    }

    #[test]
    fn ports_that_ask_for_nothing_share_what_the_others_leave() {
        assert_eq!(shares(8192, &[2], &[None]), [4096]);
        assert_eq!(shares(8192, &[2, 2], &[None, None]), [2048, 2048]);
        assert_eq!(shares(8192, &[2, 2], &[Some(1024), None]), [1024, 3072]);
        assert_eq!(shares(8192, &[2, 0], &[None, None]), [4096, FRAMES_MOST], "what is not locked takes nothing");
        assert_eq!(shares(8192, &[2, 2], &[Some(4097), None]), [0, 0], "more than there is");
    }

    #[test]
    fn a_ring_leaves_half_of_the_frames_to_send() {
        assert_eq!([256, 511, 512, 4096, FRAMES_MOST].map(ring_of), [128, 128, 256, 2048, 1 << 15]);
    }
}
