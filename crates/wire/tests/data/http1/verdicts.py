"""Fills in what other servers answer to the rows of ../http1-heads.tsv: run it beside that file, with node, go, and h11 for this Python.

A verdict is what each request of a connection comes to: the status, and for 200 the bytes of its content; `more` where a server waits.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent / "http1-heads.tsv"
SERVERS = [["node", "node.js"], ["go", "run", "server.go"], [sys.executable, "h11_server.py"]]


def unescaped(text):
    text = re.sub(r"\{(.*?)\*(\d+)\}", lambda found: found[1] * int(found[2]), text)
    return text.encode("latin1").decode("unicode_escape").encode("latin1")


def verdict(output):
    answers = re.findall(r"HTTP/1\.[01] (\d\d\d)(.*?)(?=HTTP/1\.[01] \d\d\d|\Z)", output, re.DOTALL)
    length = lambda fields: re.search(r"x-length: *(\d+)", fields, re.IGNORECASE)
    one = lambda status, fields: f"{status}:{length(fields)[1]}" if length(fields) else status
    return " ".join(one(*answer) for answer in answers if answer[0] != "100") or "more"


def verdicts(server, rows):
    sent = "".join(unescaped(row[2]).hex() + "\n" for row in rows)
    lines = subprocess.run(server, cwd=HERE, input=sent, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(rows) + 1, server
    return lines[0], [verdict(json.loads(line)) for line in lines[1:]]


lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
rows = [line.split("\t") for line in lines[1:]]
columns = [verdicts(server, rows) for server in SERVERS]
servers = "; ".join(name for name, _ in columns)
print("# What a client sends, and what each request comes to (see http1/verdicts.py): here, and at", servers + ".")
print("# Escapes are Python's; {a*3} is aaa. With ! the connection closes. Where a verdict differs, the last column says why.")
print("section\twhat\tsent\there\tnode\tgo\th11\twhy")
for row, *theirs in zip(rows, *(verdicts for _, verdicts in columns)):
    print("\t".join([*row[:4], *theirs, *row[7:8]]))
