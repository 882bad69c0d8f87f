//! What is heard of who has which address on the link, by ARP (RFC 826) and neighbour discovery (RFC 4861), and what is answered.

use crate::counts::Drop;
use crate::interface::{Say, Word, WordKind, solicited};
use crate::outward::{Outward, UNKNOWN};
use crate::packet::Ip;
use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::{Choice, Message, Options};
use std::net::{IpAddr, Ipv6Addr};

/// A message of ARP, at an interface.
pub(crate) fn arp(out: &mut Outward<'_>, interface: usize, bytes: &[u8]) {
    let Ok(message) = arp::Message::parse(bytes) else { return out.tally.drop(Drop::Malformed) };
    let (sender, target) = (IpAddr::V4(message.sender), IpAddr::V4(message.target));
    if out.routes.is_own(sender) {
        return claimed(out, interface, sender, message.sender_mac);
    }
    let is_for_us = out.interfaces[interface].has(target);
    let answers = message.operation == Operation::Reply && is_for_us;
    heard(out, interface, sender, message.sender_mac, answers);
    if message.operation == Operation::Request && (is_for_us || answers_for(out, interface, sender, target)) {
        out.tally.questions_answered += 1;
        if !message.sender.is_unspecified() {
            meet(out, interface, sender, message.sender_mac);
        }
        let reply = arp::Message {
            operation: Operation::Reply,
            sender_mac: out.interfaces[interface].mac(),
            sender: message.target,
            target_mac: message.sender_mac,
            target: message.sender,
        };
        out.say(interface, message.sender_mac, &reply);
    }
}

/// A message of neighbour discovery, whose packet has come from the link itself.
pub(crate) fn neighbour(out: &mut Outward<'_>, interface: usize, message: &Message<'_>, ip: &Ip) {
    let (IpAddr::V6(source), IpAddr::V6(to)) = (ip.source, ip.destination) else {
        unreachable!("neighbour discovery is of IPv6")
    };
    if !is_valid(message, source, to) {
        return out.tally.drop(Drop::Malformed);
    }
    let mac = |options: &Options<'_>| {
        options.iter().find_map(|choice| match choice {
            Choice::Source(mac) | Choice::Target(mac) => Some(mac),
            _ => None,
        })
    };
    match message {
        Message::Solicitation { target, options }
            if out.interfaces[interface].has((*target).into())
                || answers_for(out, interface, source.into(), (*target).into()) =>
        {
            if let Some(mac) = mac(options).filter(|_| !source.is_unspecified()) {
                heard(out, interface, source.into(), mac, false);
                meet(out, interface, source.into(), mac);
            }
            out.advertise(interface, *target, source, mac(options));
        }
        Message::Advertisement { target, flags, options } => {
            let target = IpAddr::V6(*target);
            if out.routes.is_own(target) {
                claimed(out, interface, target, mac(options).unwrap_or(UNKNOWN));
            } else if let Some(mac) = mac(options) {
                heard(out, interface, target, mac, flags.is_solicited);
            } else if flags.is_solicited {
                confirmed(out, interface, target);
            }
        }
        Message::RouterSolicitation { options } => {
            if let Some(mac) = mac(options).filter(|_| !source.is_unspecified()) {
                heard(out, interface, source.into(), mac, false);
                meet(out, interface, source.into(), mac);
            }
            let now = out.now;
            out.interfaces[interface].hear_solicitation(now);
        }
        _ => {}
    }
}

/// Whether we answer for an address of others' (RFC 1027; RFC 4861, section 7.2.8): a route leads there by another interface, and who asks wants to send something, and does
/// not look whether the address is free.
fn answers_for(out: &Outward<'_>, interface: usize, asker: IpAddr, target: IpAddr) -> bool {
    let is_asked = asker != target && !asker.is_unspecified() && out.interfaces[interface].is_proxy_for(target);
    is_asked && !out.routes.is_own(target) && out.routes.way(target).is_some_and(|way| way.interface != interface)
}

