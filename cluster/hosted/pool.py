"""The pool of subprocesses that replay hosted workflow code.

A replay that takes too long or takes its process down costs the node nothing: the process is
killed and another started. Such a replay is tried once more in the fresh process, since it may
have been the victim and not the culprit (memory ran out, somebody killed it); if that fails too,
`ReplayFailed` says why.
"""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import Any

import structlog

logger = structlog.get_logger()

BUILTIN = "raftflow.cluster.hosted.builtin"
TRIES = 2
# Imports of user code happen here: model files, frameworks.
START_TIMEOUT_S = 60.0
# A line holds a whole history or decision; the API's own limits are far below.
LINE_LIMIT = 256 << 20


class HostedLoadError(Exception):
    """A hosted module does not load, or does not say what it hosts."""


class ReplayFailed(Exception):
    """The code neither decided nor waited; the message says what it did instead."""


class ReplayPool:
    """`async with ReplayPool(modules) as pool: await pool.decide(type, task)`."""

    def __init__(
        self,
        modules: Sequence[str] = (BUILTIN,),
        *,
        size: int = 1,
        time_limit_ms: int = 4_000,
    ) -> None:
        self._modules = tuple(modules)
        self._time_limit_ms = time_limit_ms
        self._workers = [_Subprocess(self._modules) for _ in range(size)]
        self._idle: asyncio.Queue[_Subprocess] = asyncio.Queue()
        self._stopped = False
        self.types: tuple[str, ...] = ()

    async def start(self) -> None:
        """Load the modules; raises `HostedLoadError`."""
        try:
            for worker in self._workers:
                self.types = await worker.start()
                self._idle.put_nowait(worker)
        except BaseException:
            await self.stop()
            raise
        logger.info("hosted_workflows_loaded", modules=self._modules, types=self.types)

    async def stop(self) -> None:
        self._stopped = True
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def __aenter__(self) -> "ReplayPool":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def decide(self, workflow_type: str, task: dict[str, Any]) -> dict[str, Any]:
        """Replay a task; the body of its completion. Raises `ReplayFailed`."""
        line = json.dumps({**task, "workflow_type": workflow_type}).encode() + b"\n"
        worker = await self._idle.get()
        try:
            return await self._replay(worker, workflow_type, line)
        finally:
            self._idle.put_nowait(worker)

    async def _replay(
        self, worker: "_Subprocess", workflow_type: str, line: bytes
    ) -> dict[str, Any]:
        why = ""
        for _ in range(TRIES):
            if self._stopped:
                raise RuntimeError("the replay pool is stopped")
            try:
                await worker.start()
                async with asyncio.timeout(self._time_limit_ms / 1000):
                    return await worker.ask(line)
            except TimeoutError:
                why = f"replay took longer than {self._time_limit_ms} ms: does the code loop?"
            except _Died as err:
                why = f"replay ended its process ({err})"
            except BaseException:
                # The answer of this call must not be read as that of the next.
                await worker.kill()
                raise
            await worker.kill()
            logger.warning("hosted_replay_failed", workflow_type=workflow_type, why=why)
        raise ReplayFailed(f"hosted workflow {workflow_type}: {why}")


class _Died(Exception):
    """The subprocess closed its output."""


class _Subprocess:
    """One subprocess, started when needed."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self._process: Process | None = None
        self._types: tuple[str, ...] = ()

    async def start(self) -> tuple[str, ...]:
        """Make sure that it runs; the types that it hosts."""
        if self._process is not None and self._process.returncode is None:
            return self._types
        self._process = await asyncio.create_subprocess_exec(
            # -P: a folder named raftflow where the node was started is not the product.
            *(sys.executable, "-P", "-m", "raftflow.cluster.hosted.child"),
            *(str(os.getpid()), *self._modules),
            stdin=PIPE,
            stdout=PIPE,
            limit=LINE_LIMIT,
            # Ctrl-C at the terminal is for the node.
            start_new_session=True,
            # A hash seed of its own per process would make set iteration in workflow code differ
            # from replay to replay.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                hello = await self._read()
        except (TimeoutError, _Died) as err:
            await self.kill()
            raise HostedLoadError(
                f"{', '.join(self._modules)}: no hosted workflows: {err}"
            ) from err
        except BaseException:
            await self.kill()
            raise
        if "error" in hello:
            await self.kill()
            raise HostedLoadError(hello["error"])
        self._types = tuple(hello["types"])
        return self._types

    async def ask(self, line: bytes) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # reading says that it died, and how
            self._process.stdin.write(line)
            await self._process.stdin.drain()
        decision: dict[str, Any] = (await self._read())["decision"]
        return decision

    async def _read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise _Died(f"exit status {await self._process.wait()}")
        message: dict[str, Any] = json.loads(line)
        return message

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
