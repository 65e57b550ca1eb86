"""Rows of tokens. What ends one is said as an effect, so that nodes end what it keeps open."""

from __future__ import annotations

from dataclasses import replace

from raftflow.engine.effects import TokenEnded
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.transitions import TokenMinted, TokenRevoked, TokensForgotten


def minted(rec: Recorder, move: TokenMinted) -> None:
    record = move.record
    rec.state.catalog.tokens[record.token_id] = record
    rec.changes.tokens[record.token_id] = record


def revoked(rec: Recorder, move: TokenRevoked) -> None:
    tokens = rec.state.catalog.tokens
    record = replace(tokens[move.token_id], revoked_ms=rec.time_ms)
    tokens[move.token_id] = record
    rec.changes.tokens[move.token_id] = record
    rec.effects.append(TokenEnded(move.token_id))


def forgotten(rec: Recorder, move: TokensForgotten) -> None:
    for token_id in move.token_ids:
        del rec.state.catalog.tokens[token_id]
        rec.changes.tokens[token_id] = None