/// Somebody has asked for an address of ours.
fn meet(out: &mut Outward<'_>, interface: usize, ip: IpAddr, mac: Mac) {
    out.interfaces[interface].neighbours_mut().meet(ip, mac);
    spread(out, Word { interface, ip, mac, kind: WordKind::Asks });
}

/// Somebody says that he has an address of ours. What we have said ourselves, and a switch has brought back, is no claim.
fn claimed(out: &mut Outward<'_>, interface: usize, ip: IpAddr, mac: Mac) {
    if mac == out.interfaces[interface].mac() {
        return;
    }
    out.tally.conflicts += 1;
    contested(out, interface, ip, mac);
    spread(out, Word { interface, ip, mac, kind: WordKind::Claims });
}

/// Says against who claims an address of ours what is to be said.
fn contested(out: &mut Outward<'_>, interface: usize, ip: IpAddr, mac: Mac) {
    let said = out.interfaces[interface].contested(out.now, ip, mac);
    said.into_iter().for_each(|said| say(out, interface, said));
}

/// Says what is to be said of an address of ours.
pub(crate) fn say(out: &mut Outward<'_>, interface: usize, said: Say) {
    match said {
        Say::Probe(address) => out.probe(interface, address),
        Say::Announce(address) => out.announce(interface, address),
    }
}

/// Somebody says that he has an address.
fn heard(out: &mut Outward<'_>, interface: usize, ip: IpAddr, mac: Mac, answers: bool) {
    hears(out, interface, ip, mac, answers);
    spread(out, Word { interface, ip, mac, kind: if answers { WordKind::Answers } else { WordKind::Claims } });
}

/// Somebody who was asked at his link address has answered without saying it (RFC 4861, section 7.2.4).
fn confirmed(out: &mut Outward<'_>, interface: usize, ip: IpAddr) {
    out.interfaces[interface].neighbours_mut().confirmed(out.now, ip);
    spread(out, Word { interface, ip, mac: UNKNOWN, kind: WordKind::Confirms });
}

/// Other lanes are to hear it: a card brings what has no flow to one of them alone. Words that nobody has asked for cannot use up the bound of answers.
fn spread(out: &mut Outward<'_>, word: Word) {
    if !out.is_shared {
        return;
    }
    let is_answer = matches!(word.kind, WordKind::Answers | WordKind::Confirms);
    let bound = if is_answer { &mut out.bounds.answers } else { &mut out.bounds.words };
    if bound.take(out.now) {
        out.words.news.push(word);
    }
}

/// What another lane has heard.
pub(crate) fn learn(out: &mut Outward<'_>, word: Word) {
    let Word { interface, ip, mac, kind } = word;
    match kind {
        _ if out.routes.is_own(ip) => contested(out, interface, ip, mac),
        WordKind::Asks => out.interfaces[interface].neighbours_mut().meet(ip, mac),
        WordKind::Claims => hears(out, interface, ip, mac, false),
        WordKind::Answers => hears(out, interface, ip, mac, true),
        WordKind::Confirms => out.interfaces[interface].neighbours_mut().confirmed(out.now, ip),
    }
}

fn hears(out: &mut Outward<'_>, interface: usize, ip: IpAddr, mac: Mac, answers: bool) {
    if let Some(owner) = out.heard(interface, ip, mac, answers) {
        out.ask_at(interface, ip, Some(owner));
    }
}

/// Whether a message may say what it says (RFC 4861, sections 6.1.1, 7.1.1 and 7.1.2).
fn is_valid(message: &Message<'_>, source: Ipv6Addr, to: Ipv6Addr) -> bool {
    match message {
        Message::Solicitation { target, options } => {
            let has_source = options.iter().any(|choice| matches!(choice, Choice::Source(_)));
            !target.is_multicast() && (!source.is_unspecified() || (to == solicited(*target) && !has_source))
        }
        Message::Advertisement { target, flags, .. } => !(target.is_multicast() || to.is_multicast() && flags.is_solicited),
        // Section 6.1.1: nobody has a link address.
        Message::RouterSolicitation { options } => {
            !source.is_unspecified() || !options.iter().any(|choice| matches!(choice, Choice::Source(_)))
        }
        _ => true,
    }
}
