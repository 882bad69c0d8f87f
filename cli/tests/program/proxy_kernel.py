"""A peer by hand, at a wire of its own, that sends some bytes twice: all of them come back once.

Arguments: the port, whether the kernel passes on the bytes there (it has pieces that nobody can be sure of broken off), and what is done:

* all: bytes that come twice in many ways, before an echo.
* overlapping: pieces before an echo, each of which begins with bytes that came before, behind short ones that make a pair.
* half: such a first piece before an upstream that has ended its half. It is the process itself, at the port behind the words.
"""

import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

PORT = int(sys.argv[1])
IS_IN_KERNEL = sys.argv[2] == "in-kernel"
DOES = sys.argv[3]
FIN, SYN, RESET, PUSH, ACK = 1, 2, 4, 8, 16
PATIENCE = 60
# After so many seconds without an answer bytes go again.
AGAIN = 1
OURS, THEIRS = socket.inet_aton("10.8.0.2"), socket.inet_aton("10.8.0.1")
STREAM = random.Random(35).randbytes(400_000)


def sum_of(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def wire():
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"ta", 0x1001))  # TUNSETIFF: IFF_TUN, IFF_NO_PI
    subprocess.check_call("ip addr add 10.8.0.1/24 dev ta && ip link set ta up", shell=True)
    return tun


class Connection:
    """One, whose numbers soon begin anew at 0. Bytes have their places in the stream."""

    def __init__(self, tun, port):
        self.tun, self.port = tun, port
        self.first, self.ack = 2**32 - 3_000, 0
        self.sent, self.got = 0, b""
        # What was sent since all had come back, and how far theirs say that they have it.
        self.recent, self.taken = [], 0
        self.has_ended = self.is_reset = False
        self.packet(self.first - 1, SYN)
        self.wait(lambda: self.ack)

    def packet(self, place, flags, data=b""):
        place, ack = place % 2**32, self.ack % 2**32
        tcp = struct.pack("!HHIIBBHHH", self.port, PORT, place, ack, 5 << 4, flags, 65_000, 0, 0) + data
        pseudo = OURS + THEIRS + struct.pack("!HH", 6, len(tcp))
        tcp = tcp[:16] + struct.pack("!H", sum_of(pseudo + tcp)) + tcp[18:]
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + OURS + THEIRS
        os.write(self.tun, head[:10] + struct.pack("!H", sum_of(head)) + head[12:] + tcp)

    def send(self, start, end, flags=0):
        """These bytes, counted from what all have been sent up to."""
        self.recent.append((self.sent + start, self.sent + end, flags))
        self.put(*self.recent[-1])

    def put(self, start, end, flags):
        self.packet(self.first + start, ACK | PUSH | flags, STREAM[start:end])

    def again(self):
        """What a busy machine has dropped goes again as it was."""
        if not self.ack:
            self.packet(self.first - 1, SYN)
        for one in self.recent:
            if one[1] > self.taken:
                self.put(*one)

    def wait(self, has_come):
        end = time.monotonic() + PATIENCE
        again = time.monotonic() + AGAIN
        while not has_come():
            now = time.monotonic()
            assert now < end, (len(self.got), self.taken, self.sent)
            if now >= again:
                self.again()
                again = now + AGAIN
            if select.select([self.tun], [], [], again - now)[0]:
                self.take(os.read(self.tun, 70_000))

    def take(self, packet):
        if packet[0] != 0x45 or packet[9] != 6 or packet[22:24] != struct.pack("!H", self.port):
            return
        place, flags, data = *struct.unpack("!I", packet[24:28]), packet[33], packet[20 + (packet[32] >> 4) * 4 :]
        if flags & RESET:
            self.is_reset = True
        elif flags & SYN:
            self.ack = place + 1
            self.packet(self.first, ACK)
        elif self.ack:
            taken = (struct.unpack("!I", packet[28:32])[0] - self.first) % 2**32
            self.taken = max(self.taken, taken if taken < 2**31 else 0)
            if data or flags & FIN:
                self.take_data(place, flags, data)

    def take_data(self, place, flags, data):
        """So many of them have come before, where theirs have missed that. Of those behind a hole none is taken."""
        before = (self.ack - place) % 2**32
        if before <= len(data) and not self.has_ended:
            self.got += data[before:]
            self.has_ended = bool(flags & FIN)
            self.ack += len(data) - before + self.has_ended
        self.packet(self.first + self.sent, ACK)

    def come_back(self, bytes):
        """All up to there has been sent: it comes back."""
        self.sent += bytes
        self.wait(lambda: len(self.got) >= self.sent or self.is_reset)
        assert not self.is_reset and self.got == STREAM[: self.sent], (self.is_reset, len(self.got), self.sent)
        self.recent = []


