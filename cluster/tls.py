"""The certificates that a node shows and trusts: read from files, and read again when they change.

A pair that is not right replaces nothing: the node keeps what it has and says why. Connections
that exist stay as they are; what is new counts from the next handshake on.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import structlog

from raftflow.cluster import certificates
from raftflow.cluster.background import in_thread
from raftflow.cluster.certificates import BadCertificate
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.certified import peer_name
from raftflow.cluster.errors import StartRefused

log = structlog.get_logger("raftflow.tls")

_POLL_S = 5.0
_WARN_BEFORE = dt.timedelta(days=14)
_WARN_EVERY_S = 24 * 3600.0
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED


class Use(StrEnum):
    """Which ports a pair is for; a label of the metric."""

    API = "api"
    PEER = "peer"


# The authority that signed this node's own certificate for its peers.
PEER_CA = "peer_ca"


@dataclass(frozen=True, slots=True)
class Files:
    """Where a certificate (with its chain), its key and the authorities to trust are."""

    certificate: str
    key: str
    authorities: str = ""

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """Another value once a file has been written or replaced."""
        named = (name for name in (self.certificate, self.key, self.authorities) if name)
        found = (os.stat(name) for name in named)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the files said at one moment."""

    certificate: bytes
    key: bytes
    authorities: bytes
    accepting: ssl.SSLContext
    dialling: ssl.SSLContext | None
    ends: Mapping[str, dt.datetime]  # by the label of the metric


class Credentials:
    """The pair of one use. `peer` is what the certificate must name, for the Raft port; `optional`,
    that its peers may speak in the clear for the time being."""

    def __init__(self, use: Use, files: Files, *, peer: str = "", optional: bool = False) -> None:
        self.use = use
        self.optional = optional
        self.files = files
        self._peer = peer
        self._complaint = ""
        self._stamps: tuple[tuple[int, int, int], ...] = ()
        try:
            self._stamps = files.stamps()
            self._loaded = self._load(expired_too=True)
        except (OSError, BadCertificate) as error:
            raise StartRefused(
                f"the {use.value} certificate cannot be used: {_said(error)}. "
                f"Correct {files.certificate} and what belongs to it, or the settings."
            ) from None

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def asks_for_certificates(self) -> bool:
        return bool(self.files.authorities)

    def accepting(self) -> ssl.SSLContext:
        return self._loaded.accepting

    def dialling(self) -> ssl.SSLContext:
        assert self._loaded.dialling is not None, "only peers are dialled"
        return self._loaded.dialling

    def refresh(self) -> None:
        """Take what the files say now, if that is another pair and a right one."""
        try:
            stamps = self.files.stamps()
            if stamps == self._stamps:
                return
            loaded = self._load()
            if self.files.stamps() != stamps:
                return  # somebody is writing them: the next look comes soon
        except (OSError, BadCertificate) as error:
            self._keep(_said(error))
            return
        self._stamps, self._loaded, self._complaint = stamps, loaded, ""
        log.info(
            "certificate_loaded",
            use=self.use.value,
            file=self.files.certificate,
            ends={label: _moment(end) for label, end in loaded.ends.items()},
        )

    def _keep(self, problem: str) -> None:
        if problem != self._complaint:
            self._complaint = problem
            log.error(
                "certificate_kept",
                use=self.use.value,
                file=self.files.certificate,
                reason=problem,
            )

    def _load(self, *, expired_too: bool = False) -> Loaded:
        """`expired_too`: a node whose certificate is over starts, so that a new one cures it."""
        files = self.files
        certificate, key = _content(files.certificate), _content(files.key)
        authorities = _content(files.authorities) if files.authorities else b""
        chain = certificates.read(certificate)
        ends = {self.use.value: certificates.ends(chain)}
        accepting = _context(ssl.PROTOCOL_TLS_SERVER, files)
        dialling = None
        if self.use is Use.PEER:
            accepting.minimum_version = ssl.TLSVersion.TLSv1_3
            # No tickets: every connection shows its certificate.
            accepting.num_tickets = 0
            dialling = _context(ssl.PROTOCOL_TLS_CLIENT, files)
            dialling.minimum_version = ssl.TLSVersion.TLSv1_3
            named = certificates.uris(chain[0])
            if self._peer not in named:
                raise BadCertificate(
                    f"{files.certificate} must name {self._peer}, but names "
                    f"{', '.join(named) or 'no node'}"
                )
            signer = certificates.issuer_of(chain[-1], certificates.read(authorities))
            if signer is not None:
                ends[PEER_CA] = certificates.ends([signer])
            _try(accepting, dialling, expired_too=expired_too)
        else:
            accepting.set_alpn_protocols(["http/1.1"])
            if certificates.ends(chain) < _now() and not expired_too:
                raise BadCertificate(f"{files.certificate} is over")
        return Loaded(certificate, key, authorities, accepting, dialling, ends)


