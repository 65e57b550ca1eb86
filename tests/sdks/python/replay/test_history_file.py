"""Exported histories: the file that a node writes and the JSON that it shows say the same."""

import itertools
import json
import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from any_value import sample

from raftflow.cluster.api.views import history_event
from raftflow.cluster.codec.events import encode_event
from raftflow.cluster.store.records import frame
from raftflow.engine.events import Event, EventBody, WorkflowStarted
from raftflow_sdk.replay.history_file import HistoryError, read_history


def events() -> list[Event]:
    bodies = [kind for kind in get_args(EventBody) if kind is not WorkflowStarted]
    kinds = [WorkflowStarted, *bodies]
    return [Event(n, 1_700_000_000_000 + n, _sample(kind)) for n, kind in enumerate(kinds, 1)]


def _sample(kind: Any) -> Any:
    """Every field has a value; what is JSON in it must be JSON."""
    body = sample(kind)
    json_fields = {"search_attributes": (("n", "1"),), "attributes": (("n", "1"),), "memo": "{}"}
    known = {field.name for field in fields(kind)}
    return replace(body, **{name: v for name, v in json_fields.items() if name in known})


def binary() -> bytes:
    return b"".join(frame(encode_event(event)) for event in events())


def test_a_binary_history_says_what_the_json_says(tmp_path: Path) -> None:
    file = tmp_path / "w.history"
    file.write_bytes(binary())
    shown = [history_event(event) for event in events()]
    read = read_history(file).events
    assert len(read) == len(shown)
    for event, view in zip(read, shown, strict=True):
        assert event.items() <= view.items(), event["type"]
        assert len(event) > 3 or event["type"] in ("WorkflowTimedOut", "SearchAttributesUpserted")


def test_a_torn_tail_is_cut_and_damage_is_named(tmp_path: Path) -> None:
    file, whole = tmp_path / "w.history", binary()
    ends = list(itertools.accumulate(len(frame(encode_event(event))) for event in events()))
    for length in random.Random(1).sample(range(ends[0], len(whole)), 20):
        file.write_bytes(whole[:length])
        read = read_history(file)
        kept = sum(end <= length for end in ends)
        assert len(read.events) == kept
        torn = f"a torn record at offset {ends[kept - 1]} was left out, after {kept} events"
        assert read.torn == ("" if length in ends else torn)
    file.write_bytes(whole[: ends[0] - 1])
    with pytest.raises(HistoryError, match="no events: a torn record at offset 0"):
        read_history(file)
    file.write_bytes(whole[:9] + bytes([whole[9] ^ 1]) + whole[10:])
    with pytest.raises(HistoryError, match=r"w\.history: the record at offset 0 has a wrong"):
        read_history(file)


def test_what_is_no_event_is_told(tmp_path: Path) -> None:
    file = tmp_path / "w.history"
    file.write_bytes(frame(b"\x7a\x02\x08\x01"))  # field 15 is a body; this SDK knows no 199
    assert read_history(file).events[0]["type"] == "WorkflowCancelled"
    file.write_bytes(frame(b"\xba\x0c\x00"))
    with pytest.raises(HistoryError, match="body 199 is unknown to this SDK"):
        read_history(file)
    file.write_bytes(frame(b"\x08"))
    with pytest.raises(HistoryError, match="offset 0 is no event"):
        read_history(file)


@pytest.mark.parametrize("as_list", [True, False])
def test_json_is_read_as_the_api_and_the_cli_give_it(tmp_path: Path, as_list: bool) -> None:
    shown: list[dict[str, Any]] = [{"event_id": 1, "type": "WorkflowStarted"}]
    file = tmp_path / "w.json"
    file.write_text(json.dumps(shown if as_list else {"history_length": 1, "events": shown}))
    assert read_history(file).events == shown
    assert read_history({"events": shown}).events == shown


@pytest.mark.parametrize(
    "document",
    [
        {"events": []},
        {"events": [{"event_id": 2, "type": "TimerFired"}]},
        {"history_length": 2, "events": [{"event_id": 1, "type": "WorkflowStarted"}]},
    ],
)
def test_a_part_of_a_history_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(HistoryError, match=r"the history (has no events|is a part)"):
        read_history(document)
