"""The same as asgi.py, for servers that speak WSGI."""

import json
import os

SEEN = open(os.environ["SEEN"], "a", buffering=1)


def application(environ, start):
    content = environ["wsgi.input"].read()
    fields = [[name[5:].replace("_", "-"), value] for name, value in environ.items() if name.startswith("HTTP_")]
    length = environ.get("CONTENT_LENGTH")
    if length:
        fields.append(["CONTENT-LENGTH", length])
    # Such a server may hand over half of a content whose client has left.
    if not length or len(content) == int(length):
        said = {
            "method": environ["REQUEST_METHOD"],
            "target": environ["RAW_URI"],
            "fields": fields,
            "content": content.decode("latin1"),
        }
        SEEN.write(json.dumps(said) + "\n")
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]
