"""How `https` addresses are trusted: files that are read again when they change, so that a worker
outlives the certificates that it was started with."""

import os
import ssl
import threading
from dataclasses import dataclass

File = str | os.PathLike[str]
_Stamps = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: authorities to trust instead of the system's, and a certificate to show."""

    ca_file: File | None = None
    cert_file: File | None = None
    key_file: File | None = None

    def __post_init__(self) -> None:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file goes with cert_file")

    def load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def stamps(self) -> _Stamps:
        named = (each for each in (self.ca_file, self.cert_file, self.key_file) if each)
        found = (os.stat(each) for each in named)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


class Trust:
    """The context of the next connection; threads may share it."""

    def __init__(self, context: ssl.SSLContext | None, files: TlsFiles) -> None:
        if context is not None and files != TlsFiles():
            raise ValueError("give ssl_context or files, not both")
        ca_file = files.ca_file or os.environ.get("RAFTFLOW_CA_FILE") or None
        self._files = TlsFiles(ca_file, files.cert_file, files.key_file)
        self._fixed = context
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._stamps: _Stamps = ()

    def context(self) -> ssl.SSLContext:
        """Files that cannot be used replace nothing; the first ones must be right (OSError)."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            try:
                stamps = self._files.stamps()
                if self._context is None or stamps != self._stamps:
                    self._context = self._files.load()
                    self._stamps = stamps
            except OSError:
                if self._context is None:
                    raise
            return self._context
