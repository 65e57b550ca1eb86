"""The fault suite's command line: `python -m tests.jepsen --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.jepsen import store, summary
from tests.jepsen.acceptance import SLICE, SLICE_WORKLOADS, power_losses, resume, slice_mix
from tests.jepsen.hosts import isolation
from tests.jepsen.judge import judge
from tests.jepsen.nemesis.conductor import Pace
from tests.jepsen.nemesis.families import FAMILIES, FAULTS
from tests.jepsen.runner import Options, execute, say
from tests.jepsen.seeded import BUGS
from tests.jepsen.workloads.catalog import ALL as WORKLOADS

# Some workloads want the whole machine: they run when they are named.
USUAL = tuple(name for name, make in WORKLOADS.items() if not getattr(make(), "alone", False))


def main() -> int:
    options = _parser().parse_args()
    # The first process of its namespace has no default for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    status: int = options.perform(options)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description=__doc__)
    commands = parser.add_subparsers(required=True)

    run = commands.add_parser("run", help="workloads while faults strike, then the verdicts")
    run.add_argument("--workload", default="all", help="names with commas; all (see `list`)")
    run.add_argument("--nemesis", default="all", help="families or faults with commas; all; none")
    run.add_argument("--time", type=float, default=60.0, help="seconds of faults")
    run.add_argument("--window", type=_span, default=(30.0, 60.0), help="of one mix: 30-60")
    run.add_argument("--quiet", type=_span, default=(8.0, 12.0), help="between windows: 8-12")
    run.add_argument("--longest", type=float, default=45.0, help="seconds that a fault may last")
    run.add_argument("--from", dest="release", default="", help="a release: nodes begin with it")
    run.add_argument("--bug", default="", choices=("", *BUGS), help="that all nodes have")
    run.add_argument("--page", type=Path, help="a Markdown file for the run on one page")
    _common(run)
    run.set_defaults(perform=_run)

    losses = commands.add_parser("power-losses", help="of all nodes at random moments under load")
    losses.add_argument("--workload", default="starts,signals,completions")
    losses.add_argument("--times", type=int, default=20)
    losses.add_argument("--lying", action="store_true", help="fsync does nothing: this must fail")
    _common(losses)
    losses.set_defaults(perform=_power_losses)

    cut = commands.add_parser("slice", help="what CI runs: each of some faults once")
    cut.add_argument("--workload", default=",".join(SLICE_WORKLOADS))
    _common(cut)
    cut.set_defaults(perform=_slice)

    resuming = commands.add_parser("resume", help="how soon commits resume after bad partitions")
    resuming.add_argument("--times", type=int, default=3, help="each kind of partition")
    _common(resuming)
    resuming.set_defaults(perform=_resume)

    again = commands.add_parser("judge", help="check a stored run again")
    again.add_argument("directory", type=Path)
    again.set_defaults(perform=_judge)

    telling = commands.add_parser("summary", help="a judged run as one page of Markdown")
    telling.add_argument("directory", type=Path)
    telling.add_argument("--to", type=Path, help="a file; else standard output")
    telling.set_defaults(perform=_summary)

    listing = commands.add_parser("list", help="workloads, nemeses, stored runs")
    listing.add_argument("--store", type=Path, default=store.DEFAULT_STORE)
    listing.set_defaults(perform=_list)

    clean = commands.add_parser("clean", help="what a killed runner left: files of its disks")
    clean.add_argument("--store", type=Path, default=store.DEFAULT_STORE)
    clean.set_defaults(perform=_clean)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--rate", type=float, default=1.0, help="times the usual load")
    parser.add_argument("--fs", default="ext4", choices=("ext4", "xfs"))
    parser.add_argument("--store", type=Path, default=store.DEFAULT_STORE)
    parser.add_argument(
        "--hosts",
        default="auto",
        choices=("auto", "netns", "loopback"),
        help="netns needs root; auto falls back to loopback, except where CI is set",
    )


def _span(text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    return float(low), float(high or low)


def _names(
    text: str, usual: Iterable[str], known: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """The names in the text, or all the usual ones."""
    if text == "none":
        return ()
    known = known or dict.fromkeys(usual)
    names = tuple(usual) if text == "all" else tuple(text.split(","))
    for name in names:
        if name not in known:
            sys.exit(f"{name!r} is unknown; there are: {', '.join(known)}")
    return names


def _enter(options: argparse.Namespace) -> None:
    """Go where networks and disks can be broken, or say why not."""
    if options.hosts == "loopback" or isolation.isolated():
        return
    obstacle = isolation.obstacle()
    if not obstacle:
        isolation.enter(sys.argv[1:])
    if options.hosts == "netns" or os.environ.get("CI"):
        sys.exit(f"jepsen: no namespaces: {obstacle}")
    say(f"no namespaces ({obstacle}): plain processes instead")


def _options(options: argparse.Namespace, nemeses: tuple[str, ...], **rest: object) -> Options:
    return Options(
        workloads=_names(options.workload, USUAL, WORKLOADS),
        nemeses=nemeses,
        nodes=options.nodes,
        seed=options.seed,
        rate=options.rate,
        filesystem=options.fs,
        **rest,  # type: ignore[arg-type]
    )


def _run(options: argparse.Namespace) -> int:
    nemeses = _names(options.nemesis, FAMILIES, {**FAMILIES, **FAULTS})
    pace = Pace(window_s=options.window, quiet_s=options.quiet, longest_s=options.longest)
    settings = _options(
        options,
        nemeses,
        seconds=options.time,
        pace=pace,
        release=options.release,
        bug=options.bug,
    )
    _enter(options)
    directory = store.new_directory(options.store, options.seed)
    execute(directory, settings)
    status = _say_verdicts(directory)
    if options.page:
        options.page.write_text(_page(directory))
    return status


def _power_losses(options: argparse.Namespace) -> int:
    settings = _options(options, ("power",))
    _enter(options)
    directory = store.new_directory(options.store, options.seed)
    execute(directory, settings, power_losses(options.times, lying=options.lying))
    return _say_verdicts(directory)


def _slice(options: argparse.Namespace) -> int:
    settings = _options(options, SLICE)
    _enter(options)
    directory = store.new_directory(options.store, options.seed)
    execute(directory, settings, slice_mix)
    return _say_verdicts(directory)


def _resume(options: argparse.Namespace) -> int:
    _enter(options)
    directory = store.new_directory(options.store, options.seed)
    return resume(directory, nodes=options.nodes, seed=options.seed, times=options.times)


def _judge(options: argparse.Namespace) -> int:
    return _say_verdicts(options.directory)


def _summary(options: argparse.Namespace) -> int:
    text = _page(options.directory)
    if options.to:
        options.to.write_text(text)
    else:
        print(text, end="")
    return 0


def _page(directory: Path) -> str:
    return summary.page(
        store.read_meta(directory),
        store.read_history(directory),
        store.read_samples(directory),
        store.read_verdicts(directory),
    )


def _say_verdicts(directory: Path) -> int:
    verdicts = judge(directory)
    for line in store.summary(verdicts):
        print(line)
    print(f"report: {directory / store.REPORT}")
    return 0 if all(each.ok for each in verdicts.values()) else 1


def _list(options: argparse.Namespace) -> int:
    print("workloads:", ", ".join(WORKLOADS))
    for name, faults in FAMILIES.items():
        print(f"nemesis {name}: {', '.join(fault.name for fault in faults)}")
    for directory in sorted(options.store.glob("*/")):
        print("run", directory)
    return 0


def _clean(options: argparse.Namespace) -> int:
    """Processes, mounts and networks end with a runner, however it ends; files stay."""
    for images in sorted(options.store.glob("*/disks-*/")):
        removed = store.remove_images(images)
        print(f"removed {images}" if removed else f"{images} is in use")
    return 0


if __name__ == "__main__":
    sys.exit(main())
