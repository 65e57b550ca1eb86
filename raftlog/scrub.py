"""Read a segment again, slowly: are the bytes on disk still those that were written?"""

from __future__ import annotations

from collections.abc import Iterator

from raftflow.raftlog import frame, segment
from raftflow.raftlog.disk import Disk
from raftflow.raftlog.errors import JournalDamaged, naming
from raftflow.raftlog.frame import FRAME_BYTES, FrameFault
from raftflow.raftlog.segment import HEADER_BYTES

CHUNK_BYTES = 256 << 10


def steps(disk: Disk, directory: str, segment_id: int, *, active: bool) -> Iterator[int]:
    """Yields the bytes that each step has read. Raises JournalDamaged.

    `active`: it may be written to meanwhile, and counts up to its newest mark only.
    """
    path = segment.segment_path(directory, segment_id)
    with naming(path, 0, "reading the segment"):
        fd = disk.open(path)
        try:
            head = disk.pread(fd, HEADER_BYTES, 0)
            header = segment.decode_header(path, segment_id, head)
            synced, _ = segment.marks(header.seed, head)
            end = synced if active else max(synced, disk.size(fd))
            yield HEADER_BYTES
            yield from _frames(disk, fd, path, end, header.seed, header.prev_index)
        finally:
            disk.close(fd)


def _frames(disk: Disk, fd: int, path: str, end: int, seed: int, index: int) -> Iterator[int]:
    offset, data = HEADER_BYTES, b""
    while offset < end:
        wanted = CHUNK_BYTES
        while True:
            data = disk.pread(fd, min(wanted, end - offset), offset)
            length = int.from_bytes(data[:4], "little") + 8
            if length <= len(data) or len(data) < wanted:
                break
            wanted = length  # an entry that is larger than a step
        done = 0
        while done < len(data):
            try:
                item = frame.decode(data, done, seed)
            except FrameFault as fault:
                if done and len(data) == wanted:
                    break  # it goes on in the next step, or is damaged there
                raise JournalDamaged(path, offset + done, str(fault)) from fault
            index += 1
            if item.index != index:
                raise JournalDamaged(path, offset + done, f"entry {item.index} is not {index}")
            done = item.end
        if len(data) < FRAME_BYTES:
            raise JournalDamaged(path, offset, f"the file ends here but was on disk up to {end}")
        offset += done
        yield done
