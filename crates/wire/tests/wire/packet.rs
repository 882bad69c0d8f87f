//! Packets: what the RFCs print, round trips of random values, lying lengths, and Scapy.

pub mod build;
mod captured;
mod checksums;
mod dhcp;
mod dhcpv6;
mod headers;
pub mod samples;
mod scapy;
mod told;
mod walk;
