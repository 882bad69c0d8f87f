//! An application that counts: `POST /sell/N` sells apples, as long as there are any. `corelane stat` shows how many were sold, beside what HTTP counts.
use corelane::{Lanes, Result, counters};
use corelane_http::http1::{Method, Status};
use corelane_http::{Http, HttpCounter, Routes};

counters! {
    /// What the shop counts.
    pub enum Sold behind HttpCounter {
        Apples "apples_sold" Counter "apples" "Apples that were sold.";
        Left "apples_left" Gauge "apples" "Apples that are left, as of the last sale.";
    }
}

/// A lane's routes, and so many apples.
pub fn shop(apples: usize) -> Routes<usize, Sold> {
    let mut routes = Routes::counting(apples);
    routes.typed(Method::Post, "/sell/{apples}", |left, cx, (apples,): (usize,), _request, reply| {
        if apples > *left {
            return reply.status(Status::CONFLICT);
        }
        *left -= apples;
        cx.count(Sold::Apples, apples);
        cx.set_gauge(Sold::Left, *left as u64);
        reply.text("sold\n")
    });
    routes
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(shop(1_000)))?.run()
}
