//! What is written stands in order, whole or not at all, and each request that is held has one answer.

use super::*;
use corelane_seam::{Payer, Role};

fn output() -> (Output, LostTickets) {
    let lost = LostTickets::default();
    let mut output = Output::new(Arena::new(1).unwrap(), lost.clone());
    (output.room, output.tickets_left) = (1 << 20, 3);
    output.belong_to(ConnectionId { index: 1, generation: 1 });
    (output, lost)
}

fn text(output: &mut Output) -> String {
    output.seal();
    let mut bytes = vec![0; output.chain.len()];
    output.chain.copy_to(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn chain(bytes: &'static str) -> Chain {
    let mut chain = Chain::new();
    chain.push(bytes.as_bytes());
    chain
}

#[test]
fn small_writes_gather_in_order_with_the_rest() {
    let (mut output, _) = output();
    output.write(b"a").unwrap();
    output.write(b"b").unwrap();
    output.push(&b"C"[..]);
    output.write(b"d").unwrap();
    assert_eq!(text(&mut output), "abCd");
    assert_eq!(output.chain.segments().len(), 3);
}

#[test]
fn a_writer_leaves_all_or_nothing() {
    let (mut output, _) = output();
    output.write(b"1").unwrap();
    let mut writer = output.writer();
    writer.put(b"2").unwrap();
    writer.put(&[b'3'; 100_000]).unwrap();
    drop(writer);
    assert_eq!((output.len(), output.copied), (1, 1), "it was dropped");
    let mut writer = output.writer();
    fmt::Write::write_str(&mut writer, "2").unwrap();
    writer.put(&[b'3'; 100_000]).unwrap();
    writer.finish().unwrap();
    write!(output, "{}", 4).unwrap();
    let words = text(&mut output);
    assert_eq!((words.len(), output.copied), (100_003, 100_003));
    assert!(words.starts_with("123") && words.ends_with("34"));
}

#[test]
fn what_is_refused_is_refused_whole() {
    let (mut output, _) = output();
    let most = output.arena.limit() - output.arena.reserve();
    let payer = output.arena.open_payer(Payer::LANE, Role::Sum);
    let payer = output.arena.open_payer(payer, Role::Keeper);
    output.arena.pay_as(payer);
    assert_eq!(output.write(&vec![0; most + 1]), Err(Refused::TooLarge { most }));
    let rest = output.arena.lease(2 << 20).unwrap();
    let mut writer = output.writer();
    writer.put(b"something").unwrap();
    assert_eq!(writer.put(&vec![0; 2 << 20]), Err(Refused::Memory));
    assert_eq!(writer.put(b"more"), Err(Refused::Memory), "nothing stands behind what is missing");
    assert_eq!(writer.finish(), Err(Refused::Memory));
    assert!(output.is_empty() && output.was_refused);
    drop(rest);
    output.write(&vec![0; 2 << 20]).unwrap();
    assert_eq!(output.len(), 2 << 20);
}

#[test]
fn a_long_write_takes_the_pieces_that_there_are() {
    let (mut output, _) = output();
    let blocks: Vec<_> = std::iter::from_fn(|| output.arena.lease(4 << 10)).collect();
    // Every other page is free: no larger block is.
    let kept: Vec<_> = blocks.into_iter().enumerate().filter(|(place, _)| place % 2 == 0).map(|(_, lease)| lease).collect();
    assert!(output.arena.lease(8 << 10).is_none());
    output.write(&vec![7; 300_000]).unwrap();
    assert_eq!((output.len(), text(&mut output).len()), (300_000, 300_000));
    drop(kept);
}

#[test]
fn kept_order_waits_and_any_order_does_not() {
    let (mut output, _) = output();
    let first = output.hold(Order::Kept).unwrap();
    output.write(b"2").unwrap();
    let third = output.hold(Order::Kept).unwrap();
    output.write(b"4").unwrap();
    assert_eq!(text(&mut output), "");
    output.answer(third, chain("3")).unwrap();
    assert_eq!(text(&mut output), "");
    output.answer(first, chain("1")).unwrap();
    assert_eq!(text(&mut output), "1234");
    let any = output.hold(Order::Any).unwrap();
    output.write(b"5").unwrap();
    output.answer(any, chain("6")).unwrap();
    assert_eq!((text(&mut output).as_str(), output.held()), ("123456", 0));
}

#[test]
fn tickets_are_bounded_and_a_lost_one_is_known() {
    let (mut output, lost) = output();
    let tickets: Vec<_> = (0..3).map(|_| output.hold(Order::Any).unwrap()).collect();
    assert_eq!(output.hold(Order::Any).unwrap_err(), Refused::Tickets);
    assert!(output.was_refused);
    drop(tickets);
    assert_eq!(lost.take().len(), 3);
}

#[test]
fn a_ticket_of_another_connection_comes_back() {
    let (mut output, _) = output();
    let ticket = output.hold(Order::Any).unwrap();
    output.clear();
    output.belong_to(ConnectionId { index: 2, generation: 1 });
    let (ticket, _) = output.answer(ticket, chain("x")).unwrap_err();
    ticket.spend();
}
