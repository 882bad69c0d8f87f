"""Each line of standard input is what a client sends, in hexadecimal digits; each line of the output is what a server on h11 answers."""
import json
import sys

import h11


def answer(connection, status, fields=()):
    head = connection.send(h11.Response(status_code=status, headers=[*fields, ("Content-Length", "0")]))
    return head + connection.send(h11.EndOfMessage())


def serve(sent):
    connection, output, length = h11.Connection(h11.SERVER), b"", 0
    connection.receive_data(sent)
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            can_answer = connection.our_state in (h11.IDLE, h11.SEND_RESPONSE)
            return output + (answer(connection, error.error_status_hint) if can_answer else b"HTTP/1.1 400 \r\n")
        if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return output
        if isinstance(event, h11.Request) and event.method == b"CONNECT":
            return output + b"HTTP/1.1 200 \r\nX-Length: 0\r\n"
        if isinstance(event, h11.Data):
            length += len(event.data)
        elif isinstance(event, h11.EndOfMessage):
            output += answer(connection, 200, [("X-Length", str(length))])
            if connection.our_state is not h11.DONE:
                return output
            length = 0
            connection.start_next_cycle()


print(f"h11 {h11.__version__}")
for line in sys.stdin.read().splitlines():
    print(json.dumps(serve(bytes.fromhex(line)).decode("latin1")))
