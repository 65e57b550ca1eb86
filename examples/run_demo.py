"""The tour of `make run`: three nodes, a worker and an order saga, followed as it happens.

Everything it starts it stops again, on Ctrl-C or with --once as soon as the saga has completed.
"""

import argparse
import contextlib
import fcntl
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from raftflow_sdk import Client, RaftflowError

NODES = 3
FIRST_PORTS = (8233, 7233, 9233, 9090)
OFFSETS = range(0, 1000, 50)
READY_TIMEOUT_S = 60.0
SAGA_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
THINK_S = 1.0
# SIGHUP comes from a terminal that is closed: nothing may run on unseen.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

WORKER = Path(__file__).parent / "order_saga" / "worker.py"

console = Console(highlight=False, soft_wrap=True)


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to look at."""


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def ports_are_free(offset: int) -> bool:
    return all(
        port_is_free(first + offset + node) for first in FIRST_PORTS for node in range(NODES)
    )


def free_offset(stack: contextlib.ExitStack) -> int:
    """The first --port-offset whose ports are all free, and that no other demo is about to use."""
    for offset in OFFSETS:
        mark = Path(tempfile.gettempdir()) / f"raftflow-demo-{os.getuid()}-{offset}.lock"
        lock = stack.enter_context(mark.open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        if ports_are_free(offset):
            return offset
    raise DemoError(f"no free ports at {FIRST_PORTS} plus any of {OFFSETS}; stop what uses them")


class Child:
    """A process of the demo, whose output is kept to tell what went wrong."""

    def __init__(self, name: str, *command: str) -> None:
        self.name = name
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.tail: list[str] = []
        # A session of its own: Ctrl-C is for the demo, which stops its children in order.
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.tail = [*self.tail[-19:], line.rstrip()]
            self.lines.put(line.rstrip())
        self.lines.put(None)

    def wait_for(self, word: str, timeout: float) -> None:
        """Until it prints a line that is the word; raises when it ends or says nothing in time."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self.error(f"was not {word} within {timeout:.0f} s") from None
            if line is None:
                raise self.error(f"ended with status {self.process.wait()} before it was {word}")
            if line.strip() == word:
                return

    def tell_news(self) -> None:
        """Print what it has said since: of nodes that were killed, and are back."""
        while not self.lines.empty():
            line = self.lines.get()
            if line is not None:
                console.print(escape(line))

    def check(self) -> None:
        if self.process.poll() is not None:
            raise self.error(f"ended with status {self.process.returncode}")

    def error(self, what: str) -> DemoError:
        said = "\n".join(f"  | {line}" for line in self.tail) or "  (it said nothing)"
        return DemoError(f"{self.name} {what}. Its last words:\n{said}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                console.print(f"[yellow]{self.name} does not stop; it is killed[/]")
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Puts off the signals that end the demo until the block is over."""
    came: list[int] = []
    before = {each: signal.signal(each, lambda got, _: came.append(got)) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    for each in came:
        signal.raise_signal(each)


def start_child(stack: contextlib.ExitStack, name: str, *command: str) -> Child:
    """A child that is stopped with the stack; one forked but not yet noted would be left behind."""
    with signals_wait():
        child = Child(name, *command)
        stack.callback(child.stop)
    return child


def start_cluster(stack: contextlib.ExitStack, data_dir: Path) -> tuple[Child, list[str]]:
    """Three nodes with a leader, and their HTTP addresses."""
    for last in (False, False, True):
        offset = free_offset(stack)
        if offset:
            console.print(f"[yellow]The usual ports are taken; each is raised by {offset}.[/]")
        cluster = start_child(
            stack,
            "raftflow dev",
            *("-P", "-m", "raftflow.cluster.cli.main", "dev", "--nodes", str(NODES)),
            *("--data-dir", str(data_dir), "--port-offset", str(offset)),
        )
        try:
            cluster.wait_for("ready", READY_TIMEOUT_S)
        except DemoError:
            # Somebody may have taken a port between the look and the start.
            if last or cluster.process.poll() is None or ports_are_free(offset):
                raise
        else:
            ports = [FIRST_PORTS[0] + offset + node for node in range(NODES)]
            return cluster, [f"http://127.0.0.1:{port}" for port in ports]
    raise AssertionError("the last round returns or raises")


class Story:
    """Prints what is new in a run since the last look."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told: dict[int, tuple[str, int]] = {}

    def tell(self, run: dict[str, Any]) -> None:
        for step in run["steps"]:
            now = (step["status"], step.get("attempts", 0))
            if self._told.get(step["sequence"]) != now:
                self._told[step["sequence"]] = now
                self.say(*describe_step(step))

    def say(self, mark: str, name: str, text: str) -> None:
        seconds = time.monotonic() - self._began
        console.print(f"  [dim]{seconds:6.2f} s[/]  {mark} [bold]{name:<9}[/] {text}")


def describe_step(step: dict[str, Any]) -> tuple[str, str, str]:
    """Mark, name and words for the state of a step."""
    name, status, attempts = step["step_name"], step["status"], step.get("attempts", 0)
    tries = f" at attempt {attempts}" if attempts > 1 else ""
    if status == "COMPLETED":
        return "[green]✔[/]", name, f"completed{tries}  [dim]{escape(step.get('output', ''))}[/]"
    if status == "FAILED":
        return "[red]✘[/]", name, f"failed{tries}: {escape(step.get('error', ''))}"
    if step["kind"] == "TIMER":
        return "[cyan]◷[/]", name, "a durable timer runs"
    if step["kind"] == "SIGNAL":
        return "[cyan]…[/]", name, "waits for a signal"
    return "[cyan]▶[/]", name, f"attempt {attempts}" if attempts else "scheduled"


def waits_for_signal(run: dict[str, Any]) -> bool:
    return any(step["kind"] == "SIGNAL" and step["status"] == "SCHEDULED" for step in run["steps"])


def follow(client: Client, workflow_id: str, worker: Child) -> dict[str, Any]:
    """Tell the story of the run until it is closed; approve it a moment after it asks."""
    story = Story()
    asked_at: float | None = None
    approved = False
    deadline = time.monotonic() + SAGA_TIMEOUT_S
    while time.monotonic() < deadline:
        worker.check()
        run = client.describe(workflow_id)
        story.tell(run)
        if run["status"] not in ("RUNNING", "WAITING"):
            return run
        if asked_at is None and waits_for_signal(run):
            asked_at = time.monotonic()
        if asked_at is not None and not approved and time.monotonic() - asked_at >= THINK_S:
            client.signal(workflow_id, "approved", "yes")
            story.say("[magenta]✉[/]", "approved", "the demo approves the order itself")
            approved = True
        time.sleep(0.05)
    raise DemoError(f"{workflow_id} is still {run['status']} after {SAGA_TIMEOUT_S:.0f} s")


def show_addresses(addresses: list[str], workflow_id: str, data_dir: Path) -> None:
    flags = f"--address {addresses[-1]}"  # the node that the line below does not kill
    console.print("\nEvery node serves the same dashboard and the same API:")
    for address in addresses:
        console.print(f"  [link={address}/]{address}/[/link]")
    console.print(
        f"\nTry:  .venv/bin/raftflow workflow show {workflow_id} {flags}\n"
        f"      .venv/bin/raftflow dev node kill n1 --data-dir {data_dir}\n"
        f"      .venv/bin/raftflow workflow start OrderSaga --input order-2 {flags}\n"
    )


def demo(data_dir: Path, *, once: bool, keep: bool) -> None:
    with contextlib.ExitStack() as stack:
        console.print(f"Starting {NODES} nodes in {data_dir} ...")
        cluster, addresses = start_cluster(stack, data_dir)
        console.print("[green]The cluster has a leader.[/] Starting a worker and an order saga.")
        worker = start_child(stack, "the worker", str(WORKER), *addresses)
        client = Client(addresses)
        workflow_id = f"order-{uuid.uuid4().hex[:6]}"
        client.start("OrderSaga", workflow_id=workflow_id, input=workflow_id)
        console.print(f"\n[bold]OrderSaga {workflow_id}[/]")
        run = follow(client, workflow_id, worker)
        if run["status"] != "COMPLETED":
            raise DemoError(f"{workflow_id} ended {run['status']}: {run.get('error', '')}")
        console.print(f"  [bold green]COMPLETED[/]  {escape(run['output'])}")
        show_addresses(addresses, workflow_id, data_dir)
        if not once:
            end = "" if keep else ", and deletes its data (--data-dir DIR keeps it)"
            console.print(f"Ctrl-C stops everything{end}.")
            while True:
                worker.check()
                cluster.tell_news()
                time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop when the saga has completed")
    parser.add_argument(
        "--data-dir", type=Path, help="keep the data here; default: a fresh directory"
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    data_dir = options.data_dir or Path(tempfile.mkdtemp(prefix="raftflow-demo-"))
    keep = options.data_dir is not None
    try:
        demo(data_dir.absolute(), once=options.once, keep=keep)
    except KeyboardInterrupt:
        console.print("\nStopped.")
    except (DemoError, RaftflowError) as err:
        console.print(f"\n[red]The demo failed:[/] {escape(str(err))}")
        console.print(f"The logs of the nodes are in {data_dir}.")
        keep = True
        return 1
    finally:
        if not keep:
            shutil.rmtree(data_dir, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
