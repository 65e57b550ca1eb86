"""DIR of `raftflow cert`: the certificate authority of one cluster, and the pairs that it made.

`ca.crt` is what nodes and clients trust: the authority that signs now, and behind it those that
signed before, until they are dropped. `ca.key` signs, and belongs on no node. A subject has
NAME.crt and NAME.key.
"""

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from raftflow.cluster import certificates
from raftflow.cluster.certificates import BadCertificate, Pair, Subject
from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError
from raftflow.cluster.config import ID_PATTERN
from raftflow.cluster.durable import sync_directory

TRUSTED = "ca.crt"
SIGNING_KEY = "ca.key"
_SECRET = 0o600
_PUBLIC = 0o644


@dataclass(frozen=True, slots=True)
class Authority:
    directory: Path

    def create(self, cluster_id: str, *, days: int) -> None:
        _check_name("cluster id", cluster_id)
        if self.signing_key.exists() or self.trusted.exists():
            raise CommandError(
                f"{self.directory} holds an authority already; `raftflow cert rotate "
                f"{self.directory}` makes its successor",
                status=EXIT_USAGE,
            )
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{self.directory}: {error.strerror}", status=EXIT_USAGE) from None
        self._sign_with(certificates.new_authority(cluster_id, days=days), trusted=b"")

    @property
    def trusted(self) -> Path:
        return self._path(TRUSTED)

    @property
    def signing_key(self) -> Path:
        return self._path(SIGNING_KEY)

    @property
    def cluster_id(self) -> str:
        return certificates.cluster_of(self.bundle()[0])

    def bundle(self) -> Sequence[x509.Certificate]:
        return certificates_of(self.trusted)

    def has(self, name: str) -> bool:
        return self.certificate(name).exists()

    def certificate(self, name: str) -> Path:
        return self._path(f"{name}.crt")

    def key(self, name: str) -> Path:
        return self._path(f"{name}.key")

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (), client: bool = False, days: int
    ) -> None:
        """Write a new pair, over one that there is."""
        _check_name("name", name)
        if name == "ca":
            raise CommandError("the name ca is the authority's own", status=EXIT_USAGE)
        signing = Pair(_read(self.trusted), _read(self.signing_key))
        with _naming(self.signing_key):
            if not certificates.is_pair(self.bundle()[0], certificates.read_key(signing.key)):
                raise BadCertificate(f"it is not the key of {self.trusted}")
        with _naming(self.directory):
            made = certificates.issue(signing, Subject(name, hosts, client=client), days=days)
        _write(self.key(name), made.key, _SECRET)
        _write(self.certificate(name), made.certificate, _PUBLIC)

    def renew(self, name: str, *, days: int) -> None:
        """Another pair, for the same names."""
        before = certificates.subject_of(certificates_of(self.certificate(name))[0])
        self.issue(name, hosts=before.hosts, client=before.client, days=days)

    def succeed(self, *, days: int, cluster_id: str = "") -> None:
        """A new authority signs from now on, if told so for another cluster; the one before it is
        still trusted."""
        if cluster_id:
            _check_name("cluster id", cluster_id)
        made = certificates.new_authority(cluster_id or self.cluster_id, days=days)
        self._sign_with(made, trusted=_read(self.trusted))

    def drop_old(self) -> list[str]:
        """Trust the authority that signs now, and no other. Who would be left out is named."""
        signer = self.bundle()[0]
        left_out = [
            path.stem
            for path in self.pairs()
            if certificates.issuer_of(certificates_of(path)[0], [signer]) is None
        ]
        if not left_out:
            _write(self.trusted, certificates.pem(signer), _PUBLIC)
        return left_out

    def pairs(self) -> list[Path]:
        return sorted(each for each in self.directory.glob("*.crt") if each.name != TRUSTED)

    def _sign_with(self, made: Pair, *, trusted: bytes) -> None:
        _write(self.signing_key, made.key, _SECRET)
        _write(self.trusted, made.certificate + trusted, _PUBLIC)

    def _path(self, name: str) -> Path:
        return self.directory / name


def certificates_of(path: Path) -> Sequence[x509.Certificate]:
    content = _read(path)
    with _naming(path):
        return certificates.read(content)


def listed(path: Path) -> Iterator[dict[str, Any]]:
    """What the certificates of a file say, or of all files of a directory."""
    now = dt.datetime.now(dt.UTC)
    for file in [path / TRUSTED, *Authority(path).pairs()] if path.is_dir() else [path]:
        for each in certificates_of(file):
            subject, named = certificates.subject_of(each), certificates.uris(each)
            yield {
                "file": str(file),
                "for": named[0] if named else subject.name,
                "hosts": list(subject.hosts),
                "signed_by": each.issuer.rfc4514_string(),
                "serial": f"{each.serial_number:x}",
                "ends": each.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "days_left": (each.not_valid_after_utc - now).days,
            }


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What is wrong with a file is said with its name."""
    try:
        yield
    except BadCertificate as error:
        raise CommandError(f"{path}: {error}", status=EXIT_USAGE) from None


def _check_name(what: str, value: str) -> None:
    if not ID_PATTERN.fullmatch(value):
        raise CommandError(
            f"{what} {value!r}: use 1 to 64 letters, digits, '.', '_' or '-', a letter or digit "
            "first",
            status=EXIT_USAGE,
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", status=EXIT_USAGE) from None


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, and never readable for others than it should be."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(str(path.parent))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
