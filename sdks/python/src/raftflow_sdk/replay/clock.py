"""Time and chance as a run sees them: the same at every replay.

A run stands at the event whose result its code was given last. Its clock is the time of that
event; random numbers and ids grow from the run's id.
"""

import hashlib
import random
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from raftflow_sdk.errors import ReplayError


class Clock:
    """Where a run stands in its history. Forward only."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self._run_id = str(task["run_id"])
        self._moment = str(task.get("started_at") or "")
        self._random: random.Random | None = None
        self._uuids = 0
        self.position = 0

    def reach(self, event_id: int, moment: str) -> None:
        """The code is told what event `event_id` brought."""
        if event_id > self.position:
            self.position = event_id
            self._moment = moment or self._moment

    def now(self) -> datetime:
        if not self._moment:
            raise ReplayError("the task does not say when its run was started")
        return datetime.fromisoformat(self._moment)

    def random(self) -> random.Random:
        if self._random is None:
            # A string is hashed with SHA-512, whatever the process's own hash seed.
            self._random = random.Random(self._run_id)
        return self._random

    def uuid(self) -> str:
        self._uuids += 1
        seed = f"{self._run_id}/{self._uuids}".encode()
        digest = hashlib.blake2b(seed, digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))
