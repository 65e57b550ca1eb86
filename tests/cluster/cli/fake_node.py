"""Stands in for `raftflow serve` where only the supervisor is under test: a process that answers
/api/health. FAKE_NODE says how it behaves: `mute` knows no leader, `broken` ends at once."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        leader = "" if os.environ.get("FAKE_NODE") == "mute" else "n1"
        content = json.dumps({"status": "ok", "leader": leader}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    if os.environ.get("FAKE_NODE") == "broken":
        sys.exit("cannot start")
    print(" ".join(sys.argv[1:]), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: (print("stopped", flush=True), os._exit(0)))
    host, _, port = sys.argv[sys.argv.index("--http-addr") + 1].rpartition(":")
    HTTPServer((host, int(port)), Health).serve_forever()
