"""Commands and entries there and back, and the bytes they are."""

from __future__ import annotations

import typing

import pytest
from any_value import any_of, sample
from golden import RELEASES, check_golden, releases_of
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec.commands import (
    SCHEMA_VERSION,
    UndecodableEntry,
    decode_command,
    decode_entry,
    encode_command,
    encode_entry,
)
from raftflow.engine import commands as cmd
from raftflow.engine.limits import DEFAULT_LIMITS, Limits
from raftflow.proto.raftflow.internal.v1 import entry_pb2

COMMANDS = typing.get_args(cmd.Command)


@given(st.text(max_size=8), st.one_of([any_of(kind) for kind in COMMANDS]))
def test_every_command_comes_back(command_id: str, command: cmd.Command) -> None:
    assert decode_command(encode_command(command_id, command)) == (command_id, command)


@given(st.lists(st.one_of([any_of(kind) for kind in COMMANDS]), max_size=4), any_of(Limits))
def test_every_entry_comes_back(commands: list[cmd.Command], limits: Limits) -> None:
    encoded = [encode_command(f"c{n}", command) for n, command in enumerate(commands)]
    payload = encode_entry(encoded, time_ms=7, term=3, node="n1", limits=limits)
    assert decode_entry(9, 3, payload) == cmd.Batch(
        index=9,
        term=3,
        time_ms=7,
        commands=tuple((f"c{n}", command) for n, command in enumerate(commands)),
        limits=limits,
    )


@pytest.mark.parametrize(("release", "kind"), releases_of(COMMANDS))
def test_the_bytes_of_commands_stay(release: str, kind: type[cmd.Command], rewrite: bool) -> None:
    command = sample(kind, RELEASES[release])
    encoded = encode_command("id", command)
    check_golden("commands", kind.__name__, encoded, rewrite=rewrite, release=release)
    assert decode_command(encoded) == ("id", command)


@pytest.mark.parametrize(("release", "level"), [("v0.1.0", 1), ("v0.2.0", 2)])
def test_the_bytes_of_an_entry_stay(release: str, level: int, rewrite: bool) -> None:
    payload = encode_entry(
        [b"a", b"b"], time_ms=7, term=3, node="n1", limits=DEFAULT_LIMITS, feature_level=level
    )
    check_golden("commands", "Entry", payload, rewrite=rewrite, release=release)


def test_the_no_op_of_a_term_is_an_empty_batch() -> None:
    batch = decode_entry(5, 2, b"")
    assert (batch.index, batch.term, batch.time_ms, batch.commands) == (5, 2, 0, ())


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"\xff\xff", "entry 5 cannot be read"),
        (entry_pb2.Entry(schema_version=99).SerializeToString(), "schema version is 99"),
        (
            entry_pb2.Entry(
                schema_version=SCHEMA_VERSION, feature_level=cmd.FEATURE_LEVEL + 1
            ).SerializeToString(),
            "feature level is",
        ),
        (
            entry_pb2.Entry(
                schema_version=SCHEMA_VERSION, commands=[entry_pb2.Command().SerializeToString()]
            ).SerializeToString(),
            "has no body that this version knows",
        ),
        (
            entry_pb2.Entry(
                schema_version=SCHEMA_VERSION,
                commands=[
                    entry_pb2.Command(fire_timer=entry_pb2.FireTimer(kind=99)).SerializeToString()
                ],
            ).SerializeToString(),
            "kind 99 is no TimerKind",
        ),
    ],
    ids=["garbage", "schema", "feature", "command", "enum"],
)
def test_what_is_not_understood_is_refused(payload: bytes, problem: str) -> None:
    with pytest.raises(UndecodableEntry, match=problem):
        decode_entry(5, 2, payload)


def test_what_cannot_be_written_is_the_callers_mistake() -> None:
    broken = cmd.ReturnTask(namespace="\ud800", workflow_id="w", token="t")
    with pytest.raises(ValueError):
        encode_command("id", broken)
    with pytest.raises(ValueError):
        encode_command("id", cmd.ForgetRequests(before_ms=2**64, limit=1))
