//! Ports of real interfaces, in network namespaces that the tests make and that are gone with them.
#![allow(clippy::unwrap_used, unsafe_code)]

mod afxdp;
mod card;
mod ends;
mod facts;
mod fast;
mod gateway;
mod neighbourhood;
mod node;
mod packet;
mod polled;
mod receiving;
mod relay;
mod stack;
mod tap;
mod wire;
