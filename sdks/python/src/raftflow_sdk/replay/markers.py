"""Decisions that the history remembers: versions of the code, results of side effects."""

from collections.abc import Callable, Mapping
from typing import Any

from raftflow_sdk import payloads
from raftflow_sdk.errors import NondeterminismError
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.core import Replay

DEFAULT_VERSION = -1
"""What `ctx.version` answers to a run that passed the place before the change was made."""

SUGGESTED = "continue_as_new_suggested"
_ATTRIBUTES = "search_attributes"


class Markers:
    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._versions: dict[str, int] = {}
        self._suggested = False

    def version(self, change_id: str, minimum: int, maximum: int) -> int:
        self._replay.check_running()
        version = self._versions.get(change_id)
        if version is None:
            version = self._versions[change_id] = self._recorded_version(change_id, maximum)
        if minimum <= version <= maximum:
            return version
        return self._replay.stop(
            NondeterminismError(
                f"the run has version {version} of change {change_id!r}, "
                f"the code supports {minimum} to {maximum}"
            )
        )

    def _recorded_version(self, change_id: str, maximum: int) -> int:
        data = self._replay.marker("version", change_id)
        if data is not None:
            return int(data)
        if self._replay.next_recorded() is not None:
            return DEFAULT_VERSION  # the history went on without asking
        self._replay.record_marker("version", change_id, lambda: str(maximum))
        return maximum

    def side_effect(self, name: str, function: Callable[[], object], decode: Decode) -> Any:
        self._replay.check_running()
        if name in (SUGGESTED, _ATTRIBUTES):
            raise ValueError(f"the name {name!r} is taken by a marker of this SDK")
        data = self._replay.marker("side_effect", name)
        if data is None:
            data = self._replay.record_marker("side_effect", name, function)
        return payloads.decode(data, decode)

    def continue_as_new_suggested(self) -> bool:
        """The limit is a setting of the cluster and may change, so its passing is recorded."""
        self._replay.check_running()
        if self._suggested:
            return True
        limit = int(self._replay.task.get("suggest_continue_as_new_at") or 0)
        position = self._replay.clock.position
        recorded = self._replay.next_recorded()
        if recorded is not None:
            passed = payloads.get(recorded, "output") == str(position).encode()
            if passed and self._replay.marker("side_effect", SUGGESTED) is not None:
                self._suggested = True
        elif limit and position >= limit:
            self._replay.record_marker("side_effect", SUGGESTED, lambda: str(position))
            self._suggested = True
        return self._suggested

    def upsert_search_attributes(self, attributes: Mapping[str, object]) -> None:
        """The command has no place in the history by itself; a marker says that it was sent."""
        self._replay.check_running()
        if self._replay.marker("side_effect", _ATTRIBUTES) is not None:
            return
        changed = dict(attributes)
        self._replay.record_marker("side_effect", _ATTRIBUTES, lambda: changed)
        self._replay.commands.append({"type": "upsert_search_attributes", "attributes": changed})
