"""The switches of a node's clock and fsync: what `shim.c` obeys inside the process."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

FILES, DIRECTORIES = 1, 2
FIELDS = (
    *("clock_offset_ns", "failures", "kinds", "slow_us", "lies"),
    *("failed", "slowed", "clock_reads"),
)


def compiler() -> str | None:
    return shutil.which("cc")


def build(directory: Path) -> Path:
    """Compile the shim into ``directory``."""
    library = directory / "shim.so"
    source = Path(__file__).with_name("shim.c")
    compiler = ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, "-o", str(library), str(source), "-ldl"], check=True)
    return library


class Control:
    """The page of memory that a node's processes share with us, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def get(self, field: str) -> int:
        return int(struct.unpack_from("<q", self._memory, FIELDS.index(field) * 8)[0])

    def set(self, field: str, value: int) -> None:
        struct.pack_into("<q", self._memory, FIELDS.index(field) * 8, value)

    def fail_fsync(self, *, times: int, kinds: int = FILES | DIRECTORIES) -> None:
        """The next ``times`` fail with EIO; -1: all of them."""
        self.set("kinds", kinds)
        self.set("failures", times)
