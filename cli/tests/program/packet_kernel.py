"""Sends the same packets to Corelane's stack and to the kernel's, and prints what only one of them answers.

Arguments: the near end of each wire, its link-layer address and its own addresses of both families. A datagram that the service behind each
stack sends back follows each packet, so all answers to that have come when it has. What keeps a link going is sent as whole frames, each with a stranger of its own.
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

    def asks(self, frame):
        """Whether the stack asks for a neighbour; if it is the asker, it is told."""
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\x01":
            if frame[38:42] == self.from_[4]:
                reply = bytes.fromhex("0001080006040002") + self.own + self.from_[4] + frame[22:32]
                self.send(0x0806, reply)
            return True
        if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 135:
            if frame[62:78] == self.from_[6]:
                answer = b"\x88\0\0\0\x60\0\0\0" + self.from_[6] + b"\x02\x01" + self.own
                self.send(0x86DD, v6(self, 58, answer, hops=255, to=frame[22:38]))
            return True
        return False

    def frames(self):
        """What the stack sends, but for its questions."""
        while True:
            frame = self.socket.recv(2000)
            if frame[6:12] != self.mac:
                continue
            if self.asks(frame):
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


    def heard(self, frames, stranger, patience):
        """What is said to frames of the link, each once: for so many seconds, or until it is said, and until the service has answered."""
        for frame in frames:
            self.socket.send(frame)
        self.marks += 1
        mark, found, end = b"mark %d." % self.marks, [], time.monotonic() + patience
        is_marked = False
        while True:
            if not is_marked and (found or time.monotonic() >= end):
                self.send(0x0800, v4(self, 17, udp(60007, mark)))
                is_marked = True
                self.socket.settimeout(10)
            if not is_marked:
                self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                frame = self.socket.recv(2000)
            except TimeoutError:
                if is_marked:
                    raise
                continue
            if frame[6:12] != self.mac:
                continue
            self.asks(frame)
            told = said_of(self, frame, stranger)
            if told and told.startswith("udp") and mark in frame:
                return " ".join(found) or "nothing"
            if told and told not in found:
                found.append(told)


def hears(wire, frames, stranger, patience):
    """What is said to them. Of those that are not to be answered: each time, for an answer to an earlier one may come late."""
    said = wire.heard(frames, stranger, patience)
    for _ in range(3 if patience == NEVER else 0):
        if said != "nothing":
            said = wire.heard(frames, stranger, patience)
    return said


def said_of(wire, frame, stranger):
    """What a frame says on the link, in a word; nothing if it asks for another than this stranger."""
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\x01":
        if frame[28:32] == frame[38:42]:
            return "announces"
        return "asks" if frame[38:42] == within(wire, stranger) else None
    if frame[12:14] == b"\x86\xdd" and frame[20] == 0 and frame[54] == 58:
        return "reports" if frame[62] == 143 else None
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58:
        if frame[54] == 135:
            return "asks" if frame[62:78] == within_6(wire, stranger) else None
        if frame[54] == 136:
            return "advertises-to-all" if frame[0] & 1 else "advertises"
    return told_of(frame)


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


def v4(wire, protocol, data, to=None, source=None, first=None, options=b"", length=None, field=0, hops=64, checksum=None, sums=True, name=7):
    to, source = to or wire.to[4], source or wire.from_[4]
    if sums:
        data = checked(wire, 4, protocol, data, to, source)
    first = first if first is not None else 0x45 + len(options) // 4
    length = length if length is not None else 20 + len(options) + len(data)
    head = struct.pack("!BBHHHBBH", first, 0, length, name, field, hops, protocol, 0) + source + to + options
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


def within_6(wire, last):
    return wire.to[6][:15] + bytes([last])


def station(stranger):
    return bytes.fromhex("0200000001") + bytes([stranger])


ETHERNET = b"\0\1\x08\0\6\4"
ROUTER = socket.inet_pton(socket.AF_INET6, "fe80::1")


def arp(wire, operation, sender, target, mac=None, to=BROADCAST, kinds=ETHERNET):
    mac = mac or wire.own
    return to + mac + b"\x08\x06" + kinds + bytes([0, operation]) + mac + sender + bytes(6) + target


def of_link(wire, packet, mac=None):
    """A packet of IPv6 in its frame."""
    group = b"\x33\x33" + packet[36:40]
    return (group if packet[24] == 0xFF else wire.mac) + (mac or wire.own) + b"\x86\xdd" + packet


def neighbour(wire, kind, target=None, option=b"", to=None, source=None, hops=255, code=0, flags=0, before=(), mac=None):
    """A message of neighbour discovery: of the stack's address, to its group, unless it is said otherwise."""
    data = bytes([kind, code, 0, 0, flags, 0, 0, 0]) + (target or wire.to[6]) + option
    return of_link(wire, v6(wire, 58, data, to=to or solicited(wire), source=source, hops=hops, before=before), mac)


