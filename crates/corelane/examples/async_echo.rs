//! Echo by `async fn`: what comes leaves in the leases that it came in.
use corelane::aio::{self, Connection, Lane};
use corelane::{Lanes, Result};

/// Sends back what comes, until nothing does.
pub async fn echo(_lane: Lane, connection: Connection) -> aio::Result<()> {
    while let Some(bytes) = connection.read().await? {
        connection.count_requests(1);
        connection.send_all(bytes).await?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "tcp://127.0.0.1:7007".to_owned());
    Lanes::per_core().serve(&place, |_lane| aio::each(echo))?.named("echo").run()
}
