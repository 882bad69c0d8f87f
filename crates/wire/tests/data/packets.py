"""Packets as Scapy reads and writes them, for tests/wire/packet/scapy.rs.

packets.py read < LINES        a line of hexadecimal digits a frame; prints what it says, and the frame with lengths and checksums as Scapy has them
packets.py write SEED COUNT    prints random frames and what they say
"""

import random
import sys
import warnings

warnings.simplefilter("ignore")
from scapy.config import conf

conf.verb = 0
from scapy.layers.inet import ICMP, IP, TCP, UDP, ICMPerror, IPerror, IPOption
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA,
                                ICMPv6ND_Redirect, ICMPv6ND_RS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo,
                                ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6,
                                IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, HBHOptUnknown, PadN)
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import NoPayload, Raw
from scapy.pton_ntop import inet_pton
import socket

# By the destination's port alone (RFC 7348): Scapy also takes what comes from that port, and what goes to others, for VXLAN.
UDP.payload_guess = [(fields, layer) for fields, layer in UDP.payload_guess if fields == {"dport": 4789}]


def address(text):
    return inet_pton(socket.AF_INET6, text).hex()


def eth(p):
    return f"eth:{p.dst},{p.src},{p.type}"


def vlan(p):
    return f"vlan:{p.prio},{p.dei},{p.vlan},{p.type}"


def arp(p):
    return f"arp:{p.op},{p.hwsrc},{p.psrc},{p.hwdst},{p.pdst}"


def ip4(p):
    options = [bytes(o) for o in p.options]
    told = ";".join(f"{o[0]}={o[2:].hex()}" for o in options if o[0] > 1)
    return f"ip4:{p.tos},{p.id},{int(p.flags)},{p.frag},{p.ttl},{p.proto},{p.src},{p.dst},{told}"


def ip6(p):
    return f"ip6:{p.tc},{p.fl},{p.nh},{p.hlim},{address(p.src)},{address(p.dst)}"


def extension(name):
    def tell(p):
        options = [bytes(o) for o in p.options]
        return f"{name}:{p.nh}," + ";".join(f"{o[0]}={o[2:].hex()}" for o in options if o[0] > 1)

    return tell


def frag(p):
    return f"frag:{p.nh},{p.offset},{p.m},{p.id}"


def udp(p):
    return f"udp:{p.sport},{p.dport}"


def tcp_option(name, value):
    if name == "MSS":
        return f"mss={value}"
    if name == "WScale":
        return f"ws={value}"
    if name == "SAckOK":
        return "sok"
    if name == "SAck":
        return "sack=" + "+".join(f"{value[i]}-{value[i + 1]}" for i in range(0, len(value), 2))
    if name == "Timestamp":
        return f"ts={value[0]}-{value[1]}"
    return f"{name}={value}"


def tcp(p):
    told = ";".join(tcp_option(*o) for o in p.options if o[0] not in ("NOP", "EOL"))
    return f"tcp:{p.sport},{p.dport},{p.seq},{p.ack},{int(p.flags)},{p.window},{p.urgptr},{told}"


def icmp(p):
    rest = ""
    if p.type in (0, 8):
        rest = f"{p.id},{p.seq}"
    elif p.type == 3 and p.code == 4:
        rest = f"{p.nexthopmtu}"
    elif p.type == 5:
        rest = p.gw
    elif p.type == 12:
        rest = f"{p.ptr}"
    return f"icmp:{p.type},{p.code},{rest}"


def neighbour_options(p):
    told = []
    while not isinstance(p, NoPayload):
        if isinstance(p, (ICMPv6NDOptSrcLLAddr, ICMPv6NDOptDstLLAddr)):
            told.append(f"{'src' if p.type == 1 else 'tgt'}={p.lladdr}")
        elif isinstance(p, ICMPv6NDOptMTU):
            told.append(f"mtu={p.mtu}")
        elif isinstance(p, ICMPv6NDOptPrefixInfo):
            told.append(f"prefix={p.prefixlen}+{p.L << 1 | p.A}+{p.validlifetime}+{p.preferredlifetime}+{address(p.prefix)}")
        else:
            told.append(repr(p))
        p = p.payload
    return ";".join(told)


