//! What is measured of gateways: this file is the whole list.

use super::contenders::{Gateway, Rules};

/// What one packet costs.
#[derive(Debug)]
pub struct Cell {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// Who takes part.
    pub who: &'static [Gateway],
    /// Houses are VLANs, else networks of the port itself.
    pub is_tagged: bool,
    /// How users send.
    pub by: Means,
}

/// How users send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Frames of a program (live frames).
    Frames,
    /// Sockets of the kernel.
    Sockets,
}

/// All of them.
pub const CELLS: &[Cell] = &[
    Cell { name: "gateway-510", who: &Gateway::ALL, is_tagged: false, by: Means::Frames },
    Cell { name: "gateway-510-sockets", who: &Gateway::ALL, is_tagged: false, by: Means::Sockets },
    Cell {
        name: "gateway-vlan-510",
        who: &[Gateway::Lane(Rules::No), Gateway::Polling(Rules::No)],
        is_tagged: true,
        by: Means::Frames,
    },
];
