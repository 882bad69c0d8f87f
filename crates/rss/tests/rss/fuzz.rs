//! The fuzz targets on their corpus, and on some thousand changes of it that a seed chooses.

use std::path::Path;

use crate::common::words;

#[path = "../../fuzz/packet.rs"]
mod packet;
#[path = "../../fuzz/text.rs"]
mod text;

const CHANGES: usize = 5_000;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Some bytes of `data` overwritten, taken out, doubled, or moved in from `other`.
fn change(data: &mut Vec<u8>, other: &[u8], word: &mut impl FnMut() -> u64) {
    for _ in 0..1 + word() % 4 {
        let at = word() as usize % (data.len() + 1);
        match word() % 6 {
            0 => data.truncate(at),
            1 => data.insert(at, word() as u8),
            2 => data.extend_from_within(at..),
            3 => data.splice(at.., other.iter().skip(at).copied()).for_each(drop),
            _ if at < data.len() => data[at] = if word() & 1 == 0 { word() as u8 } else { data[at] ^ 1 << (word() % 8) },
            _ => {}
        }
        data.truncate(4_096);
    }
}

fn exercise(name: &str, target: fn(&[u8])) {
    let corpus = corpus(name);
    assert!(corpus.len() >= 10, "{name} has {} examples", corpus.len());
    corpus.iter().for_each(|data| target(data));
    let mut word = words(77);
    for _ in 0..CHANGES {
        let mut pick = || &corpus[word() as usize % corpus.len()];
        let (mut data, other) = (pick().clone(), pick());
        change(&mut data, other, &mut word);
        target(&data);
    }
}

#[test]
fn any_packet_is_read_and_judged_in_one_piece() {
    exercise("packet", packet::target);
}

#[test]
fn any_text_is_refused_or_written_as_it_was_read() {
    exercise("text", text::target);
}