def icmp6(p):
    rest = ""
    if isinstance(p, (ICMPv6EchoRequest, ICMPv6EchoReply)):
        rest = f"{p.id},{p.seq}"
    elif isinstance(p, ICMPv6PacketTooBig):
        rest = f"{p.mtu}"
    elif isinstance(p, ICMPv6ParamProblem):
        rest = f"{p.ptr}"
    elif isinstance(p, ICMPv6ND_RS):
        rest = "," + neighbour_options(p.payload)
    elif isinstance(p, ICMPv6ND_RA):
        fields = f"{p.chlim},{p.M << 1 | p.O},{p.routerlifetime},{p.reachabletime},{p.retranstimer}"
        rest = f"{fields}," + neighbour_options(p.payload)
    elif isinstance(p, ICMPv6ND_NS):
        rest = f"{address(p.tgt)}," + neighbour_options(p.payload)
    elif isinstance(p, ICMPv6ND_NA):
        rest = f"{p.R << 2 | p.S << 1 | p.O},{address(p.tgt)}," + neighbour_options(p.payload)
    elif isinstance(p, ICMPv6ND_Redirect):
        rest = f"{address(p.tgt)},{address(p.dst)}," + neighbour_options(p.payload)
    return f"icmp6:{p.type},{p.code},{rest}"


def gre(p):
    key = p.key if p.key_present else "-"
    sequence = p.seqence_number if p.seqnum_present else "-"
    return f"gre:{p.chksum_present},{key},{sequence},{p.proto}"


def vxlan(p):
    return f"vxlan:{p.vni}"


ERRORS6 = (ICMPv6DestUnreach, ICMPv6PacketTooBig, ICMPv6TimeExceeded, ICMPv6ParamProblem, ICMPv6EchoRequest, ICMPv6EchoReply)
NEIGHBOUR = (ICMPv6ND_RS, ICMPv6ND_RA, ICMPv6ND_NS, ICMPv6ND_NA, ICMPv6ND_Redirect)
TELLERS = [(Dot1AD, vlan), (Dot1Q, vlan), (Ether, eth), (ARP, arp), (IP, ip4), (IPv6, ip6), (IPv6ExtHdrHopByHop, extension("hop")),
           (IPv6ExtHdrDestOpt, extension("dst")), (IPv6ExtHdrFragment, frag), (UDP, udp), (TCP, tcp), (ICMP, icmp),
           (ERRORS6 + NEIGHBOUR, icmp6), (GRE, gre), (VXLAN, vxlan)]


def data_behind(p):
    """The bytes behind the last layer that is told, or None where the layer ends the packet."""
    if isinstance(p, (ARP,) + NEIGHBOUR):
        return b"" if isinstance(p, NEIGHBOUR) else None
    if isinstance(p, ICMP) or isinstance(p, ERRORS6):
        return p.original[8:]
    if isinstance(p, UDP):
        return p.original[8:p.len]
    if isinstance(p, TCP):
        return p.original[4 * p.dataofs:]
    return p.payload.original if not isinstance(p.payload, NoPayload) else b""


def ends(p):
    if isinstance(p, (ARP, ICMP, TCP) + ERRORS6 + NEIGHBOUR):
        return True
    if isinstance(p, IP):
        return p.frag != 0 or p.flags.MF
    if isinstance(p, IPv6ExtHdrFragment):
        return p.offset != 0 or p.m == 1
    return isinstance(p, UDP) and not isinstance(p.payload, VXLAN)


def tell(p):
    layers = []
    while True:
        teller = next((teller for kind, teller in TELLERS if isinstance(p, kind) and not isinstance(p, (IPerror, ICMPerror))), None)
        if teller is None:
            break
        layers.append(teller(p))
        last = p
        if ends(p):
            break
        p = p.payload
    data = data_behind(last)
    if data is not None:
        layers.append("data:" + data.hex())
    return "|".join(layers)


