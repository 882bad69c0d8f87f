"""A server behind: says what it was asked, takes uploads, changes its protocol to an echo of capitals."""

import hashlib
import http.server
import json
import socketserver


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def date_time_string(self, timestamp=None):
        return "Thu, 01 Jan 1970 00:00:00 GMT"

    def log_message(self, *_):
        pass

    def content(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        all = []
        while size := int(self.rfile.readline(), 16):
            all.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(all)

    def answer(self):
        if self.headers.get("Upgrade") == "capitals":
            self.send_response(101)
            self.send_header("Upgrade", "capitals")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            while said := self.rfile.read1(65536):
                self.wfile.write(said.upper())
            self.close_connection = True
            return
        content = self.content()
        said = {
            "method": self.command,
            "path": self.path,
            "fields": [[name.lower(), value] for name, value in self.headers.items()],
            "sha256": hashlib.sha256(content).hexdigest(),
            "port": self.client_address[1],
        }
        body = json.dumps(said).encode()
        self.send_response(200)
        if self.path.startswith("/chunks"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 7):
                piece = body[at : at + 7]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