def messages(connection):
    """So many that it is bridged."""
    for _ in range(40):
        connection.send(0, 50)
        connection.come_back(50)


def twice(connection):
    # The second begins amid the first.
    connection.send(0, 1_000)
    connection.send(500, 1_500)
    connection.come_back(1_500)
    # Those behind a hole, and what fills it.
    connection.send(1_000, 2_000)
    connection.send(1_500, 2_500)
    connection.send(0, 1_300)
    connection.come_back(2_500)
    for overlap in (4_094, 4_095, 4_096, 19_000):
        connection.send(0, 19_000)
        connection.send(19_000 - overlap, 25_000)
        connection.come_back(25_000)


def ends(connection, start, end):
    """The last piece has the end, and begins with bytes that came before."""
    connection.send(0, 1_000)
    connection.send(start, end, FIN)
    connection.come_back(end)
    connection.sent += 1
    connection.wait(lambda: connection.has_ended or connection.is_reset)
    assert connection.has_ended and not connection.is_reset
    assert connection.got == STREAM[: connection.sent - 1]


def always(connection):
    """The first piece that the kernel has to pass on is one of them."""
    connection.send(0, 50)
    connection.come_back(50)
    for _ in range(40):
        connection.send(-10, 50)
        connection.sent += 50
        connection.wait(lambda: len(connection.got) >= connection.sent or connection.is_reset)
        assert connection.got == STREAM[: len(connection.got)]
        if connection.is_reset:
            break
    assert connection.is_reset == IS_IN_KERNEL


def overlapping(connection):
    for _ in range(40):
        connection.send(-400, 1_000)
        connection.come_back(1_000)
    connection.send(-1, 10, FIN)
    connection.come_back(10)


def half(tun, listener):
    connection = Connection(tun, 5_004)
    upstream, _ = listener.accept()
    upstream.settimeout(PATIENCE)
    upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.send(0, 50)
    assert upstream.recv(50, socket.MSG_WAITALL) == STREAM[:50]
    connection.sent += 50
    # The first piece of the other direction comes behind what makes a pair of them.
    for count in range(1, 41):
        upstream.send(b"x" * 50)
        connection.wait(lambda: len(connection.got) == 50 * count)
    upstream.shutdown(socket.SHUT_WR)
    connection.wait(lambda: connection.has_ended)
    connection.send(-10, 50)
    connection.sent += 50
    if not IS_IN_KERNEL:
        assert upstream.recv(50, socket.MSG_WAITALL) == STREAM[50:100]
        return
    connection.wait(lambda: connection.is_reset)
    try:
        raise AssertionError("the upstream is told %r" % upstream.recv(1))
    except ConnectionResetError:
        pass


def main():
    tun = wire()
    if DOES == "overlapping":
        connection = Connection(tun, 5_001)
        messages(connection)
        return overlapping(connection)
    if DOES == "half":
        with socket.create_server(("127.0.0.1", int(sys.argv[4]))) as listener:
            return half(tun, listener)
    for port, last in ((5_001, (500, 1_500)), (5_002, (500, 1_000))):
        connection = Connection(tun, port)
        messages(connection)
        twice(connection)
        ends(connection, *last)
    always(Connection(tun, 5_003))


main()
