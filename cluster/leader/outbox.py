"""Messages between runs, on their way: every row of every outbox becomes a proposal.

The row is the memory. It goes in the very entry that does what it says, so that proposing it twice
is harmless, and what is forgotten here is found in the store. Held is only a bounded part; when
more waits, or a proposal came to nothing, the rows are read again.
"""

from __future__ import annotations

import uuid
from functools import partial

import structlog

from raftflow.cluster.proposer import Proposer
from raftflow.cluster.store import Store
from raftflow.engine.commands import DeliverMessage
from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Answer, Done, Reason, Rejection

log = structlog.get_logger("raftflow.leader")

AT_ONCE = 256  # proposals under way
WAITING = 10_000
PAGE = 1_000
REREAD_MS = 1_000

_Key = tuple[RunKey, int]


class Outbox:
    """Cleared when the office is left; whoever takes it reads all rows."""

    def __init__(self, *, proposer: Proposer, store: Store) -> None:
        self._proposer = proposer
        self._store = store
        self._waiting: dict[_Key, SendMessage] = {}
        self._under_way: set[_Key] = set()
        self._office = 0  # answers to those before us are not for us
        self._unread = True  # the store may hold rows that are not here
        self._cursor = 0  # up to where they have been read, 0 when no reading is under way
        self._read_at_ms = 0

    @property
    def pending(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def clear(self) -> None:
        self._waiting.clear()
        self._under_way.clear()
        self._office += 1
        self._unread = True
        self._cursor = self._read_at_ms = 0

    def send(self, message: SendMessage) -> None:
        """A row is new, or was kept by an entry that could not do what it says."""
        if len(self._waiting) < WAITING:
            self._waiting[message.run, message.number] = message
            self._propose()
        else:
            self._unread = True

    async def refill(self, now_ms: int) -> None:
        """Take in a page of rows when there are some to be read, and room for them."""
        if not (self._cursor or (self._unread and now_ms >= self._read_at_ms)):
            return
        if len(self._waiting) > WAITING - PAGE:
            return
        if not self._cursor:
            self._unread = False  # this reading sees all that is there when it begins
            self._read_at_ms = now_ms + REREAD_MS
        page = await self._store.outbox(after=self._cursor, limit=PAGE)
        for message in page.messages:
            key = (message.run, message.number)
            if key not in self._under_way:
                self._waiting.setdefault(key, message)
        self._cursor = page.cursor or 0
        self._propose()

    def _propose(self) -> None:
        while self._waiting and len(self._under_way) < AT_ONCE:
            key = next(iter(self._waiting))
            message = self._waiting.pop(key)
            self._under_way.add(key)
            run_id = uuid.uuid4().hex if message.starts else message.target_run_id
            command = DeliverMessage(
                namespace=message.run.namespace,
                workflow_id=message.run.workflow_id,
                run_id=message.run.run_id,
                number=message.number,
                target_workflow_id=message.target_workflow_id,
                target_run_id=run_id,
            )
            self._proposer.propose_duty(command, partial(self._answered, self._office, key))

    def _answered(self, office: int, key: _Key, answer: Answer | None) -> None:
        if office != self._office:
            return
        self._under_way.discard(key)
        overtaken = isinstance(answer, Rejection) and answer.reason is Reason.GRANT_DROPPED
        if not (isinstance(answer, Done) or overtaken):
            # The row is still there.
            self._unread = True
            if answer is not None:
                log.warning("message_refused", workflow_id=key[0].workflow_id, answer=str(answer))
        self._propose()
