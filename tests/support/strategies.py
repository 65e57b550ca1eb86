"""Sequences of commands as a cluster may see them: sensible, late, repeated, and garbage.

An ``Operation`` is a wish in small numbers ("complete some activity token that was ever out"), so
that hypothesis can shrink it. The ``Player`` turns wishes into commands against the present rows of
a harness and remembers every token and command, for whoever wants to use them again too late.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Sequence

import engine_harness as make
from decision_programs import ATTRIBUTES, NAMES, Operation, fan_out, program
from engine_harness import EngineHarness
from hypothesis import strategies as st

from raftflow.engine import commands as cmd
from raftflow.engine.commands import (
    Command,
    IdConflictPolicy,
    IdReusePolicy,
    StartTimer,
)
from raftflow.engine.effects import DeliverTask
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Done, Granted, Reason, Rejection
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import Run, RunStatus, TaskState

WORKFLOWS = ("a", "b", "c")
NAMESPACES = ("default", "default", "default", "other", "missing")
ADVANCES_MS = (0, 0, 0, 1, 50, 5_000, 40_000, 700_000)
_SOON = 4  # the last position of those that no lease outlasts


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """A batch: operations, or a ready-made garbage command."""

    advance: int
    operations: tuple[Operation, ...]
    garbage: Command | None = None


def operations(*, crowded: bool) -> st.SearchStrategy[Operation]:
    small = st.integers(0, 11)
    kinds = st.sampled_from(_CROWDED) if crowded else st.integers(0, len(_WISHES) - 1)
    return st.builds(Operation, kinds, small, small, small)


def garbage() -> st.SearchStrategy[Command]:
    """Any value in any field, as far as the wire can carry it."""
    ints = st.integers(-(2**63), 2**63 - 1)
    with_int = st.one_of(ints, st.integers(-1, 3))
    texts = st.one_of(st.text(max_size=6), st.sampled_from(["", "a", "default", "r0"]))
    retries = st.builds(
        RetryPolicy,
        max_attempts=with_int,
        initial_backoff_ms=with_int,
        max_backoff_ms=with_int,
        backoff_coefficient_milli=with_int,
    )
    by_type = {int: with_int, str: texts, bytes: st.binary(max_size=4), bool: st.booleans()}
    hints = {"int": int, "str": str, "bytes": bytes, "bool": bool}

    def any_of(kind: type) -> st.SearchStrategy[Command]:
        fields = {}
        for field in dataclasses.fields(kind):
            name = str(field.type)
            if name in hints:
                fields[field.name] = by_type[hints[name]]
            elif name == "RetryPolicy":
                fields[field.name] = retries
            elif name == "tuple[WorkflowCommand, ...]":
                fields[field.name] = st.lists(inner, max_size=3).map(tuple)
            elif name == "Attributes":
                pair = st.tuples(texts, texts)
                fields[field.name] = st.lists(pair, max_size=2).map(tuple)
            elif name == "Origin":
                fields[field.name] = any_of(cmd.Origin)
            elif name == "Fact":
                fields[field.name] = st.one_of([any_of(each) for each in cmd.Fact.__args__])
            elif name == "EagerPoll | None":
                fields[field.name] = st.one_of(st.none(), any_of(cmd.EagerPoll))
            elif name == "Origin":
                fields[field.name] = any_of(cmd.Origin)
            elif name == "Fact":
                fields[field.name] = st.one_of([any_of(each) for each in cmd.Fact.__args__])
            elif name == "tuple[str, ...]":
                fields[field.name] = st.lists(texts, max_size=3).map(tuple)
            else:
                fields[field.name] = st.sampled_from(getattr(cmd, name))
        return st.builds(kind, **fields)

    inner = st.one_of([any_of(kind) for kind in cmd.WorkflowCommand.__args__])
    return st.one_of([any_of(kind) for kind in cmd.Command.__args__])


def wishes(max_size: int = 60, *, crowded: bool = False) -> st.SearchStrategy[list[Wish]]:
    """``crowded``: few runs, much that happens to each, and soon: facts have to wait."""
    batch = st.lists(operations(crowded=crowded), min_size=1, max_size=3).map(tuple)
    wish = st.builds(
        Wish,
        st.integers(0, _SOON if crowded else len(ADVANCES_MS) - 1),
        batch,
        st.one_of(st.none(), st.none(), garbage()),
    )
    return st.lists(wish, min_size=1, max_size=max_size)


def random_wishes(seed: int, count: int, *, crowded: bool = False) -> list[Wish]:
    """The same without hypothesis, for other processes and long runs."""
    rng = random.Random(seed)

    kinds = _CROWDED if crowded else range(len(_WISHES))
    longest = _SOON if crowded else len(ADVANCES_MS) - 1

    def operation() -> Operation:
        return Operation(rng.choice(kinds), rng.randrange(12), rng.randrange(12), rng.randrange(12))

    return [
        Wish(
            rng.randint(0, longest),
            tuple(operation() for _ in range(rng.randint(1, 3))),
        )
        for _ in range(count)
    ]


class Player:
    """Plays wishes and keeps the batches that came of them, to be played again elsewhere."""

    def __init__(self, harness: EngineHarness, *, crowded: bool = False) -> None:
        self.harness = harness
        self.crowded = crowded  # runs fan out, and live longer
        self.batches: list[tuple[int, tuple[Command, ...]]] = []
        self.tokens: list[tuple[str, str, str]] = []  # (namespace, workflow, token), ever granted
        self.seen: Counter[str] = Counter()  # events, and how runs stood, by name
        self._said: list[Command] = []
        self._delivered: set[tuple[RunKey, int]] = set()
        self._number = 0

    def begin(self) -> None:
        """What nearly every sequence needs."""
        self._apply(
            0,
            (
                cmd.CreateNamespace(namespace="other", retention_ms=0, request_id=""),
                cmd.RegisterTypes(namespace="default", workflow_types=("Order",)),
                cmd.RegisterTypes(namespace="other", workflow_types=("Order",)),
            ),
        )

    def play(self, wish: Wish) -> None:
        commands = [self._command(each) for each in wish.operations]
        if wish.garbage is not None:
            commands.append(wish.garbage)
        self._apply(ADVANCES_MS[wish.advance], tuple(c for c in commands if c is not None))

    def number(self) -> int:
        self._number += 1
        return self._number

    def runs(self) -> list[Run]:
        """All runs, oldest first, as their rows tell them."""
        loaded = [self.harness.rows.load_run(key) for key in self.harness.rows.runs]
        return [run for run in loaded if run is not None]

    def settle(self) -> None:
        """Deliver what is on its way until nothing is."""
        for _ in range(100):
            pending = [
                make.deliver(key, number, message, new_run_id=f"r{self.number()}")
                for key, box in self.harness.rows.outbox.items()
                for number, message in box.items()
            ]
            if not pending:
                return
            self._apply(0, tuple(pending))
        raise AssertionError("messages beget messages")

    def end_and_forget_all(self) -> None:
        """Terminate every run, and delete all of them: of each id the newest last."""
        for run in self.runs():
            namespace, workflow_id, run_id = run.key
            end = cmd.TerminateRun(
                namespace=namespace,
                workflow_id=workflow_id,
                run_id=run_id,
                reason="",
                request_id="",
            )
            self._apply(0, (end,))
        self.settle()
        rows = self.harness.rows
        newest = {RunKey(*workflow, run_id) for workflow, run_id in rows.current.items()}
        for key in sorted(rows.runs, key=lambda key: key in newest):
            delete = make.delete(key.workflow_id, key.run_id, namespace=key.namespace)
            self._apply(0, (delete,))

    def _command(self, operation: Operation) -> Command | None:
        return _WISHES[operation.kind](self, operation)

    def _apply(self, advance_ms: int, commands: tuple[Command, ...]) -> None:
        self.batches.append((advance_ms, commands))
        self._said += commands
        applied = self.harness.apply(*commands, advance_ms=advance_ms)
        for command, reply in zip(commands, applied.replies, strict=True):
            refused = isinstance(reply.answer, Rejection) and reply.answer.reason
            assert refused is not Reason.UNREADABLE, f"{command} broke the engine: {reply.answer}"
            if isinstance(reply.answer, Granted):
                assert isinstance(command, cmd.GrantActivity | cmd.GrantDecision)
                self.tokens.append((command.namespace, command.workflow_id, reply.answer.token))
            if isinstance(command, cmd.CompleteDecision | cmd.CompleteActivity):
                assert isinstance(reply.answer, Done | Rejection)
                handed = reply.answer.handed if isinstance(reply.answer, Done) else ()
                delivered = {e.token for e in applied.effects if isinstance(e, DeliverTask)}
                assert delivered.issuperset(handed), "handed over, but nobody delivers it"
                self.seen["handed"] += len(handed)
                self.tokens += [(command.namespace, command.workflow_id, each) for each in handed]
            if isinstance(command, cmd.DeliverMessage) and isinstance(reply.answer, Done):
                self._deliver_once(command)
        held = [arrival for arrival in applied.changes.arrivals.values() if arrival is not None]
        self.seen.update(f"held {type(arrival.body).__name__}" for arrival in held)
        self.seen.update(type(event.body).__name__ for _, event in applied.changes.events)
        self.seen.update(run.status.name for run in applied.changes.runs.values())
        self._delivered = {d for d in self._delivered if d[0] not in applied.changes.deleted}

    def _deliver_once(self, command: cmd.DeliverMessage) -> None:
        key = RunKey(command.namespace, command.workflow_id, command.run_id)
        assert (key, command.number) not in self._delivered, "a message was delivered twice"
        self._delivered.add((key, command.number))

    # ---- wishes -------------------------------------------------------------------------------

    def start(self, op: Operation) -> Command:
        command = make.start(
            WORKFLOWS[op.a % 3],
            "Unknown" if op.c == 11 else "Order",
            run_id=f"r{self.number()}",
            namespace=NAMESPACES[op.b % 5],
            execution_timeout_ms=(0, 0, 60_000)[op.c % 3],
            reuse=IdReusePolicy(op.b % 3),
            conflict=IdConflictPolicy(op.c % 2),
            request_id=f"q{op.c}" if op.c > 8 else "",
        )
        if op.a < 6:
            return command
        command = dataclasses.replace(command, search_attributes=ATTRIBUTES[op.b % 4], memo="{}")
        if op.a < 9:
            return command
        return dataclasses.replace(command, signal_name=NAMES[op.b % 2], signal_payload=b"with")

    def signal(self, op: Operation) -> Command:
        return make.signal(
            WORKFLOWS[op.a % 3],
            NAMES[op.b % 2],
            b"%d" % op.c,
            namespace=NAMESPACES[op.b % 5],
            request_id=f"s{op.c}" if op.c > 8 else "",
        )

    def end(self, op: Operation) -> Command:
        return self._told(op, cmd.TerminateRun if op.b % 2 else cmd.CancelRun)

    def ask_to_cancel(self, op: Operation) -> Command:
        command = self._told(op, cmd.CancelRun)
        assert isinstance(command, cmd.CancelRun)
        return dataclasses.replace(command, graceful=True)

    def pause(self, op: Operation) -> Command:
        return self._told(op, cmd.PauseRun)

    def unpause(self, op: Operation) -> Command:
        paused = [run.key for run in self.runs() if run.status is RunStatus.PAUSED]
        key = paused[op.a % len(paused)] if paused else RunKey("default", "a", "")
        return cmd.UnpauseRun(
            namespace=key.namespace,
            workflow_id=key.workflow_id,
            run_id=key.run_id,
            request_id=f"n{op.c}" if op.c > 9 else "",
        )

    def _told(
        self, op: Operation, kind: type[cmd.TerminateRun | cmd.CancelRun | cmd.PauseRun]
    ) -> Command:
        return kind(
            namespace="default",
            workflow_id=WORKFLOWS[op.a % 3],
            run_id=f"r{op.c}" if op.c > 8 else "",
            reason="enough",
            request_id=f"e{op.c}" if op.c > 9 else "",
        )

    def grant_decision(self, op: Operation) -> Command | None:
        runs = [r for r in self.runs() if r.decision.state is TaskState.QUEUED] or self.runs()
        if not runs:
            return None
        return make.grant_decision(runs[op.a % len(runs)], nonce=f"d{self.number()}")

    def grant_activity(self, op: Operation) -> Command | None:
        queued = [
            (run, step.sequence)
            for run in self.runs()
            for step in run.steps
            if step.task.state is TaskState.QUEUED or op.c == 11
        ]
        if not queued:
            return None
        run, sequence = queued[op.a % len(queued)]
        return make.grant_activity(
            run, sequence, nonce=f"a{self.number()}", attempt=op.c if op.c == 10 else 0
        )

    def decide(self, op: Operation) -> Command | None:
        live = [r for r in self.runs() if r.decision.state is TaskState.LEASED]
        if not live or op.a == 11:
            return self.decide_late(op)
        run = live[op.a % len(live)]
        if self.crowded and op.a % 4:
            op = dataclasses.replace(op, b=op.b % 10, c=op.c % 8)
        command = make.complete_decision(
            run.key.workflow_id,
            run.decision.token,
            *(fan_out() if self.crowded and not run.steps else program(run, op)),
            namespace=run.key.namespace,
            replay_error="broken" if op.b == 11 else "",
            nondeterminism=op.c % 2 == 0,
        )
        new_run_id = f"r{self.number()}" if op.c % 5 else "r1"
        return dataclasses.replace(command, eager=self._eager(op), new_run_id=new_run_id)

    def _eager(self, op: Operation) -> cmd.EagerPoll | None:
        if op.c % 3:
            return None
        names = ((), ("act", "Order"), ("other",))[op.a % 3]
        return make.eager(names=names, limit=op.b % 3, nonce=f"e{self.number()}")

    def press(self, op: Operation) -> Command | None:
        """Drive a run to where facts wait: one that makes its decision stale, the stale decision,
        the next grant; and then others."""
        busy = [r for r in self.runs() if r.decision.state is TaskState.LEASED]
        tired = [r for r in self.runs() if r.decision.state is TaskState.QUEUED]
        tired = [r for r in tired if r.stale_decisions]
        if not busy and not tired:
            return self.grant_decision(op)
        run = (busy + tired)[op.a % len(busy + tired)]
        namespace, workflow_id, run_id = run.key
        if run.decision.state is TaskState.QUEUED:
            return make.grant_decision(run, nonce=f"d{self.number()}")
        if f".{run.history_length}." not in run.decision.token:
            return make.complete_decision(workflow_id, run.decision.token, namespace=namespace)
        kind, sequence = op.b % 3, 0
        for step in run.steps:
            if kind == 0 and step.task.state is TaskState.LEASED:
                token = step.task.token
                if op.c % 2:
                    return make.fail_activity(workflow_id, token, namespace=namespace)
                return make.complete_activity(workflow_id, token, b"1", namespace=namespace)
            if kind == 0 and step.task.state is TaskState.QUEUED:
                sequence = step.sequence
            timer = self.harness.rows.timers.get((run.key, cmd.TimerKind.STEP, step.sequence))
            if kind == 1 and timer is not None and timer.fire_at_ms <= self.harness.time_ms:
                return make.fire_timer(timer)
        if sequence:
            return make.grant_activity(run, sequence, nonce=f"a{self.number()}")
        name = NAMES[op.c % 2]
        return make.signal(workflow_id, name, run_id=run_id, namespace=namespace)

    def decide_late(self, op: Operation) -> Command | None:
        if not self.tokens:
            return None
        namespace, workflow, token = self.tokens[op.b % len(self.tokens)]
        return make.complete_decision(
            workflow if op.c else "b",
            token,
            StartTimer(step_name="t", sequence=1, delay_ms=1),
            namespace="other" if op.c == 1 else namespace,
        )

    def complete(self, op: Operation) -> Command | None:
        live = [
            (run, step.task.token)
            for run in self.runs()
            for step in run.steps
            if step.task.state is TaskState.LEASED
        ]
        if live and op.a < 9:
            run, token = live[op.a % len(live)]
            namespace, workflow = run.key.namespace, run.key.workflow_id
        elif self.tokens:
            namespace, workflow, token = self.tokens[op.a % len(self.tokens)]
        else:
            return None
        if op.b % 3 == 0:
            return make.fail_activity(
                workflow,
                token,
                error_type="Fatal" if op.c % 4 == 0 else "",
                next_retry_delay_ms=9 if op.c == 7 else -1,
                namespace=namespace,
            )
        if op.b == 10:
            return cmd.RecordHeartbeat(
                namespace=namespace, workflow_id=workflow, lease_token=token, details=b"50%"
            )
        done = make.complete_activity(workflow, token, b"%d" % (op.c % 2), namespace=namespace)
        return dataclasses.replace(done, eager=self._eager(op))

    def give_back(self, op: Operation) -> Command | None:
        if not self.tokens:
            return None
        recent = self.tokens[-4:] if op.c % 3 else self.tokens
        namespace, workflow, token = recent[op.a % len(recent)]
        kind = cmd.ReturnTask if op.b % 2 else cmd.ExpireLease
        return kind(namespace=namespace, workflow_id=workflow, token=token)

    def fire(self, op: Operation) -> Command | None:
        rows = list(self.harness.rows.timers.values())
        due = [row for row in rows if row.fire_at_ms <= self.harness.time_ms] or rows
        if not due:
            return None
        row = due[op.a % len(due)]
        if op.c == 11:
            row = dataclasses.replace(row, fire_at_ms=row.fire_at_ms - 1)
        return make.fire_timer(row)

    def deliver(self, op: Operation) -> Command | None:
        rows = [(k, n, m) for k, box in self.harness.rows.outbox.items() for n, m in box.items()]
        if not rows:
            return None
        key, number, message = rows[op.a % len(rows)]
        new_run_id = "r1" if op.c == 11 else f"r{self.number()}"
        command = make.deliver(key, number, message, new_run_id=new_run_id)
        return command if op.b < 11 else dataclasses.replace(command, target_workflow_id="a")

    def delete(self, op: Operation) -> Command | None:
        closed = [run for run in self.runs() if not run.open or op.c == 11]
        if not closed:
            return None
        key = closed[op.a % len(closed)].key
        return make.delete(
            key.workflow_id,
            key.run_id if op.b % 6 else "",
            namespace=key.namespace,
            request_id=f"x{op.c}" if op.c > 9 else "",
            closed_before_ms=self.harness.time_ms if op.b > 8 else 0,
        )

    def retain(self, op: Operation) -> Command:
        return cmd.UpdateNamespace(
            namespace=NAMESPACES[op.a % 5],
            retention_ms=(0, 1, 5_000)[op.b % 3],
            request_id=f"u{op.c}" if op.c > 8 else "",
        )

    def bound(self, op: Operation) -> Command:
        return cmd.SetQuota(
            namespace=NAMESPACES[op.a % 5],
            max_open_runs=(0, 0, 1, 3)[op.b % 4],
            starts_per_second=(0, 0, 1, 50)[op.c % 4],
            request_id=f"b{op.c}" if op.c > 8 else "",
        )

    def mint(self, op: Operation) -> Command:
        known = sorted(self.harness.rows.tokens)
        return cmd.MintToken(
            token_id=format(self.number(), "012").translate(_BASE32),
            name="somebody",
            role=cmd.Role(op.a % 4 + 1),
            namespaces=(NAMESPACES[op.a % 5],) if op.b % 2 else (),
            sees_payloads=bool(op.b % 3),
            salt=b"s" * 16,
            digest=b"d" * 32,
            lifetime_ms=(0, 0, 1, 40_000)[op.c % 4],
            parent=known[op.b % len(known)] if known and op.c % 3 == 0 else "",
            request_id=f"m{op.c}" if op.c > 8 else "",
        )

    def revoke(self, op: Operation) -> Command:
        known = sorted(self.harness.rows.tokens)
        token_id = known[op.a % len(known)] if known else "nobody"
        return cmd.RevokeToken(token_id=token_id, request_id=f"m{op.c}" if op.c > 9 else "")

    def said_by_somebody(self, op: Operation) -> Command:
        """Whose token may be good, over, or none."""
        known = [*sorted(self.harness.rows.tokens), "", "nobody"]
        who = known[op.a % len(known)]
        origin = cmd.Origin(
            actor=who or "root", role=cmd.Role.USER, node="n1", address="10.0.0.9", token_id=who
        )
        said = (self.start, self.signal, self.end, self.mint, self.revoke, self.retain)
        command = said[op.b % len(said)](op)
        assert isinstance(command, cmd.Fact)
        return cmd.Attributed(origin=origin, command=command)

    def forget_audit(self, op: Operation) -> Command:
        audit = self.harness.rows.audit
        through = audit[op.a % len(audit)].audit_no if audit else 0
        return cmd.ForgetAudit(through=through, before_ms=self.harness.time_ms - 1_000 * op.b)

    def say_again(self, op: Operation) -> Command | None:
        recent = self._said[-12:]
        return recent[op.a % len(recent)] if recent else None

    def forget(self, op: Operation) -> Command:
        return cmd.ForgetRequests(before_ms=self.harness.time_ms + op.a - 5, limit=op.b)


_BASE32 = str.maketrans("0189", "abcd")

_WISHES: Sequence[Callable[[Player, Operation], Command | None]] = (
    Player.start,
    Player.start,
    Player.signal,
    Player.signal,
    Player.end,
    Player.ask_to_cancel,
    Player.pause,
    Player.unpause,
    Player.unpause,
    Player.grant_decision,
    Player.grant_decision,
    Player.grant_decision,
    Player.grant_decision,
    Player.grant_decision,
    Player.grant_decision,
    Player.decide,
    Player.decide,
    Player.decide,
    Player.decide,
    Player.decide,
    Player.decide,
    Player.decide_late,
    *[Player.press] * 8,
    Player.grant_activity,
    Player.grant_activity,
    Player.complete,
    Player.complete,
    Player.give_back,
    Player.fire,
    Player.fire,
    Player.deliver,
    Player.deliver,
    Player.deliver,
    Player.deliver,
    Player.deliver,
    Player.delete,
    Player.delete,
    Player.retain,
    Player.bound,
    Player.mint,
    Player.revoke,
    Player.said_by_somebody,
    Player.said_by_somebody,
    Player.said_by_somebody,
    Player.forget_audit,
    Player.say_again,
    Player.forget,
)

_WEIGHTS = {
    Player.start: 1,
    Player.signal: 2,
    Player.ask_to_cancel: 1,
    Player.pause: 1,
    Player.unpause: 2,
    Player.press: 16,
    Player.decide: 8,
    Player.grant_activity: 8,
    Player.complete: 8,
    Player.give_back: 1,
    Player.fire: 6,
    Player.deliver: 4,
}
_CROWDED = [_WISHES.index(wish) for wish, weight in _WEIGHTS.items() for _ in range(weight)]
