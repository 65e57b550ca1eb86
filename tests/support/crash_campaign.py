"""Crash states of a whole data directory, each recovered for real. Run under the disk shim:

    python tests/support/crash_campaign.py live FOLDER SEED       record one history
    python tests/support/crash_campaign.py judge FOLDER SEED CUTS STATES [FORGOTTEN]
        lay out what each power loss may leave, start on it, and check what is found; the recoveries
        are recorded, too, and lose power themselves. FORGOTTEN: as if files of this pattern had
        never been synced; it ends with the first problem

Prints one line of JSON: how much was tried, and what was found wrong.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    def __init__(self, folder: Path, truth: Truth, rng: Random) -> None:
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
            if summary.states % RECOVERY_EVERY == 0:
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


async def judge(
    folder: Path, seed: int, cut_count: int, states: int, forgotten: str = ""
) -> Summary:
    rng = Random(seed)
    truth = await crash_node.truth_of(pickle.loads((folder / "log").read_bytes()), folder)
    made = [
        change
        for change in changes(folder / "trace")
        if not (change.kind in ("sync", "syncdir") and fnmatch(change.path, forgotten))
    ]
    judge = Judge(folder, truth, rng)
    model, promises, at = DiskModel(), Promises(), 0
    for cut in cuts(made, rng, cut_count):
        for change in made[at:cut]:
            if change.kind == "mark":
                promises.hear(change.path)
            else:
                model.make(change)
        at = cut
        after = f"{made[cut - 1].kind} {made[cut - 1].path[-60:]}" if cut else "nothing"
        for number, files in enumerate(model.states(rng, states)):
            await judge.judge(
                files, promises, f"seed {seed}, cut {cut} (after {after}), state {number}"
            )
    return judge.summary


async def live(folder: Path, seed: int) -> int:
    entries = await crash_node.live(folder / "n1", folder / "elsewhere", seed=seed)
    (folder / "log").write_bytes(pickle.dumps(entries))
    return len(entries)


def main(arguments: Sequence[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    verb, folder, seed, *rest = arguments
    if verb == "live":
        print(json.dumps({"entries": asyncio.run(live(Path(folder), int(seed)))}))
        return
    summary = asyncio.run(judge(Path(folder), int(seed), int(rest[0]), int(rest[1]), *rest[2:]))
    print(
        json.dumps(
            {
                "states": summary.states,
                "recoveries_cut": summary.recoveries_cut,
                "replays": summary.replays,
                "wrong": summary.wrong[:20],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