def rebuilt(frame):
    """The frame with every length and checksum computed anew."""
    p = frame
    while not isinstance(p, NoPayload):
        for name in ("chksum", "cksum", "plen", "len"):
            if name in p.fields and isinstance(p, (IP, IPv6, UDP, TCP, ICMP, GRE) + ERRORS6 + NEIGHBOUR) and p.fields[name] is not None:
                if not (isinstance(p, ICMPv6ND_RA) and name == "len"):
                    p.delfieldval(name)
        if ends(p):
            break
        p = p.payload
    return bytes(frame)


def bytes_of(r, most):
    return bytes(r.randrange(256) for _ in range(r.randrange(most + 1)))


def mac(r):
    return ":".join(f"{r.randrange(256):02x}" for _ in range(6))


def v4_address(r):
    return ".".join(str(r.randrange(256)) for _ in range(4))


def v6_address(r):
    return ":".join(f"{r.randrange(65536):x}" for _ in range(8))


def make_tcp(r):
    blocks = tuple(r.randrange(1 << 32) for _ in range(2))
    choices = [("MSS", r.randrange(65536)), ("WScale", r.randrange(15)), ("SAckOK", b""), ("SAck", blocks),
               ("Timestamp", (r.randrange(1 << 32), r.randrange(1 << 32))), ("NOP", None)]
    options = [choice for choice in choices if r.random() < 0.4]
    return TCP(sport=r.randrange(65536), dport=r.randrange(65536), seq=r.randrange(1 << 32), ack=r.randrange(1 << 32),
               flags=r.randrange(512), window=r.randrange(65536), urgptr=r.randrange(65536), options=options) / Raw(bytes_of(r, 64))


def make_icmp(r):
    data = Raw(bytes_of(r, 40))
    return r.choice([
        lambda: ICMP(type=r.choice([0, 8]), code=0, id=r.randrange(65536), seq=r.randrange(65536)),
        lambda: ICMP(type=3, code=r.choice([0, 1, 2, 3, 13])),
        lambda: ICMP(type=3, code=4, nexthopmtu=r.randrange(65536)),
        lambda: ICMP(type=5, code=r.randrange(4), gw=v4_address(r)),
        lambda: ICMP(type=11, code=r.randrange(2)),
        lambda: ICMP(type=12, code=r.randrange(3), ptr=r.randrange(256)),
    ])() / data


def make_neighbour(r):
    p = r.choice([
        lambda: ICMPv6ND_RS(),
        lambda: ICMPv6ND_RA(chlim=r.randrange(256), M=r.randrange(2), O=r.randrange(2), H=0, prf=0, P=0,
                            routerlifetime=r.randrange(65536), reachabletime=r.randrange(1 << 32), retranstimer=r.randrange(1 << 32)),
        lambda: ICMPv6ND_NS(tgt=v6_address(r)),
        lambda: ICMPv6ND_NA(tgt=v6_address(r), R=r.randrange(2), S=r.randrange(2), O=r.randrange(2)),
        lambda: ICMPv6ND_Redirect(tgt=v6_address(r), dst=v6_address(r)),
    ])()
    if r.random() < 0.5:
        p = p / ICMPv6NDOptSrcLLAddr(lladdr=mac(r))
    if r.random() < 0.5:
        p = p / ICMPv6NDOptMTU(mtu=r.randrange(1 << 32))
    if r.random() < 0.5:
        p = p / ICMPv6NDOptPrefixInfo(prefixlen=r.randrange(129), L=r.randrange(2), A=r.randrange(2), R=0, validlifetime=r.randrange(1 << 32),
                                      preferredlifetime=r.randrange(1 << 32), prefix=v6_address(r))
    return p


def make_icmp6(r):
    data = Raw(bytes_of(r, 40))
    return r.choice([
        lambda: ICMPv6EchoRequest(id=r.randrange(65536), seq=r.randrange(65536), data=bytes_of(r, 40)),
        lambda: ICMPv6EchoReply(id=r.randrange(65536), seq=r.randrange(65536), data=bytes_of(r, 40)),
        lambda: ICMPv6DestUnreach(code=r.randrange(7)) / data,
        lambda: ICMPv6PacketTooBig(mtu=r.randrange(1 << 32)) / data,
        lambda: ICMPv6TimeExceeded(code=r.randrange(2)) / data,
        lambda: ICMPv6ParamProblem(code=r.randrange(3), ptr=r.randrange(1 << 32)) / data,
        lambda: make_neighbour(r),
        lambda: make_neighbour(r),
    ])()


