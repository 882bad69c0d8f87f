//! A proxy by `async fn`: passes lines on to `127.0.0.1:7008` and what that answers back, each within a second. Where there is no answer it says `late`,
//! where there is no server `nobody`. A connection that breaks off takes the other one with it: nobody takes half an answer for a whole one.
use corelane::aio::{self, Connection, Lane};
use corelane::service::Address;
use corelane::{Lanes, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7008);

const PATIENCE: Duration = Duration::from_secs(1);

/// Moves one line from one connection to another, without a copy unless it came in pieces. False if there is none any more.
async fn pass_line(from: &Connection, to: &Connection) -> aio::Result<bool> {
    let mut there = 0;
    while from.fill(there + 1).await? {
        let (line, length) = from.input(|input| {
            let end = input.position(b'\n');
            (end.and_then(|end| input.take_shared(end + 1)), input.len())
        });
        if let Some(line) = line {
            to.send(line).await?;
            return Ok(true);
        }
        there = length;
    }
    Ok(false)
}

/// Passes a client's lines on to `server`, until one of the two ends.
async fn converse(lane: &Lane, client: &Connection, server: &Connection) -> aio::Result<()> {
    while pass_line(client, server).await? {
        client.count_requests(1);
        match lane.within(PATIENCE, pass_line(server, client)).await {
            Some(Ok(true)) => {}
            Some(Err(broken)) => return Err(broken),
            Some(Ok(false)) | None => return client.write(b"late\n").await,
        }
    }
    Ok(())
}

/// Passes a client's lines on to the server at `address`.
pub async fn pass(lane: Lane, client: Connection, address: Address) -> aio::Result<()> {
    let Ok(server) = lane.connect(address).await else { return client.write(b"nobody\n").await };
    let outcome = converse(&lane, &client, &server).await;
    if outcome.is_err() {
        client.abort();
        server.abort();
    }
    outcome
}

fn main() -> Result<()> {
    let serve = |_lane| aio::each(async |lane: Lane, client: Connection| pass(lane, client, SERVER.into()).await);
    Lanes::per_core().serve("tcp://127.0.0.1:7007", serve)?.run()
}
