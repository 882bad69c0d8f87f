//! The cells of RPC and their bars.

use crate::bars::{Bar, Divisor, Figure, Limit, cpu};
use crate::cells::Cell;
use crate::entrants::{Entrant, Peer};
use crate::load::{Asks, Carrier, Load, Split};

const LIBTIRPC: Entrant = Entrant::Peer(Peer::Libtirpc);
const GANESHA: Entrant = Entrant::Peer(Peer::Ganesha);

/// Bytes of a call of procedure 0 without credentials (RFC 5531 section 9), and of a fragment's mark before it (section 11).
const CALL_BYTES: usize = 40;
const MARK_BYTES: usize = 4;

/// Fragments of a record that is taken apart.
const FRAGMENTS: usize = 3;

/// All cells.
pub const CELLS: &[Cell] = &[
    Cell {
        bars: &[cpu(Divisor::One(LIBTIRPC), 0.08), cpu(Divisor::One(GANESHA), 0.02), sends_under(0.2)],
        ..cell("rpc-c64-d16", tcp(64, 16), &[Entrant::Corelane, Entrant::OtherDriver, LIBTIRPC, GANESHA])
    },
    Cell {
        bars: &[cpu(Divisor::One(LIBTIRPC), 0.75), OTHER_DRIVER],
        ..cell("rpc-c64-d1", tcp(64, 1), &[Entrant::Corelane, Entrant::OtherDriver, LIBTIRPC])
    },
    Cell {
        bars: &[cpu(Divisor::One(LIBTIRPC), 0.07), sends_under(0.05), NEARLY_ECHO],
        ..cell("rpc-c1-d128", tcp(1, 128), &[Entrant::Corelane, LIBTIRPC, Entrant::Echo])
    },
    Cell { bars: &[cpu(Divisor::One(LIBTIRPC), 0.8)], ..cell("rpc-udp-singles", udp(Carrier::UdpSingles), BOTH) },
    Cell { bars: &[cpu(Divisor::One(LIBTIRPC), 0.12)], ..cell("rpc-udp-trains", udp(Carrier::UdpTrains), BOTH) },
    cell("rpc-split-3", split(Split::Fragments(FRAGMENTS), FRAGMENTS), BOTH),
    cell("rpc-split-bytes", split(Split::Bytes, 1), BOTH),
];

const BOTH: &[Entrant] = &[Entrant::Corelane, LIBTIRPC];

/// One call at a time costs what the driver does: both are held to it.
const OTHER_DRIVER: Bar = Bar { of: Entrant::OtherDriver, ..cpu(Divisor::One(LIBTIRPC), 0.75) };

/// A call costs little more than an echo of about its size.
const NEARLY_ECHO: Bar =
    Bar { figure: Figure::Rate, of: Entrant::Corelane, by: Divisor::One(Entrant::Echo), limit: Limit::AtLeast(0.75) };

const fn sends_under(limit: f64) -> Bar {
    Bar { figure: Figure::SendsPerRequest, of: Entrant::Corelane, by: Divisor::Nothing, limit: Limit::Under(limit) }
}

/// A cell that is shown and not judged.
const fn cell(name: &'static str, load: Load, entrants: &'static [Entrant]) -> Cell {
    Cell { name, load, entrants, bars: &[], stand_in: Entrant::Corelane, idle_cpu: false, part: None }
}

const fn tcp(connections: usize, depth: usize) -> Load {
    let (asks, bytes) = (Asks::Null(Split::Whole), MARK_BYTES + CALL_BYTES);
    Load { asks, transport: Carrier::Tcp, bytes, connections, depth, spin: false }
}

const fn udp(transport: Carrier) -> Load {
    Load { asks: Asks::Null(Split::Whole), transport, bytes: CALL_BYTES, connections: 8, depth: 32, spin: false }
}

/// Several connections, so that a server that waits for the rest of a record shows; and several calls on each, so that ends and
/// beginnings of records come together.
const fn split(how: Split, fragments: usize) -> Load {
    let bytes = fragments * MARK_BYTES + CALL_BYTES;
    Load { asks: Asks::Null(how), transport: Carrier::Tcp, bytes, connections: 16, depth: 4, spin: false }
}
