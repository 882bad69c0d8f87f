use super::*;

fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, block].concat()
}

const V4: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 4, 1, 0xbb];

fn ip(source: &str, destination: &str) -> Ends<'static> {
    Ends::Ip { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

/// The header is told whatever follows it, and not before it is whole.
fn whole(bytes: &[u8], ends: Ends<'_>) {
    for length in 0..bytes.len() {
        assert_eq!(parse(&bytes[..length]), Ok(Step::More), "{length} of {bytes:?}");
    }
    for behind in [&b""[..], b"\0", b"PROXY ", b"\r\n"] {
        assert_eq!(parse(&[bytes, behind].concat()), Ok(Step::Header { ends, bytes: bytes.len() }), "{bytes:?}");
    }
}

#[test]
fn lines_of_version_1_are_read() {
    whole(b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n", ip("192.0.2.1:56324", "192.0.2.2:443"));
    whole(b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 0\r\n", ip("255.255.255.255:65535", "255.255.255.255:0"));
    whole(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", ip("[2001:db8::1]:1", "[::1]:2"));
    whole(b"PROXY UNKNOWN\r\n", Ends::OfSocket);
    whole(b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", Ends::OfSocket);
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES_MAX - 16));
    assert_eq!(longest.len(), V1_BYTES_MAX);
    whole(longest.as_bytes(), Ends::OfSocket);
}

#[test]
fn what_is_no_line_of_version_1_is_refused() {
    let lines = [
        "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 56324\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443 \r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 056324 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 443\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY \r\n",
        "PROXY TCP4 192.0.2.1\u{e9} 192.0.2.2 1 2\r\n",
    ];
    lines.iter().for_each(|line| assert_eq!(parse(line.as_bytes()), Err(Fault::Line), "{line:?}"));
    let long = format!("PROXY UNKNOWN {}", "x".repeat(V1_BYTES_MAX));
    assert_eq!(parse(&long.as_bytes()[..V1_BYTES_MAX - 1]), Ok(Step::More));
    assert_eq!(parse(&long.as_bytes()[..V1_BYTES_MAX]), Err(Fault::Line));
    for other in ["GET / HTTP/1.1\r\n", "PROXYTCP4", "\x16\x03\x01", "proxy ", "\r\n\r\nX", "\n"] {
        assert_eq!(parse(other.as_bytes()), Err(Fault::NoHeader), "{other:?}");
    }
}

#[test]
fn headers_of_version_2_are_read() {
    let proxied = ip("192.0.2.1:56324", "192.0.2.2:443");
    whole(&header(0x21, 0x11, V4), proxied);
    let v6 = [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 15], &[1, 0, 1, 0, 2]].concat();
    whole(&header(0x21, 0x21, &v6), ip("[2001:db8::1]:1", "[::1]:2"));
    let mut unix = [0; 216];
    unix[..4].copy_from_slice(b"/a\0x");
    unix[109..112].copy_from_slice(b"b\0c");
    whole(&header(0x21, 0x31, &unix), Ends::Unix { source: b"/a", destination: b"\0b\0c" });
    whole(&header(0x21, 0x31, &[0; 216]), Ends::Unix { source: b"", destination: b"" });
    // Additions are passed over: here ALPN, and one of a type that nobody knows.
    whole(&header(0x21, 0x11, &[V4, b"\x01\0\x02h2", b"\xee\0\0"].concat()), proxied);
}

#[test]
fn the_ends_are_those_of_the_socket_where_nothing_better_is_said() {
    whole(&header(0x20, 0x00, b""), Ends::OfSocket);
    whole(&header(0x20, 0x11, V4), Ends::OfSocket);
    whole(&header(0x21, 0x00, b""), Ends::OfSocket);
    whole(&header(0x21, 0x12, V4), Ends::OfSocket);
    whole(&header(0x21, 0x10, V4), Ends::OfSocket);
}

#[test]
fn what_a_proxy_adds_to_local_is_discarded() {
    // Section 2.2: the family is ignored, and so is the block.
    for (family, block) in [
        (0xff, &b""[..]),
        (0x13, V4),
        (0x11, &V4[..3]),
        (0x31, V4),
        (0x00, b"abc"),
        (0x00, b"\x03\0\x04abcd"),
        (0x00, b"\x01\xff\xff"),
    ] {
        whole(&header(0x20, family, block), Ends::OfSocket);
    }
    whole(&header(0x20, 0xff, &[0xff; V2_BYTES_MAX - V2_HEAD]), Ends::OfSocket);
}

#[test]
fn what_is_no_header_of_version_2_is_refused_as_soon_as_that_is_known() {
    for (bytes, fault, at) in [
        (header(0x22, 0x11, V4), Fault::Command(0x22), 13),
        (header(0x11, 0x11, V4), Fault::Command(0x11), 13),
        (header(0x21, 0x41, V4), Fault::Family(0x41), 14),
        (header(0x21, 0x13, V4), Fault::Family(0x13), 14),
        (header(0x21, 0x11, &[0; 4081]), Fault::TooLong(4097), 16),
        (header(0x20, 0xff, &[0; 4081]), Fault::TooLong(4097), 16),
        (header(0x21, 0x11, &V4[..11]), Fault::TooShort, 27),
        (header(0x21, 0x21, V4), Fault::TooShort, 28),
        (header(0x21, 0x31, &[0; 215]), Fault::TooShort, 231),
        (header(0x21, 0x11, &[V4, b"\x01\0"].concat()), Fault::TooShort, 30),
        (header(0x21, 0x11, &[V4, b"\x01\0\x03h2"].concat()), Fault::TooShort, 33),
    ] {
        assert_eq!(parse(&bytes[..at - 1]), Ok(Step::More), "{fault}");
        assert_eq!(parse(&bytes[..at]), Err(fault), "{fault}");
        assert_eq!(parse(&bytes), Err(fault));
    }
}

#[test]
fn a_checksum_must_be_right() {
    // RFC 3720 appendix B.4.
    assert_eq!(crc32c([0; 32].into_iter()), 0x8a91_36aa);
    assert_eq!(crc32c(0..32), 0x46dd_794e);
    let with = |sum: [u8; 4]| header(0x21, 0x11, &[V4, b"\x03\0\x04", &sum, b"\x04\0\x01x"].concat());
    let right = with(crc32c(with([0; 4]).into_iter()).to_be_bytes());
    whole(&right, ip("192.0.2.1:56324", "192.0.2.2:443"));
    for at in 16..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        // At 28 is what says that it is a checksum.
        assert!(parse(&wrong).is_err() || at == 28, "byte {at} counts");
    }
    assert_eq!(parse(&header(0x21, 0x11, &[V4, b"\x03\0\x03abc"].concat())), Err(Fault::Checksum));
    assert_eq!(parse(&header(0x21, 0x00, b"\x03\0\x04abcd")), Err(Fault::Checksum));
}

#[test]
fn what_is_written_is_read() {
    let of = |text: &str| text.parse::<SocketAddr>().unwrap();
    let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
    for (from, to, expected) in [
        ("192.0.2.1:56324", "192.0.2.2:443", Some(("192.0.2.1:56324", "192.0.2.2:443"))),
        ("[2001:db8::1]:1", "[2001:db8::2]:65535", None),
        ("[::ffff:192.0.2.1]:7", "192.0.2.2:8", Some(("192.0.2.1:7", "192.0.2.2:8"))),
        ("192.0.2.1:7", "[2001:db8::2]:8", Some(("[::ffff:192.0.2.1]:7", "[2001:db8::2]:8"))),
        (longest, longest, None),
    ] {
        let (source, destination) = expected.unwrap_or((from, to));
        let ends = Ends::Ip { source: of(source), destination: of(destination) };
        for version in [Version::V1, Version::V2] {
            let mut memory = [0xff; HEADER_BYTES_MAX];
            let bytes = write(version, Some((of(from), of(to))), &mut memory);
            assert_eq!(parse(&memory[..bytes]), Ok(Step::Header { ends, bytes }), "{from} {to} {version:?}");
        }
    }
    for version in [Version::V1, Version::V2] {
        let mut memory = [0xff; HEADER_BYTES_MAX];
        let bytes = write(version, None, &mut memory);
        assert_eq!(parse(&memory[..bytes]), Ok(Step::Header { ends: Ends::OfSocket, bytes }), "{version:?}");
    }
}
