"""A worker behind a load balancer, which returns the request and its own id."""

import http.server
import os
import signal


def note(*_):
    with open("/runpod-volume/terms", "a") as file:
        file.write(os.environ["RUNPOD_POD_ID"] + "\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{os.environ['RUNPOD_POD_ID']} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


signal.signal(signal.SIGTERM, note)
http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
