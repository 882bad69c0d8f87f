"""Calls through the RPC client of pyvisa-py.

client.py HOST TCP_PORT UDP_PORT: every kind of call. client.py HOST: one call over each, at the ports that rpcbind tells.
"""

import os
import sys

from pyvisa_py.protocols import rpc

NFS, ECHO = (100003, 3), (0x20000007, 1)


own = rpc.RawTCPClient.do_call


def patient(self):
    self.timeout = 60  # its own five seconds are short on a busy machine
    own(self)


# The client that asks rpcbind is of this class, too.
rpc.RawTCPClient.do_call = patient


def user():
    packer = rpc.Packer()
    packer.pack_auth_unix(7, b"here", 1000, 1000, list(range(16)))
    return packer.get_buf()


def client(kind, host, port, program, is_user=False):
    number, version = program
    made = kind(host, number, version, port)
    made.packer, made.unpacker = rpc.Packer(), rpc.Unpacker(b"")
    if is_user:
        made.cred = (rpc.AuthorizationFlavor.unix, user())
    return made


def echo(made, size):
    data = os.urandom(size)
    back = made.make_call(1, data, made.packer.pack_opaque, made.unpacker.unpack_opaque)
    assert bytes(back) == data, (size, len(back))


def refused(made, procedure, expected, error=rpc.RPCUnpackError):
    try:
        made.make_call(procedure, None, None, None)
    except error as why:
        assert expected in str(why), why
    else:
        raise AssertionError("not refused: " + expected)


def calls(kind, host, port, sizes):
    for is_user in (False, True):
        nfs = client(kind, host, port, NFS, is_user)
        for _ in range(20):
            nfs.call_0()
        refused(nfs, 99, "procedure_unavailable")
        nfs.call_0()
        nfs.close()
        echoes = client(kind, host, port, ECHO, is_user)
        for size in sizes:
            echo(echoes, size)
        refused(echoes, 1, "", rpc.RPCGarbageArgs)
        echo(echoes, 5)
        echoes.close()
    refused(client(kind, host, port, (100003, 9)), 0, "program_mismatch: (3, 4)")
    refused(client(kind, host, port, (100099, 1)), 0, "program_unavailable")


host = sys.argv[1]
if len(sys.argv) > 2:
    calls(rpc.RawTCPClient, host, int(sys.argv[2]), [0, 1, 2, 3, 4, 5, 1000, 65536, 1000000])
    calls(rpc.RawUDPClient, host, int(sys.argv[3]), [0, 1, 3, 1400, 8000])
else:
    for kind in rpc.TCPClient, rpc.UDPClient:
        found = kind(host, *NFS)
        found.packer, found.unpacker = rpc.Packer(), rpc.Unpacker(b"")
        found.call_0()
print("all as expected")
