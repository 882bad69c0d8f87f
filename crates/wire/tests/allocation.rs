//! Reading a call and writing its reply allocates nothing.

use corelane_wire::rpc::{Call, Owed, Program, success_head, write_record};
use corelane_wire::xdr::{Encode, Writer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NFS: Program = Program { number: 100_003, low: 3, high: 3 };

/// The reply to `message` in `memory`, as a service without procedures but NULL gives it; its length.
fn serve(message: &[u8], memory: &mut [u8]) -> usize {
    let mut output = Writer::new(memory);
    let served = Call::parse(message).and_then(|call| {
        NFS.admit(&call)?;
        call.identity()?;
        if call.procedure == 0 { Ok(call.xid) } else { Err(call.procedure_unavailable()) }
    });
    let written = match served {
        Ok(xid) => write_record(&mut output, 0, |to| to.put(&success_head(xid))),
        Err(refusal) => match refusal.owed {
            Owed::Answer(reply) => write_record(&mut output, 0, |to| reply.encode(to)),
            Owed::Drop | Owed::Close => Ok(()),
        },
    };
    written.expect("the memory holds any reply without results");
    output.len()
}

// One test in this program, so that no other thread allocates meanwhile.
#[test]
fn nothing_is_allocated_for_any_call() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/call");
    let calls: Vec<Vec<u8>> =
        std::fs::read_dir(seeds).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    let mut memory = [0; 64];
    let region = Region::new(ALLOCATOR);
    let mut written = 0;
    for call in &calls {
        for length in 0..=call.len() {
            written += serve(&call[..length], &mut memory);
        }
    }
    let allocations = region.change().allocations;
    assert!(written >= 28 * calls.len());
    assert_eq!(allocations, 0);
}
