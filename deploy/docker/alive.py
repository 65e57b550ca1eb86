"""Whether the node in this container answers: for health checks, which restart what is not healthy.

Any answer will do. A node that repairs itself says 503, and must not be restarted for it; one whose
event loop stands still says nothing.
"""

import http.client
import os
import ssl
import sys

TIMEOUT_S = 4.0


def main() -> int:
    address = os.environ.get("RAFTFLOW_HTTP_ADDR", "127.0.0.1:8233")
    host, _, port = address.rpartition(":")
    if host in ("", "0.0.0.0", "[::]"):
        host = "localhost"
    connection: http.client.HTTPConnection
    if os.environ.get("RAFTFLOW_TLS_CERT_FILE"):
        # It asks whether somebody answers, not who.
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            host, int(port), timeout=TIMEOUT_S, context=trusting
        )
    else:
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/api/health")
        connection.getresponse()
    except ssl.SSLError:
        return 0  # It wants a certificate of its callers, and said so.
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
