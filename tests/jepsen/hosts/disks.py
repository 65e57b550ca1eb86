"""A filesystem of its own for each node, on a loop file: it can lose its power and be full."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

# Both ext4 and XFS know it. Without flushing their log: what was not synced is gone.
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
SIZE_BYTES = 2 << 30  # sparse
CANARY = "nobody-synced-this"
WORDS = b"x" * 8192
FILLER = "filler"
FULL_BYTES = 4096  # what is left at most


def make_command(kind: str) -> list[str]:
    if kind == "ext4":
        # No blocks kept for root: full is full.
        return ["mkfs.ext4", "-q", "-m", "0"]
    return [f"mkfs.{kind}", "-q"]


class Disk:
    """Mounted at ``mount``. The mount lives in the runner's namespace and ends with it."""

    def __init__(self, image: Path, mount: Path, *, kind: str = "ext4") -> None:
        self.image = image
        self.mount = mount
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        subprocess.run([*make_command(kind), str(image)], check=True, capture_output=True)
        mount.mkdir(parents=True, exist_ok=True)
        self.attach()

    def attach(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.image, self.mount], check=True)

    def detach(self) -> None:
        subprocess.run(["umount", self.mount], check=True)

    def cut_power(self) -> None:
        """From now on nothing reaches the disk, and every call answers EIO."""
        (self.mount / CANARY).write_bytes(WORDS)
        root = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(root, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(root)

    def restore_power(self) -> bool:
        """Mount again what the disk had; nobody may have files open. Whether something was lost
        that had been written and not synced."""
        self.detach()
        self.attach()
        canary = self.mount / CANARY
        # Its name may have gone along with what another file synced in the same moment.
        lost = not canary.exists() or canary.read_bytes() != WORDS
        canary.unlink(missing_ok=True)
        return lost

    def fill(self) -> int:
        """Leave no room; returns the bytes that were free."""
        free = shutil.disk_usage(self.mount).free
        with (self.mount / FILLER).open("wb") as file:
            chunk = 16 << 20
            while chunk >= FULL_BYTES:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), chunk)
                except OSError:
                    chunk //= 2
        return free

    def free(self) -> None:
        (self.mount / FILLER).unlink(missing_ok=True)

    def remove(self) -> None:
        self.detach()
        self.image.unlink()
