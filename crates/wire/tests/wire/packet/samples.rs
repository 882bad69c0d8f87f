//! Seeds of the fuzz targets: frames and headers of each kind, as random ones come, the first of each shape.

use super::{build, told};
use crate::hostile::Random;
use crate::samples::Sample;
use std::collections::BTreeMap;

/// Frames of so many shapes.
const SHAPES: usize = 48;

/// The shape of a frame: the names of its headers.
fn shape(frame: &[u8]) -> String {
    let told = told::frame(frame);
    told.split('|').map(|layer| layer.split_once(':').map_or(layer, |(name, _)| name)).collect::<Vec<_>>().join("-")
}

/// All.
pub fn all() -> Vec<Sample> {
    let mut random = Random::new(7);
    let mut shapes = BTreeMap::new();
    while shapes.len() < SHAPES {
        let frame = build::frame(&mut random);
        if frame.len() < 200 {
            shapes.entry(shape(&frame)).or_insert(frame);
        }
    }
    let sample = |parser, name: &str, bytes: &[u8]| Sample { parser, name: name.to_owned(), bytes: bytes.to_vec() };
    let headers = shapes.iter().filter_map(|(name, frame)| Some(sample("packet_headers", name, told::innermost(frame)?)));
    let headers: Vec<_> = headers.collect();
    let messages = super::dhcp::samples().into_iter().map(|(name, bytes)| sample("dhcp", name, &bytes));
    let messages = messages.chain(super::dhcpv6::samples().into_iter().map(|(name, bytes)| sample("dhcpv6", name, &bytes)));
    shapes.iter().map(|(name, frame)| sample("packet_frame", name, frame)).chain(headers).chain(messages).collect()
}
