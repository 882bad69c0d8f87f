//! What the kernel does with connections of a bridge: facts on which `Direction` stands.
#![allow(clippy::unwrap_used, unsafe_code)]

use corelane_bridge::{Bridge, Progress, Say};
use corelane_os::testing::{pair, wait_for};
use corelane_os::{progress, sockets};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

struct Passage {
    bridge: Bridge,
    client: TcpStream,
    near: OwnedFd,
    far: OwnedFd,
    server: TcpStream,
}

fn passage() -> Passage {
    let bridge = Bridge::new(8).unwrap();
    let ((near, client), (far, server)) = (pair(), pair());
    bridge.enter(0, near.as_fd(), 0).unwrap();
    bridge.enter(1, far.as_fd(), 0).unwrap();
    let blocking = |socket: OwnedFd| {
        let s = TcpStream::from(socket);
        s.set_nonblocking(false).unwrap();
        s
    };
    Passage { bridge, client: blocking(client), near, far, server: blocking(server) }
}

fn read(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut b = vec![0; bytes];
    stream.read_exact(&mut b).unwrap();
    b
}
fn recv(socket: &OwnedFd) -> Result<Vec<u8>, i32> {
    let mut b = vec![0; 4096];
    let n = unsafe { libc::recv(std::os::fd::AsRawFd::as_raw_fd(socket), b.as_mut_ptr().cast(), b.len(), libc::MSG_DONTWAIT) };
    if n < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap());
    }
    b.truncate(n as usize);
    Ok(b)
}

#[test]
fn facts() {
    let mut p = passage();
    // Passes at first.
    p.client.write_all(b"first").unwrap();
    wait_for(p.near.as_fd(), libc::POLLIN);
    println!("counted {:?} heard {:?}", p.bridge.counted(0), p.bridge.heard());
    println!("inq {}", sockets::readable_bytes(p.near.as_fd()));
    println!("recv {:?} then {:?}", recv(&p.near), recv(&p.near));
    println!("progress far {:?}", progress::of(p.far.as_fd()));
    // redirect
    let rung = p.bridge.counted(0).rung;
    p.bridge.say(0, Say { done: 5, until: 100_000, heard: rung });
    p.bridge.say(1, Say { done: 0, until: 100_000, heard: 0 });
    // epoll quiet
    let epoll = unsafe { libc::epoll_create1(0) };
    let add = |s: &OwnedFd, ev: i32, data: u64| {
        let mut e = libc::epoll_event { events: ev as u32, u64: data };
        assert_eq!(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, std::os::fd::AsRawFd::as_raw_fd(s), &mut e) }, 0);
    };
    let wait = |ms: i32| {
        let mut e = [libc::epoll_event { events: 0, u64: 0 }; 8];
        let n = unsafe { libc::epoll_wait(epoll, e.as_mut_ptr(), 8, ms) };
        (0..n as usize)
            .map(|i| {
                let e = e[i];
                (e.u64, e.events)
            })
            .collect::<Vec<_>>()
    };
    add(&p.near, libc::EPOLLRDHUP | libc::EPOLLOUT | libc::EPOLLET, 7);
    {
        let mut e = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 9 };
        assert_eq!(
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, std::os::fd::AsRawFd::as_raw_fd(&p.bridge.bells()), &mut e) },
            0
        );
    }
    println!("epoll at first {:?}", wait(0));
    for round in 0..3 {
        p.client.write_all(b"second").unwrap();
        println!("{round} {:?}", String::from_utf8(read(&mut p.server, 6)));
    }
    println!("epoll after redirects {:?}", wait(50));
    println!("counted {:?} heard {:?} progress {:?}", p.bridge.counted(0), p.bridge.heard(), progress::of(p.far.as_fd()));
    p.bridge.say(0, Say { done: 5, until: 18, heard: p.bridge.counted(0).rung });
    p.client.write_all(b"third").unwrap();
    println!("epoll after a pass {:?} heard {:?}", wait(500), p.bridge.heard());
    println!("counted {:?}", p.bridge.counted(0));
    println!("recv {:?}", recv(&p.near));
    // FIN with bytes in flight
    p.bridge.say(0, Say { done: 10, until: 1_000_000, heard: p.bridge.counted(0).rung });
    p.client.write_all(b"last").unwrap();
    p.client.shutdown(Shutdown::Write).unwrap();
    println!("epoll after the end {:?}", wait(500));
    println!("recv {:?} counted {:?}", recv(&p.near), p.bridge.counted(0));
    println!("{:?}", read(&mut p.server, 4));
    println!("progress {:?}", progress::of(p.far.as_fd()));
    // other way still works
    p.server.write_all(b"back").unwrap();
    println!("{:?}", read(&mut p.client, 4));
    sockets::finish(p.far.as_fd());
    let mut b = [0; 8];
    println!("server reads end {:?}", p.server.read(&mut b));
    let _ = Progress::default();
}
