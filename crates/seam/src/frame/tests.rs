use super::*;
use crate::error::Error;
use crate::parcel::{AbroadLimits, ParcelHome};
use proptest::prelude::*;

fn at(nanoseconds: u64) -> Instant {
    Instant::from_nanoseconds(nanoseconds)
}

fn memory(frames: usize) -> FrameMemory {
    FrameMemory::new(frames, 2048).unwrap()
}

fn counts(memory: &FrameMemory) -> [usize; 4] {
    let FrameCounts { free, held, lent, abroad } = memory.counts();
    assert_eq!(free + held + lent + abroad, memory.frames());
    [free, held, lent, abroad]
}

#[test]
fn a_frame_grows_on_both_sides() {
    let memory = memory(2);
    let mut frame = memory.frame().unwrap();
    frame.append(b"payload");
    frame.prepend(b"head");
    assert_eq!((&*frame, frame.headroom(), frame.room()), (&b"headpayload"[..], 252, 2048 - 256 - 7));
    frame.skip(4);
    frame.set_length(3);
    frame[0] = b'P';
    assert_eq!((&*frame, frame.headroom(), frame.capacity()), (&b"Pay"[..], 256, 2048));
}

/// A packet ends where nothing continues, and where the frames end.
#[test]
fn frames_are_cut_into_packets() {
    let memory = memory(5);
    let mut frames: Vec<_> = std::iter::from_fn(|| memory.frame()).collect();
    frames[1].facts.continues = true;
    frames[4].facts.continues = true;
    assert_eq!(Frame::packets(&frames).map(<[_]>::len).collect::<Vec<_>>(), [1, 2, 1, 1]);
    Frame::packets_mut(&mut frames).enumerate().for_each(|(number, packet)| packet[0].append(&[number as u8]));
    assert_eq!(frames.iter().map(|frame| frame.to_vec()).collect::<Vec<_>>(), [&[0][..], &[1], &[], &[2], &[3]]);
    assert_eq!(Frame::packets(&[]).count(), 0);
}

#[test]
fn an_interface_gives_back_what_it_has_and_nothing_else() {
    let memory = memory(3);
    let mut frame = memory.frame().unwrap();
    frame.append(b"out");
    let (index, start) = memory.lend(frame).unwrap();
    assert_eq!((start, counts(&memory)), (256, [2, 0, 1, 0]));
    for (index, start, length) in [(index, 0, 2049), (index, usize::MAX, 2), (index + 1, 0, 1), (99, 0, 1)] {
        assert_eq!(memory.take_back(index, start, length).unwrap_err(), NotLent { index });
    }
    let back = memory.take_back(index, start, 3).unwrap();
    assert_eq!((&*back, memory.take_back(index, start, 3).unwrap_err()), (&b"out"[..], NotLent { index }));
    drop(back);
    assert_eq!(counts(&memory), [3, 0, 0, 0]);
    let other = FrameMemory::new(1, 4096).unwrap().frame().unwrap();
    assert_eq!(memory.lend(other).unwrap_err().capacity(), 4096, "another region's frame comes back");
}

#[test]
fn a_frame_travels_is_changed_and_sent_there() {
    let (memory, post, guests) = (memory(32), ParcelHome::default(), Guests::default());
    memory.open_abroad(0, AbroadLimits::default(), &post);
    let mut frame = memory.frame().unwrap();
    frame.append(b"a packet");
    frame.facts = FrameFacts { time: 7, checksum: Checksum::Good, ..FrameFacts::default() };
    let sent = frame.parcel(1, at(0)).unwrap();
    assert_eq!((sent.bytes(), sent.home(), counts(&memory)), (&b"a packet"[..], 0, [31, 0, 0, 1]));
    let mut there = Frame::arrived(&guests, sent);
    there.prepend(b"in ");
    assert_eq!((&*there, there.facts.time, there.is_abroad()), (&b"in a packet"[..], 7, true));
    let (there, refused) = there.parcel(2, at(0)).unwrap_err();
    assert_eq!(refused, ParcelRefused::Closed);
    drop(there);
    let mut homeward = Vec::new();
    guests.take_homeward(&mut homeward);
    homeward.into_iter().for_each(|parcel| post.take_home(parcel));
    assert_eq!(counts(&memory), [32, 0, 0, 0]);
}

#[test]
fn an_eighth_of_the_frames_is_abroad_at_the_most() {
    let (memory, post) = (memory(16), ParcelHome::default());
    memory.open_abroad(0, AbroadLimits::default(), &post);
    let sent: Vec<_> = (0..3).map(|_| memory.frame().unwrap().parcel(1, at(0))).collect();
    assert_eq!(sent.iter().filter(|sent| sent.is_ok()).count(), 2);
    assert_eq!(counts(&memory), [13, 1, 0, 2]);
    drop(memory);
    drop(sent);
    post.find_lost();
    assert_eq!(post.counts(at(0)).found, 2);
}

#[test]
fn sizes_out_of_range_are_refused() {
    assert!(matches!(FrameMemory::new(1, 1024), Err(Error::FrameSize { got: 1024 })));
    assert!(matches!(FrameMemory::new(1, 3000), Err(Error::FrameSize { .. })));
    assert!(matches!(FrameMemory::new(1, 128 << 10), Err(Error::FrameSize { .. })));
    assert!(matches!(FrameMemory::new(0, 2048), Err(Error::FrameCount { got: 0, .. })));
    assert!(matches!(FrameMemory::new(FRAMES_MAX + 1, 2048), Err(Error::FrameCount { .. })));
}

proptest! {
    /// Frames never overlap, and each is somewhere, whatever is done with them.
    #[test]
    fn each_frame_is_at_one_place(steps in prop::collection::vec((0u8..5, any::<u8>()), 1..200)) {
        let (memory, mut held, mut lent) = (memory(8), Vec::<(u8, Frame)>::new(), Vec::<(u8, u32, usize)>::new());
        for (step, choice) in steps {
            match step {
                0 | 1 => held.extend(memory.frame().map(|mut frame| {
                    frame.append(&[choice; 1500]);
                    (choice, frame)
                })),
                2 if !held.is_empty() => drop(held.swap_remove(choice as usize % held.len())),
                3 if !held.is_empty() => {
                    let (byte, frame) = held.swap_remove(choice as usize % held.len());
                    let (index, start) = memory.lend(frame).unwrap();
                    lent.push((byte, index, start));
                }
                _ if !lent.is_empty() => {
                    let (byte, index, start) = lent.swap_remove(choice as usize % lent.len());
                    held.push((byte, memory.take_back(index, start, 1500).unwrap()));
                }
                _ => {}
            }
            prop_assert!(held.iter().all(|(byte, frame)| **frame == [*byte; 1500]));
            prop_assert_eq!(counts(&memory), [8 - held.len() - lent.len(), held.len(), lent.len(), 0]);
        }
    }
}
