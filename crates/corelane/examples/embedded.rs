//! Lanes in a program that runs on tokio: its tasks speak HTTP, and lanes do what needs to be fast. Here a lane counts the lines that come over its
//! connections, and each request to `127.0.0.1:7008` is answered with how many all lanes have counted. `/drain` ends both.
use corelane::lanes::Outside;
use corelane::service::{Asks, Call, Origin, Remote};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, StreamService};
use std::error::Error;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of a request that are read for its first line.
const REQUEST_BYTES: u64 = 1024;

/// Counts lines, and says how many when it is asked.
#[derive(Default)]
pub struct Tally {
    lines: u64,
}

/// What it is asked, and says.
pub type Counting = Asks<(), u64>;

impl StreamService for Tally {
    type Talk = Counting;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_, Counting>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_, Counting>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            output.forward(input.take(end + 1));
            cx.count_requests(1);
            self.lines += 1;
        }
        Next::Continue
    }

    fn asked(&mut self, cx: &mut Cx<'_, Counting>, _from: Origin, _question: (), call: Call<Counting>) {
        cx.reply(call, self.lines);
    }
}

/// Lines that all lanes have counted.
async fn counted(tally: &Remote<Counting>) -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    for lane in 0..tally.lanes() {
        sum += tally.ask(lane, ())?.await?;
    }
    Ok(sum)
}

async fn answer(mut client: TcpStream, outside: &Outside, tally: &Remote<Counting>) -> io::Result<()> {
    let mut request = String::new();
    BufReader::new((&mut client).take(REQUEST_BYTES)).read_line(&mut request).await?;
    let is_last = request.starts_with("GET /drain ");
    let (status, text) = match counted(tally).await {
        _ if is_last => ("200 OK", "drains\n".to_owned()),
        Ok(lines) => ("200 OK", format!("{lines}\n")),
        Err(error) => ("503 Service Unavailable", format!("{error}\n")),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    client.write_all(format!("{head}{text}").as_bytes()).await?;
    client.shutdown().await?;
    if is_last {
        outside.drain();
    }
    Ok(())
}

/// Answers on `listener` until the lanes have ended.
pub async fn answer_all(listener: TcpListener, outside: Outside) -> Result<(), Box<dyn Error>> {
    let tally = outside.service::<Counting>("tally")?;
    let (clients, at_work) = (outside.clone(), tally.clone());
    let answering = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (outside, tally) = (clients.clone(), at_work.clone());
            tokio::spawn(async move { answer(client, &outside, &tally).await });
        }
    });
    outside.ended().await;
    answering.abort();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let running = Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Tally::default())?.start()?;
    let outside = running.outside();
    // Sees to the lanes: if one breaks, the others are drained.
    let lanes = std::thread::spawn(move || running.wait());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async { answer_all(TcpListener::bind("127.0.0.1:7008").await?, outside).await })?;
    Ok(lanes.join().map_err(|_| "the thread that waits for the lanes panicked")??)
}
