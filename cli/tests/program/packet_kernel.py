"""Sends the same packets to Corelane's stack and to the kernel's, and prints what only one of them answers.

Arguments: the near end of each wire, its link-layer address and its own addresses of both families. A datagram that the service behind each
stack sends back follows each packet, so all answers to that have come when it has.
"""

import socket
import struct
import sys
import time


def sum_of(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Wire:
    """One end of a wire, at whose other end a stack is."""

    def __init__(self, name, mac, v4, v6):
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((name, 0))
        self.socket.settimeout(10)
        self.own = self.socket.getsockname()[4]
        self.to = {4: socket.inet_aton(v4), 6: socket.inet_pton(socket.AF_INET6, v6)}
        # The asker is the first of each network.
        self.from_ = {4: self.to[4][:3] + b"\x01", 6: self.to[6][:15] + b"\x01"}
        self.marks = 0

    def send(self, kind, packet, mac=None):
        self.socket.send((mac or self.mac) + self.own + kind.to_bytes(2, "big") + packet)

    def frames(self):
        """What the stack sends; who asks for the asker is answered."""
        while True:
            frame = self.socket.recv(2000)
            if frame[6:12] != self.mac:
                continue
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\x01":
                if frame[38:42] == self.from_[4]:
                    reply = bytes.fromhex("0001080006040002") + self.own + self.from_[4] + frame[22:32]
                    self.send(0x0806, reply)
                continue
            if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 135:
                if frame[62:78] == self.from_[6]:
                    answer = b"\x88\0\0\0\x60\0\0\0" + self.from_[6] + b"\x02\x01" + self.own
                    self.send(0x86DD, v6(self, 58, answer, hops=255, to=frame[22:38]))
                continue
            # What is said to all of the link unasked: an address is announced a while after the start.
            if frame[0] & 1 and frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 136:
                continue
            yield frame

    def answers(self, family):
        """What has come by the time that the service has answered."""
        self.marks += 1
        mark = b"mark %d." % self.marks
        if family == 4:
            self.send(0x0800, v4(self, 17, udp(60007, mark)))
        else:
            self.send(0x86DD, v6(self, 17, udp(60007, mark)))
        found = []
        for frame in self.frames():
            told = told_of(frame)
            if told is None:
                continue
            if mark in frame and told.startswith("udp"):
                break
            found.append(told)
        # So many errors a second are sent as may be: no more are asked for.
        if any(told.startswith(("icmp", "tcp")) for told in found):
            time.sleep(0.002)
        return " ".join(found) or "nothing"


def told_of(frame):
    """What a frame says, in a word."""
    if frame[12:14] == b"\x08\x06":
        return "arp"
    if frame[12:14] == b"\x08\0":
        head = (frame[14] & 15) * 4
        protocol, data = frame[23], frame[14 + head : 14 + int.from_bytes(frame[16:18], "big")]
    elif frame[12:14] == b"\x86\xdd":
        protocol, data = frame[20], frame[54 : 54 + int.from_bytes(frame[18:20], "big")]
        # Groups that the kernel joins, and its search for routers.
        if protocol == 0 or data[:1] in (b"\x85", b"\x8f"):
            return None
    else:
        return None
    if protocol == 17:
        return "udp/%d" % (len(data) - 8)
    if protocol == 6:
        return "tcp/%02x" % data[13]
    if (protocol, data[0]) in ((1, 0), (58, 129)):
        return "echo/%d" % (len(data) - 8)
    if protocol in (1, 58):
        at = ""
        if (protocol, data[0]) == (1, 12):
            at = "@%d" % data[4]
        if (protocol, data[0]) == (58, 4):
            at = "@%d" % int.from_bytes(data[4:8], "big")
        if data[0] == 2 and protocol == 1:
            return None
        return "icmp/%d.%d%s" % (data[0], data[1], at)
    return None if protocol == 2 else "ip/%d" % protocol


def checked(wire, family, protocol, data, to=None, source=None):
    """The data with the checksum that their protocol has."""
    to, source = to or wire.to[family], source or wire.from_[family]
    place = {17: 6, 6: 16, 58: 2, 1: 2}.get(protocol)
    if place is None or len(data) < place + 2 or data[place : place + 2] != b"\0\0":
        return data
    pseudo = b"" if protocol == 1 else source + to + struct.pack("!II", len(data), protocol)
    checksum = sum_of(pseudo + data) or 0xFFFF
    return data[:place] + checksum.to_bytes(2, "big") + data[place + 2 :]


def v4(wire, protocol, data, to=None, source=None, first=None, options=b"", length=None, field=0, hops=64, checksum=None, sums=True):
    to, source = to or wire.to[4], source or wire.from_[4]
    if sums:
        data = checked(wire, 4, protocol, data, to, source)
    first = first if first is not None else 0x45 + len(options) // 4
    length = length if length is not None else 20 + len(options) + len(data)
    head = struct.pack("!BBHHHBBH", first, 0, length, 7, field, hops, protocol, 0) + source + to + options
    right = sum_of(head)
    return head[:10] + (checksum if checksum is not None else right).to_bytes(2, "big") + head[12:] + data


def v6(wire, protocol, data, to=None, source=None, first=0x60, before=(), length=None, hops=64, sums=True):
    to, source = to or wire.to[6], source or wire.from_[6]
    if sums:
        data = checked(wire, 6, protocol, data, to, source)
    for kind, header in reversed(before):
        data, protocol = bytes([protocol]) + header + data, kind
    length = length if length is not None else len(data)
    return struct.pack("!BBHHBB", first, 0, 0, length, protocol, hops) + source + to + data


def udp(port, data=b"question", length=None):
    return struct.pack("!HHHH", 5000, port, length if length is not None else 8 + len(data), 0) + data


def tcp(flags, offset=5):
    return struct.pack("!HHIIBBHHH", 5000, 9, 1000, 2000, offset << 4, flags, 100, 0, 0)


def icmp(kind, code=0, data=b"\0\x01\0\x01question"):
    return bytes([kind, code, 0, 0]) + data


PROTOCOLS = {
    "udp": (17, udp(60007)),
    "udp-nobody": (17, udp(9)),
    "udp-length-7": (17, udp(60007, length=7)),
    "udp-length-more": (17, udp(60007, length=99)),
    "udp-cut": (17, udp(60007)[:6]),
    "tcp-syn": (6, tcp(2)),
    "tcp-ack": (6, tcp(16)),
    "tcp-fin": (6, tcp(1)),
    "tcp-rst": (6, tcp(4)),
    "tcp-cut": (6, tcp(2)[:12]),
    "tcp-offset-4": (6, tcp(2, 4)),
    "sctp": (132, bytes(16)),
    "nobody-99": (99, bytes(16)),
    "nobody-253": (253, bytes(16)),
}
PROTOCOLS_4 = {
    **PROTOCOLS,
    "echo": (1, icmp(8)),
    "echo-code": (1, icmp(8, 7)),
    "echo-cut": (1, icmp(8)[:6]),
    "echo-reply": (1, icmp(0)),
    "stamp": (1, icmp(13, data=bytes(16))),
    "mask": (1, icmp(17, data=bytes(8))),
    "info": (1, icmp(15)),
    "icmp-42": (1, icmp(42)),
    "igmp": (2, b"\x11\0\xee\xff" + bytes(4)),
}
PROTOCOLS_6 = {
    **PROTOCOLS,
    "echo": (58, icmp(128)),
    "echo-code": (58, icmp(128, 7)),
    "echo-cut": (58, icmp(128)[:6]),
    "echo-reply": (58, icmp(129)),
    "icmp-42": (58, icmp(42)),
    "icmp-200": (58, icmp(200)),
    "none": (59, b""),
}

BROADCAST = b"\xff" * 6
STATION = bytes.fromhex("020000000077")


def within(wire, last):
    return wire.to[4][:3] + bytes([last])


# What is done with a packet of IPv4, and what it says in its link-layer header.
SHAPES_4 = {
    "plain": lambda w, p, d: v4(w, p, d),
    "longer-frame": lambda w, p, d: v4(w, p, d) + bytes(9),
    "sum-of-header": lambda w, p, d: v4(w, p, d, checksum=0x1234),
    "sum-of-data": lambda w, p, d: v4(w, p, d[:2] + d[2:4] + d[4:] + b"", sums=False) if p not in (17,) else v4(w, p, d[:6] + b"\x12\x34" + d[8:], sums=False),
    "no-sum": lambda w, p, d: v4(w, p, d, sums=False),
    "version-5": lambda w, p, d: v4(w, p, d, first=0x55),
    "header-16": lambda w, p, d: v4(w, p, d, first=0x44),
    "header-60": lambda w, p, d: v4(w, p, d, first=0x4F),
    "length-19": lambda w, p, d: v4(w, p, d, length=19),
    "length-less": lambda w, p, d: v4(w, p, d, length=20 + len(d) - 1),
    "length-more": lambda w, p, d: v4(w, p, d, length=20 + len(d) + 9),
    "hops-0": lambda w, p, d: v4(w, p, d, hops=0),
    "hops-1": lambda w, p, d: v4(w, p, d, hops=1),
    "keep-whole": lambda w, p, d: v4(w, p, d, field=0x4000),
    "reserved-bit": lambda w, p, d: v4(w, p, d, field=0x8000),
    "fragment-first": lambda w, p, d: v4(w, p, d + bytes(-len(d) % 8), field=0x2000),
    "fragment-last": lambda w, p, d: v4(w, p, d, field=0x00B9),
    "fragment-odd": lambda w, p, d: v4(w, p, d + bytes(1 + -len(d) % 8), field=0x2000),
    "option-fill": lambda w, p, d: v4(w, p, d, options=b"\1\1\1\0"),
    "option-alert": lambda w, p, d: v4(w, p, d, options=b"\x94\4\0\0"),
    "option-unknown": lambda w, p, d: v4(w, p, d, options=b"\x99\4\0\0"),
    "option-beyond": lambda w, p, d: v4(w, p, d, options=b"\7\xc8\4\0"),
    "option-short": lambda w, p, d: v4(w, p, d, options=b"\1\1\1\x94"),
    "option-length-1": lambda w, p, d: v4(w, p, d, options=b"\x94\1\0\0"),
    "option-pointer": lambda w, p, d: v4(w, p, d, options=b"\7\7\3" + bytes(5)),
    "record-route": lambda w, p, d: v4(w, p, d, options=b"\7\7\4" + bytes(5)),
    "time-stamp": lambda w, p, d: v4(w, p, d, options=b"\x44\x08\5" + bytes(5)),
    "source-route": lambda w, p, d: v4(w, p, d, options=b"\x83\7\4" + within(w, 77) + b"\0"),
    "source-route-ended": lambda w, p, d: v4(w, p, d, options=b"\x83\7\x08" + within(w, 77) + b"\0"),
    "from-own": lambda w, p, d: v4(w, p, d, source=w.to[4]),
    "from-all": lambda w, p, d: v4(w, p, d, source=b"\xff" * 4),
    "from-group": lambda w, p, d: v4(w, p, d, source=b"\xe0\0\0\1"),
    "from-loopback": lambda w, p, d: v4(w, p, d, source=b"\x7f\0\0\1"),
    "from-nobody": lambda w, p, d: v4(w, p, d, source=bytes(4)),
    "from-network-all": lambda w, p, d: v4(w, p, d, source=within(w, 255)),
    "to-all": lambda w, p, d: v4(w, p, d, to=b"\xff" * 4),
    "to-network-all": lambda w, p, d: v4(w, p, d, to=within(w, 255)),
    "to-group": lambda w, p, d: v4(w, p, d, to=b"\xe0\0\0\1"),
    "to-other": lambda w, p, d: v4(w, p, d, to=within(w, 77)),
    "to-loopback": lambda w, p, d: v4(w, p, d, to=b"\x7f\0\0\1"),
    "mac-all": lambda w, p, d: (v4(w, p, d), BROADCAST),
    "mac-other": lambda w, p, d: (v4(w, p, d), STATION),
}

ALL_NODES = socket.inet_pton(socket.AF_INET6, "ff02::1")


def solicited(wire):
    return socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + wire.to[6][13:]


def options(kind):
    return bytes([0, kind, 4]) + bytes(4)


SHAPES_6 = {
    "plain": lambda w, p, d: v6(w, p, d),
    "longer-frame": lambda w, p, d: v6(w, p, d) + bytes(9),
    "no-sum": lambda w, p, d: v6(w, p, d, sums=False),
    "version-5": lambda w, p, d: v6(w, p, d, first=0x50),
    "length-less": lambda w, p, d: v6(w, p, d, length=max(len(d) - 1, 0)),
    "length-more": lambda w, p, d: v6(w, p, d, length=len(d) + 9),
    "hops-0": lambda w, p, d: v6(w, p, d, hops=0),
    "hops-1": lambda w, p, d: v6(w, p, d, hops=1),
    "hop-options": lambda w, p, d: v6(w, p, d, before=[(0, b"\0\1\4" + bytes(4))]),
    "hop-option-skip": lambda w, p, d: v6(w, p, d, before=[(0, options(0x1E))]),
    "hop-option-drop": lambda w, p, d: v6(w, p, d, before=[(0, options(0x5E))]),
    "hop-option-tell": lambda w, p, d: v6(w, p, d, before=[(0, options(0x9E))]),
    "hop-option-tell-one": lambda w, p, d: v6(w, p, d, before=[(0, options(0xDE))]),
    "destination-options": lambda w, p, d: v6(w, p, d, before=[(60, b"\0\1\4" + bytes(4))]),
    "destination-option-drop": lambda w, p, d: v6(w, p, d, before=[(60, options(0x5E))]),
    "destination-option-tell": lambda w, p, d: v6(w, p, d, before=[(60, options(0x9E))]),
    "destination-option-cut": lambda w, p, d: v6(w, p, d, before=[(60, b"\0\x1e\x20" + bytes(4))]),
    "hop-options-later": lambda w, p, d: v6(w, p, d, before=[(60, b"\0\1\4" + bytes(4)), (0, b"\0\1\4" + bytes(4))]),
    "routing-0-done": lambda w, p, d: v6(w, p, d, before=[(43, b"\0\0\0" + bytes(4))]),
    "routing-0": lambda w, p, d: v6(w, p, d, before=[(43, b"\2\0\1" + bytes(20))]),
    "routing-9": lambda w, p, d: v6(w, p, d, before=[(43, b"\0\x09\1" + bytes(4))]),
    "fragment-atomic": lambda w, p, d: v6(w, p, d, before=[(44, b"\0\0\0\0\0\0\7")]),
    "fragment-first": lambda w, p, d: v6(w, p, d + bytes(-len(d) % 8), before=[(44, b"\0\0\1\0\0\0\7")]),
    "fragment-last": lambda w, p, d: v6(w, p, d, before=[(44, b"\0\x05\xc8\0\0\0\x08")]),
    "fragment-odd": lambda w, p, d: v6(w, p, d + bytes(1 + -len(d) % 8), before=[(44, b"\0\0\1\0\0\0\x09")]),
    "fragment-beyond": lambda w, p, d: v6(w, p, d + bytes(-len(d) % 8), before=[(44, b"\0\xff\xf8\0\0\0\x0a")]),
    "from-own": lambda w, p, d: v6(w, p, d, source=w.to[6]),
    "from-group": lambda w, p, d: v6(w, p, d, source=ALL_NODES),
    "from-loopback": lambda w, p, d: v6(w, p, d, source=bytes(15) + b"\1"),
    "from-nobody": lambda w, p, d: v6(w, p, d, source=bytes(16)),
    "to-all": lambda w, p, d: v6(w, p, d, to=ALL_NODES),
    "to-solicited": lambda w, p, d: v6(w, p, d, to=solicited(w)),
    "to-other": lambda w, p, d: v6(w, p, d, to=w.to[6][:15] + b"\x77"),
    "to-loopback": lambda w, p, d: v6(w, p, d, to=bytes(15) + b"\1"),
    "mac-all": lambda w, p, d: (v6(w, p, d), BROADCAST),
    "mac-other": lambda w, p, d: (v6(w, p, d), STATION),
}


def ask(wire, family, shape, protocol, data):
    packet = shape(wire, protocol, data)
    packet, mac = packet if isinstance(packet, tuple) else (packet, None)
    wire.send(0x0800 if family == 4 else 0x86DD, packet, mac)
    return wire.answers(family)


def main():
    wires = [Wire(*sys.argv[1:5]), Wire(*sys.argv[5:9])]
    for wire in wires:
        for family in (4, 6):
            wire.answers(family)
    count = 0
    for family, protocols, shapes in ((4, PROTOCOLS_4, SHAPES_4), (6, PROTOCOLS_6, SHAPES_6)):
        for shape_name, shape in shapes.items():
            for name, (protocol, data) in protocols.items():
                ours, kernels = [ask(wire, family, shape, protocol, data) for wire in wires]
                count += 1
                if ours != kernels:
                    print("v%d %s %s: %s, not %s" % (family, shape_name, name, ours, kernels))
    print(count)


main()
