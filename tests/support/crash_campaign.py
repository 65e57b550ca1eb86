"""Crash states of a whole data directory, each recovered for real. Run under the disk shim:

    python tests/support/crash_campaign.py live FOLDER SEED       record one history
    python tests/support/crash_campaign.py judge FOLDER SEED CUTS STATES
        lay out what each power loss may leave, start on it, and check what is found; the recoveries
        are recorded, too, and lose power themselves
    python tests/support/crash_campaign.py forget FOLDER SEED CUTS STATES PATTERN...
        the same as if files of a pattern had never been synced, one pattern after the other, each
        up to its first problem

Prints one line of JSON: how much was tried, and what was found wrong.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import crash_node  # noqa: E402
import structlog  # noqa: E402
from crash_node import Found, Truth  # noqa: E402
from disk_shim import Change, changes  # noqa: E402
from disk_states import DiskModel, Files, cuts, lay_out  # noqa: E402

RECOVERY_CUTS = 3  # a recovery in so many is itself cut short, at so many places
RECOVERY_EVERY = 6


@dataclass(slots=True)
class Promises:
    """What was promised by the marks so far."""

    born: bool = False
    acknowledged: int = 0
    checkpointed: int = 0
    voted: tuple[int, str] = (0, "-")

    def hear(self, text: str) -> None:
        what, *words = text.split()
        if what == "born":
            self.born = True
        elif what == "acknowledged":
            self.acknowledged = max(self.acknowledged, int(words[0]))
        elif what == "checkpointed":
            self.checkpointed = max(self.checkpointed, int(words[0]))
        elif what == "voted":
            self.voted = (int(words[0]), words[1])


@dataclass(slots=True)
class Summary:
    states: int = 0
    recoveries_cut: int = 0
    replays: int = 0
    wrong: list[str] = field(default_factory=list)


def problems(found: Found, promises: Promises, truth: Truth) -> list[str]:
    """What a start found against what was promised before the cut."""
    wrong = []
    if promises.voted[0] > found.term:
        wrong.append(f"voted in term {promises.voted[0]}, found term {found.term}")
    elif promises.voted[0] == found.term and promises.voted[1] not in ("-", found.voted_for):
        wrong.append(f"voted for {promises.voted[1]}, found {found.voted_for}")
    if found.stored_index < promises.checkpointed:
        wrong.append(
            f"checkpointed {promises.checkpointed}, the state ends at {found.stored_index}"
        )
    if found.stored_digest != truth.digests[found.stored_index]:
        wrong.append(f"the state at {found.stored_index} has another digest")
    if found.prev_index > found.stored_index:
        wrong.append(
            f"the log begins after {found.prev_index}, the state ends at {found.stored_index}"
        )
    have = {entry.index: entry for entry in found.entries}
    for index in range(found.stored_index + 1, promises.acknowledged + 1):
        if have.get(index) != truth.entries[index - 1]:
            wrong.append(
                f"entry {index} was acknowledged (up to {promises.acknowledged}), and is "
                + ("another" if index in have else "gone")
            )
            break
    return wrong


class Judge:
    def __init__(self, folder: Path, truth: Truth, rng: Random, *, thorough: bool = True) -> None:
        self.thorough = thorough
        self.folder = folder / "states"
        self.trace = folder / "recoveries"
        self.truth = truth
        self.rng = rng
        self.summary = Summary()
        self._seen = 0  # bytes of the trace of recoveries

    async def judge(self, files: Files, promises: Promises, where: str) -> None:
        summary = self.summary
        summary.states += 1
        place = self.folder / f"s{summary.states}"
        lay_out(files, place)
        found = await self._recover(place, promises, where)
        if found is not None:
            if self.thorough and summary.states % RECOVERY_EVERY == 0:
                await self._cut_recovery(files, place, found, promises, where)
            upto = max(found.stored_index, promises.acknowledged)
            summary.replays += 1
            digest = await crash_node.replay(place, self.truth, upto)
            if digest != self.truth.digests[upto]:
                summary.wrong.append(f"{where}: replayed to {upto}, the digest is another")
        shutil.rmtree(place)

    async def _recover(self, place: Path, promises: Promises, where: str) -> Found | None:
        self._skip_trace()
        try:
            found = await crash_node.recover(place)
        except Exception as error:  # noqa: BLE001  every refusal after a crash is a finding
            self.summary.wrong.append(f"{where}: refused: {type(error).__name__}: {error}")
            return None
        wrong = problems(found, promises, self.truth)
        self.summary.wrong += [f"{where}: {each}" for each in wrong]
        return None if wrong else found

    async def _cut_recovery(
        self, files: Files, place: Path, found: Found, promises: Promises, where: str
    ) -> None:
        """The power goes again while the node starts: what the next start finds is the same."""
        made = self._new_changes(place)
        for cut in cuts(made, self.rng, RECOVERY_CUTS):
            model = DiskModel(files)
            for change in made[:cut]:
                if change.kind != "mark":
                    model.make(change)
            [*_, left] = model.states(self.rng, 3)
            again_at = place.with_name(f"{place.name}-{cut}")
            lay_out(left, again_at)
            self.summary.recoveries_cut += 1
            again = await self._recover(again_at, promises, f"{where}, recovery cut at {cut}")
            shutil.rmtree(again_at)
            if again is not None and not same(again, found):
                self.summary.wrong.append(f"{where}: cut at {cut}, recovery found something else")

    def _skip_trace(self) -> None:
        self._seen = self.trace.stat().st_size if self.trace.exists() else 0

    def _new_changes(self, place: Path) -> list[Change]:
        with self.trace.open("rb") as file:
            file.seek(self._seen)
            part = self.trace.with_suffix(".part")
            part.write_bytes(file.read())
        prefix = place.name + "/"
        return [
            Change(
                each.kind,
                strip(each.path, prefix),
                strip(each.other, prefix),
                each.offset,
                each.data,
            )
            for each in changes(part)
            if each.path.startswith(prefix) or each.path == place.name
        ]


def strip(path: str, prefix: str) -> str:
    return "." if path + "/" == prefix else path.removeprefix(prefix)


def same(one: Found, other: Found) -> bool:
    """Recovery may have gone on (a checkpoint of what was there), but not to something else."""
    return (one.term, one.voted_for, one.prev_index, one.entries, one.stored_index) == (
        other.term,
        other.voted_for,
        other.prev_index,
        other.entries,
        other.stored_index,
    )


async def judge(judge: Judge, made: Sequence[Change], cut_count: int, states: int) -> Summary:
    """``judge.thorough`` false: up to the first problem."""
    model, promises, at = DiskModel(), Promises(), 0
    for cut in cuts(made, judge.rng, cut_count):
        for change in made[at:cut]:
            if change.kind == "mark":
                promises.hear(change.path)
            else:
                model.make(change)
        at = cut
        after = f"{made[cut - 1].kind} {made[cut - 1].path[-60:]}" if cut else "nothing"
        for number, files in enumerate(model.states(judge.rng, states)):
            await judge.judge(files, promises, f"cut {cut} (after {after}), state {number}")
            if judge.summary.wrong and not judge.thorough:
                return judge.summary
    return judge.summary


async def forget(
    folder: Path, truth: Truth, seed: int, cut_count: int, states: int, patterns: Sequence[str]
) -> dict[str, list[str]]:
    found = {}
    made = list(changes(folder / "trace"))
    for pattern in patterns:
        left = [
            change
            for change in made
            if not (change.kind in ("sync", "syncdir") and fnmatch(change.path, pattern))
        ]
        alone = Judge(folder, truth, Random(seed), thorough=False)
        found[pattern] = (await judge(alone, left, cut_count, states)).wrong[:1]
    return found


async def live(folder: Path, seed: int) -> int:
    entries = await crash_node.live(folder / "n1", folder / "elsewhere", seed=seed)
    (folder / "log").write_bytes(pickle.dumps(entries))
    return len(entries)


async def run(arguments: Sequence[str]) -> object:
    verb, name, seed, *rest = arguments
    folder = Path(name)
    if verb == "live":
        return {"entries": await live(folder, int(seed))}
    truth = await crash_node.truth_of(pickle.loads((folder / "log").read_bytes()), folder)
    counts = int(rest[0]), int(rest[1])
    if verb == "forget":
        return await forget(folder, truth, int(seed), *counts, rest[2:])
    judging = Judge(folder, truth, Random(int(seed)))
    return asdict(await judge(judging, list(changes(folder / "trace")), *counts))


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(json.dumps(asyncio.run(run(sys.argv[1:]))))


if __name__ == "__main__":
    main()
