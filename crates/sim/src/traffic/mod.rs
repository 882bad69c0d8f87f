//! What happens in the network: connections begin, bytes and datagrams travel. What it is made of is in `net`.

mod connect;
mod datagrams;
mod streams;
