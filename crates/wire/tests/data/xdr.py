"""Writes the values named on standard input in XDR, a line of hexadecimal digits for each."""
import sys
import xdrlib


def write(packer, kind, text):
    numbers = [int(number) for number in text.split(",") if number] if kind in ("array", "list") else []
    if kind in ("fixed", "opaque", "string"):
        data = bytes.fromhex(text)
        packer.pack_fopaque(len(data), data) if kind == "fixed" else getattr(packer, "pack_" + kind)(data)
    elif kind in ("array", "list"):
        getattr(packer, "pack_" + kind)(numbers, packer.pack_uint)
    else:
        getattr(packer, "pack_" + kind)(int(text))


for line in sys.stdin.read().splitlines():
    packer = xdrlib.Packer()
    write(packer, *line.split(" "))
    print(packer.get_buffer().hex())