class CertificateWatch:
    """Looks after all pairs of a node: takes new ones, and tells in time when one ends."""

    def __init__(self, pairs: Sequence[Credentials]) -> None:
        self.pairs = tuple(pairs)
        self._hurried = asyncio.Event()
        self._warned: dict[tuple[str, dt.datetime], float] = {}

    def hurry(self) -> None:
        """Look now (SIGHUP)."""
        self._hurried.set()

    async def run(self) -> None:
        while True:
            for pair in self.pairs:
                await in_thread(pair.refresh)
            self._warn()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._hurried.wait()
            self._hurried.clear()

    def seconds_left(self) -> dict[str, float]:
        """By use, until the first certificate of it is over; negative afterwards."""
        now = _now()
        return {
            label: (end - now).total_seconds()
            for pair in self.pairs
            for label, end in pair.loaded.ends.items()
        }

    def _warn(self) -> None:
        now, clock = _now(), time.monotonic()
        for pair in self.pairs:
            for label, end in pair.loaded.ends.items():
                told = self._warned.get((label, end))
                if end - now > _WARN_BEFORE or (told and clock - told < _WARN_EVERY_S):
                    continue
                self._warned[(label, end)] = clock
                file, ends = pair.files.certificate, _moment(end)
                if end <= now:
                    log.error("certificate_expired", use=label, file=file, ends=ends)
                else:
                    log.warning("certificate_expires_soon", use=label, file=file, ends=ends)


def api_credentials(config: Config) -> Credentials | None:
    """For what the node serves; None where that is in the clear."""
    if not config.tls_cert_file:
        return None
    return Credentials(
        Use.API, Files(config.tls_cert_file, config.tls_key_file, config.tls_client_ca_file)
    )


def peer_credentials(config: Config) -> Credentials | None:
    """For the Raft port; its certificate must name this node of this cluster."""
    if not config.peer_cert_file:
        return None
    return Credentials(
        Use.PEER,
        Files(config.peer_cert_file, config.peer_key_file, config.peer_ca_file),
        peer=peer_name(config.cluster_id, config.node_id),
        optional=config.peer_tls == "optional",
    )


def tell_clear_ports(config: Config) -> None:
    """What can be read on the way to or from this machine should be known to be so."""
    apis = {"http": config.http_addr, "grpc": config.grpc_addr, "metrics": config.metrics_addr}
    clear = {} if config.tls_cert_file else dict(apis)
    if not config.peer_cert_file or config.peer_tls == "optional":
        clear["raft"] = config.raft_addr
    open_ports = {name: str(at) for name, at in clear.items() if not at.is_loopback}
    if open_ports:
        log.warning("ports_without_tls", **open_ports, see="docs/security.md")


def _context(protocol: int, files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    try:
        context.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as error:
        raise BadCertificate(
            f"{files.key} is not the key of {files.certificate} ({error.reason})"
        ) from None
    if files.authorities:
        try:
            context.load_verify_locations(files.authorities)
        except ssl.SSLError:
            raise BadCertificate(f"{files.authorities} holds no certificate in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _try(accepting: ssl.SSLContext, dialling: ssl.SSLContext, *, expired_too: bool) -> None:
    """Shake hands with oneself: what peers with the same authorities would refuse fails here."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        dialling.wrap_bio(back, there),
        accepting.wrap_bio(there, back, server_side=True),
    ]
    while sides:
        side = sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            sides.append(side)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code == _EXPIRED and expired_too:
                return
            raise BadCertificate(f"peers would not trust it: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise BadCertificate(f"TLS with it fails: {error.reason}") from None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _moment(time: dt.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
