//! Connections by `async fn`, on simulated lanes with all faults.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../examples/async_echo.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod async_echo;

use corelane::aio;
use corelane::testing::{Faults, simulate};

#[test]
fn an_echo() {
    let summary = simulate(200, Faults::all, |scene| {
        scene.serve(7, |_lane| aio::each(async_echo::echo));
        for client in 0..20 {
            let bytes = vec![client; 3000];
            scene.connect(7).say(&bytes).hear(&bytes).say("end").hear("end").finish();
        }
    });
    println!("{}", summary.unwrap());
}