def link(kind, mac):
    """The option with a link-layer address."""
    return bytes([kind, 1]) + mac


def query(wire, hops=1, alert=True, source=ROUTER):
    """A query for listeners, to be answered within 10 ms."""
    data = bytes([130, 0, 0, 0, 0, 10]) + bytes(22)
    before = [(0, b"\0\5\2\0\0\1\0")] if alert else []
    return of_link(wire, v6(wire, 58, data, to=ALL_NODES, source=source, hops=hops, before=before))


def tagged(frame, control):
    return frame[:12] + b"\x81\0" + control.to_bytes(2, "big") + frame[12:]


def asking(wire, packet, mac=None, kind=b"\x08\0"):
    return wire.mac + (mac or wire.own) + kind + packet


def two_fragments(wire, family):
    data = checked(wire, family, 17, udp(60007, bytes(40)))
    if family == 4:
        return [
            asking(wire, v4(wire, 17, data[:24], field=0x2000, sums=False, name=77)),
            asking(wire, v4(wire, 17, data[24:], field=3, sums=False, name=77)),
        ]
    parts = [(data[:24], b"\0\0\1\0\0\1\0"), (data[24:], b"\0\0\x18\0\0\1\0")]
    return [of_link(wire, v6(wire, 17, part, before=[(44, head)], sums=False)) for part, head in parts]


