"""An application that writes down each whole request that its server shows it: method, target, fields, content."""

import json
import os

SEEN = open(os.environ["SEEN"], "a", buffering=1)


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        content += message["body"]
        more = message["more_body"]
    query = scope["query_string"]
    said = {
        "method": scope["method"],
        "target": (scope["raw_path"] + (b"?" + query if query else b"")).decode("latin1"),
        "fields": [[name.decode("latin1"), value.decode("latin1")] for name, value in scope["headers"]],
        "content": content.decode("latin1"),
    }
    SEEN.write(json.dumps(said) + "\n")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
