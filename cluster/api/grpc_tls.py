"""TLS for gRPC, which brings its own: it asks for the certificates at each handshake."""

from __future__ import annotations

import threading

import grpc

from raftflow.cluster.tls import Credentials, Loaded


def grpc_credentials(tls: Credentials) -> grpc.ServerCredentials:
    """What the node has now, and whatever it has when the next caller comes."""
    first = tls.loaded
    told = first
    lock = threading.Lock()  # handshakes are in threads of gRPC's own

    def newer() -> grpc.ServerCertificateConfiguration | None:
        nonlocal told
        with lock:
            loaded = tls.loaded
            if loaded is told:
                return None
            told = loaded
        return _configuration(loaded)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(first),
        newer,  # type: ignore[arg-type]  # the stub does not know that None is "as before"
        tls.asks_for_certificates,
    )


def _configuration(loaded: Loaded) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(loaded.key, loaded.certificate)], root_certificates=loaded.authorities or None
    )