NOW, LATER, NEVER = 0, 5, 0.1
# What keeps a link going, and how long an answer is waited for. `s` is a stranger of its own, of whom neither stack has heard.
LINKS = {
    "arp-question": (NOW, lambda w, s: [arp(w, 1, w.from_[4], w.to[4])]),
    "arp-question-to-us": (NOW, lambda w, s: [arp(w, 1, w.from_[4], w.to[4], to=w.mac)]),
    "arp-question-of-stranger": (NOW, lambda w, s: [arp(w, 1, within(w, s), w.to[4], station(s))]),
    "arp-question-from-beyond": (NOW, lambda w, s: [arp(w, 1, b"\xc0\0\2\x09", w.to[4], station(s))]),
    "arp-question-for-other": (NOW, lambda w, s: [arp(w, 1, w.from_[4], within(w, 77))]),
    "arp-probe": (NOW, lambda w, s: [arp(w, 1, bytes(4), w.to[4], station(s))]),
    "arp-announcement": (NOW, lambda w, s: [arp(w, 1, within(w, s), within(w, s), station(s))]),
    "arp-reply-unasked": (NOW, lambda w, s: [arp(w, 2, within(w, s), w.to[4], station(s), w.mac)]),
    "arp-claim": (NOW, lambda w, s: [arp(w, 1, w.to[4], w.to[4], station(s))]),
    "arp-operation-9": (NOW, lambda w, s: [arp(w, 9, w.from_[4], w.to[4])]),
    "arp-protocol-6": (NOW, lambda w, s: [arp(w, 1, w.from_[4], w.to[4], kinds=b"\0\1\x86\xdd\6\4")]),
    "arp-cut": (NOW, lambda w, s: [arp(w, 1, w.from_[4], w.to[4])[:36]]),
    "arp-priority": (NOW, lambda w, s: [tagged(arp(w, 1, w.from_[4], w.to[4]), 0xE000)]),
    "arp-vlan-5": (NOW, lambda w, s: [tagged(arp(w, 1, w.from_[4], w.to[4]), 5)]),
    "datagram-of-stranger": (NOW, lambda w, s: [asking(w, v4(w, 17, udp(60007), source=within(w, s)), station(s))]),
    "datagram-of-stranger-6": (NOW, lambda w, s: [of_link(w, v6(w, 17, udp(60007), source=within_6(w, s)), station(s))]),
    "datagram-priority": (NOW, lambda w, s: [tagged(asking(w, v4(w, 17, udp(60007))), 0xE000)]),
    "datagram-priority-6": (NOW, lambda w, s: [tagged(of_link(w, v6(w, 17, udp(60007))), 0)]),
    "datagram-vlan-5": (NOW, lambda w, s: [tagged(asking(w, v4(w, 17, udp(60007))), 5)]),
    "two-fragments": (NOW, lambda w, s: two_fragments(w, 4)),
    "two-fragments-turned": (NOW, lambda w, s: two_fragments(w, 4)[::-1]),
    "two-fragments-6": (NOW, lambda w, s: two_fragments(w, 6)),
    "too-big-unsent": (NOW, lambda w, s: [of_link(w, v6(w, 58, b"\2\0\0\0\0\0\5\0" + v6(w, 17, udp(9), to=within_6(w, s), source=w.to[6])))]),
    "solicitation": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own))]),
    "solicitation-to-us": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own), to=w.to[6])]),
    "solicitation-to-all": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own), to=ALL_NODES)]),
    "solicitation-bare": (NOW, lambda w, s: [neighbour(w, 135, to=w.to[6])]),
    "solicitation-bare-to-group": (NOW, lambda w, s: [neighbour(w, 135)]),
    "solicitation-bare-of-stranger": (NOW, lambda w, s: [neighbour(w, 135, to=w.to[6], source=within_6(w, s), mac=station(s))]),
    "solicitation-of-stranger": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, station(s)), source=within_6(w, s), mac=station(s))]),
    "solicitation-of-free": (NOW, lambda w, s: [neighbour(w, 135, source=bytes(16))]),
    "solicitation-of-free-to-us": (NOW, lambda w, s: [neighbour(w, 135, source=bytes(16), to=w.to[6])]),
    "solicitation-of-free-with-link": (NOW, lambda w, s: [neighbour(w, 135, source=bytes(16), option=link(1, station(s)))]),
    "solicitation-hops-64": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own), hops=64)]),
    "solicitation-code-1": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own), code=1)]),
    "solicitation-option-0": (NOW, lambda w, s: [neighbour(w, 135, option=b"\1\0" + bytes(6))]),
    "solicitation-option-200": (NOW, lambda w, s: [neighbour(w, 135, option=link(200, bytes(6)) + link(1, w.own))]),
    "solicitation-for-other": (NOW, lambda w, s: [neighbour(w, 135, target=within_6(w, 77), option=link(1, w.own))]),
    "solicitation-for-group": (NOW, lambda w, s: [neighbour(w, 135, target=ALL_NODES, option=link(1, w.own))]),
    "solicitation-fragment-atomic": (NOW, lambda w, s: [neighbour(w, 135, option=link(1, w.own), before=[(44, b"\0\0\0\0\0\2\0")])]),
    "solicitation-priority": (NOW, lambda w, s: [tagged(neighbour(w, 135, option=link(1, w.own)), 0xE000)]),
    "advertisement-unasked": (NOW, lambda w, s: [neighbour(w, 136, within_6(w, s), link(2, station(s)), ALL_NODES, within_6(w, s), flags=0x20)]),
    "advertisement-claim": (NOW, lambda w, s: [neighbour(w, 136, option=link(2, station(s)), to=ALL_NODES, source=within_6(w, s), flags=0x20)]),
    "query": (LATER, lambda w, s: [query(w)]),
    "query-hops-64": (NEVER, lambda w, s: [query(w, hops=64)]),
    "query-without-alert": (NEVER, lambda w, s: [query(w, alert=False)]),
    "query-from-beyond": (NEVER, lambda w, s: [query(w, source=w.from_[6])]),
}
STRANGERS = 100


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
    said = []
    for stranger, (name, (patience, frames)) in enumerate(LINKS.items(), STRANGERS):
        ours, kernels = [hears(wire, frames(wire, stranger), stranger, patience) for wire in wires]
        said.append(ours)
        if ours != kernels:
            print("link %s -: %s, not %s" % (name, ours, kernels))
    # A frame that nobody answers because it is wrong in another way shows nothing.
    assert len(said) - said.count("nothing") > 20, said
    print(count + len(said))


main()
