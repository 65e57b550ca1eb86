"""Histories of one run, read from any node at any time, are one history."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import Call, named


def chain_of(records: Sequence[bytes]) -> list[str]:
    """After each event a hash of all up to it."""
    chain = []
    last = b""
    for record in records:
        last = hashlib.blake2b(last + record, digest_size=8).digest()
        chain.append(last.hex()[:8])
    return chain


def check_chains(calls: Sequence[Call]) -> Verdict:
    """`history` by key: {"chain": hash after each event, "ids": contiguous from 1}."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "history"):
        if call.ok:
            by_key[call.key].append(call)
    errors: list[str] = []
    for reads in by_key.values():
        longest = max((read.result["chain"] for read in reads), key=len)
        most = 0
        ended: list[tuple[float, int]] = []
        for read in sorted(reads, key=lambda call: call.end_ns):
            chain = read.result["chain"]
            if not read.result["dense"]:
                errors.append(f"event ids have gaps: {_named(read)}")
            if chain != longest[: len(chain)]:
                pairs = enumerate(zip(chain, longest, strict=False), start=1)
                place = next(number for number, (mine, other) in pairs if mine != other)
                errors.append(f"forked history: event {place} differs: {_named(read)}")
            most = max(most, len(chain))
            ended.append((read.end_ns, most))
        for read in reads:
            before = [length for end, length in ended if end < read.start_ns]
            if before and before[-1] > len(read.result["chain"]):
                errors.append(f"a history became shorter than {before[-1]}: {_named(read)}")
    return verdict(errors, histories=len(by_key), history_reads=sum(map(len, by_key.values())))


def _named(read: Call) -> str:
    return shown(read).split(" -> ")[0] + f" of {len(read.result['chain'])} events at {read.node}"
