//! Row X-09: fragments in the lane's frames, also in those of another lane: nothing is copied, and each goes home.

use super::checks::limits;
use super::parts::{BOTH, seconds};
use corelane_isr::reassembly::{Admission, Reassembly};
use corelane_seam::FrameMemory;

#[test]
fn x_09_a_datagram_is_the_frames_that_it_came_in() {
    for family in BOTH {
        let memory = FrameMemory::new(64, 2048).unwrap();
        let data = family.datagram(3000);
        let mut table = Reassembly::new(limits(), 1);
        let (mut pieces, mut places) = (Vec::new(), Vec::new());
        for part in family.parts(1, &data, 1024).iter().rev() {
            let mut frame = memory.frame().unwrap();
            // With a link's header in front, as it comes.
            frame.append(&[0xee; 14]);
            frame.append(part);
            frame.skip(14);
            places.push((frame.as_ptr() as usize + part.len(), frame.capacity()));
            match table.arrive(seconds(0), 0, frame, &mut pieces) {
                Admission::Held => assert_eq!(table.waiting().2, places.len() * 2048, "the whole frame is charged"),
                Admission::Whole(datagram) => assert_eq!((datagram.pieces, datagram.data_bytes), (3, data.len())),
                other => panic!("{other:?}"),
            }
        }
        let ends = pieces.iter().rev().map(|frame| (frame.as_ptr() as usize + frame.len(), frame.capacity()));
        assert_eq!(ends.collect::<Vec<_>>(), places, "the data lie where they arrived");
        let whole: Vec<u8> = pieces.iter().flat_map(|frame| frame.to_vec()).collect();
        let wanted = family.whole(1, &data);
        assert_eq!(whole, wanted);
        assert_eq!(memory.counts().held, 3);
        pieces.clear();
        assert_eq!(memory.counts().held, 0, "all went home");
    }
}