def make_carried(r, is_v6, depth):
    kind = r.randrange(9 if depth < 2 else 5)
    if kind < 2:
        return UDP(sport=r.randrange(65536), dport=r.randrange(4096)) / Raw(bytes_of(r, 64))
    if kind == 2:
        return make_tcp(r)
    if kind == 3:
        return make_icmp6(r) if is_v6 else make_icmp(r)
    if kind == 4:
        return Raw(bytes_of(r, 64))
    if kind == 5:
        return make_v4(r, depth + 1)
    if kind == 6:
        return make_v6(r, depth + 1)
    if kind == 7:
        head = GRE(chksum_present=r.randrange(2), key_present=r.randrange(2), seqnum_present=r.randrange(2), key=r.randrange(1 << 32),
                   seqence_number=r.randrange(1 << 32))
        return head / r.choice([make_v4, make_v6, make_inner])(r, depth + 1)
    return UDP(sport=r.randrange(65536), dport=4789) / VXLAN(flags=8, vni=r.randrange(1 << 24)) / make_inner(r, depth + 1)


def make_v4(r, depth):
    options = [IPOption(bytes([r.choice([0x1e, 0x5e, 0x9e]), 2 + len(data)]) + data) for data in [bytes_of(r, 8)] if r.random() < 0.3]
    head = IP(tos=r.randrange(256), id=r.randrange(65536), flags=r.choice([0, 2]), ttl=r.randrange(256), src=v4_address(r), dst=v4_address(r),
              options=options)
    if r.random() < 0.12:
        head.flags, head.frag, head.proto = 1, r.randrange(8000), 17
        return head / Raw(bytes(r.randrange(256) for _ in range(8 * r.randrange(1, 8))))
    p = make_carried(r, False, depth)
    if isinstance(p, Raw):
        head.proto = 253
    return head / p


def make_v6(r, depth):
    p = IPv6(tc=r.randrange(256), fl=r.randrange(1 << 20), hlim=r.randrange(256), src=v6_address(r), dst=v6_address(r))
    chain = []
    if r.random() < 0.3:
        chain.append(IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x1e, optdata=bytes_of(r, 12))]))
    if r.random() < 0.3:
        chain.append(IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1e, optdata=bytes_of(r, 12))]))
    behind = make_carried(r, True, depth)
    if r.random() < 0.12:
        chain.append(IPv6ExtHdrFragment(nh=17, offset=r.randrange(8000), m=1, id=r.randrange(1 << 32)))
        behind = Raw(bytes_of(r, 64))
    elif isinstance(behind, Raw):
        (chain[-1] if chain else p).nh = 253
    for header in chain:
        p = p / header
    return p / behind


def make_arp(r):
    return ARP(op=r.choice([1, 2]), hwsrc=mac(r), psrc=v4_address(r), hwdst=mac(r), pdst=v4_address(r))


def make_inner(r, depth):
    return Ether(dst=mac(r), src=mac(r)) / r.choice([make_v4, make_v6])(r, depth)


def make_frame(r):
    p = Ether(dst=mac(r), src=mac(r))
    for _ in range(r.randrange(4)):
        p = p / r.choice([Dot1Q, Dot1AD])(prio=r.randrange(8), dei=r.randrange(2), vlan=r.randrange(4096))
    return p / (make_arp(r) if r.randrange(12) == 0 else r.choice([make_v4, make_v6])(r, 0))


def main():
    if sys.argv[1] == "read":
        frames = [bytes.fromhex(line) for line in sys.stdin.read().split()]
        lines = [f"{tell(Ether(frame))}\t{rebuilt(Ether(frame)).hex()}" for frame in frames]
    else:
        r = random.Random(int(sys.argv[2]))
        frames = [bytes(make_frame(r)) for _ in range(int(sys.argv[3]))]
        lines = [f"{frame.hex()}\t{tell(Ether(frame))}" for frame in frames]
    sys.stdout.write("".join(line + "\n" for line in lines))


main()
