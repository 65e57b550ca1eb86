"""Golden scripts of the engine: directives in, answers, events and effects out.

Tokens go by the name that `as=` gave them. Every directive takes `advance=` (ms of log time before
it), `ns=` and `by=` (the token that says it; `by=:name` is a line of a token file). What comes out:
the answer; new events with their ids, and with ~ facts that wait to be events; effects, indented;
how the run stands, when it changed; and rows of the audit log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import datadriven
import engine_harness as make
from engine_harness import BIRTH_MS, EngineHarness

from raftflow.engine import commands as cmd
from raftflow.engine.commands import (
    AwaitSignal,
    CancelStep,
    Command,
    CompleteWorkflow,
    ContinueAsNew,
    EagerPoll,
    FailWorkflow,
    RecordMarker,
    StartChildWorkflow,
    StartTimer,
    TimerKind,
    UpsertSearchAttributes,
    WorkflowCommand,
)
from raftflow.engine.describe import waiting_on
from raftflow.engine.effects import HistoryGrew, StepResolved, TokenEnded
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import Answer, Done, Granted, Minted, Rejection, Started
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.engine.state import AuditRecord, EndChild, Run

_TESTDATA = Path(__file__).resolve().parent.parent / "engine" / "testdata"

# Left out of what is shown: said by the directive, or the same everywhere.
_QUIET = {"run", "namespace", "workflow_id", "run_id", "format_version", "node", "poll_id"}


def scripts(folder: str) -> list[Path]:
    found = sorted((_TESTDATA / folder).glob("*.txt"))
    assert found, f"no scripts in {folder}"
    return found


def play(path: Path, *, rewrite: bool) -> None:
    script = _Script()

    def say(line: str, lines: tuple[str, ...]) -> str:
        (verb, *words), options = _parse(line)
        return script.execute(_Directive(verb, tuple(words), options, lines))

    datadriven.run(path, say, rewrite=rewrite)


@dataclasses.dataclass(frozen=True, slots=True)
class _Directive:
    """`verb word... key=value...`, and the lines of input that followed."""

    verb: str
    words: tuple[str, ...]
    options: dict[str, str]
    input: tuple[str, ...]


def _parse(line: str) -> tuple[list[str], dict[str, str]]:
    pieces = [piece.partition("=") for piece in line.split()]
    words = [piece[0] for piece in pieces if not piece[1]]
    return words, {key: value for key, equals, value in pieces if equals}


class _Script:
    def __init__(self) -> None:
        self.harness = EngineHarness()
        self.harness.register("Order")
        self.tokens: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def execute(self, directive: _Directive) -> str:
        verb, options = directive.verb, directive.options
        if verb == "reload":
            self.harness.reload()
            return "ok"
        if verb == "limits":
            self.harness.limits = Limits(**{k: int(v) for k, v in options.items()})
            return "ok"
        if verb == "level":
            self.harness.feature_level = int(directive.words[0])
            return "ok"
        if verb == "show":
            return self._show(directive)
        before = {key: self._stand(key) for key in self.harness.rows.runs}
        command = _by(_BUILD[verb](self, directive), options.get("by", ""))
        applied = self.harness.apply(command, advance_ms=int(options.get("advance", "0")))
        answer = applied.replies[0].answer
        if isinstance(answer, Granted):
            self._name(options.get("as", "t"), answer.token)
        if isinstance(answer, Done):
            for position, token in enumerate(answer.handed, start=1):
                self._name(f"{options.get('as', 'h')}{position}", token)
        out = [self._answer(answer)]
        for key, event in applied.changes.events:
            out.append(
                f"{event.event_id:>3} {self._fields(event.body)}{self._foreign(key, command)}"
            )
        out += [
            f" ~{number} {self._fields(arrival.body)}{self._foreign(key, command)}"
            for (key, number), arrival in applied.changes.arrivals.items()
            if arrival is not None
        ]
        out += [
            f"    {self._fields(effect)}{self._foreign(effect.run, command)}"
            for effect in applied.effects
            if not isinstance(effect, HistoryGrew | StepResolved | TokenEnded)
        ]
        out += [
            f"    {self._fields(effect)}"
            for effect in applied.effects
            if isinstance(effect, TokenEnded)
        ]
        stands = [(self._stand(key), before.get(key)) for key in applied.changes.runs]
        out += [now for now, then in stands if now != then]
        out += [f"{key.workflow_id}/{key.run_id} forgotten" for key in applied.changes.deleted]
        changed = applied.changes.tokens.items()
        out += [f"{token_id} forgotten" for token_id, record in changed if record is None]
        out += [_audit(row) for row in applied.changes.audit]
        return "\n".join(out)

    # ---- showing ------------------------------------------------------------------------------

    def _name(self, name: str, token: str) -> None:
        self.tokens[name] = token
        self.names[token] = name

    def _answer(self, answer: Answer) -> str:
        match answer:
            case Done() if answer.handed:
                return f"done, handed {' '.join(self.names[token] for token in answer.handed)}"
            case Done():
                return "done"
            case Started():
                return f"started {answer.run_id}{'' if answer.started else ' before'}"
            case Granted():
                return f"granted {self.names[answer.token]}"
            case Minted():
                until = f" until +{answer.expires_ms - BIRTH_MS}" if answer.expires_ms else ""
                return f"minted {answer.token_id}{until}"
            case Rejection():
                cancelled = " cancelled" if answer.cancelled else ""
                return f"{answer.reason.name}{cancelled}: {answer.message}"

    def _fields(self, thing: object) -> str:
        assert dataclasses.is_dataclass(thing)
        shown = [type(thing).__name__]
        for field in dataclasses.fields(thing):
            value = getattr(thing, field.name)
            if field.name in _QUIET or value in ("", b"", 0, (), NO_RETRY, field.default):
                continue
            shown.append(f"{field.name}={self._value(field.name, value)}")
        return " ".join(shown)

    def _value(self, name: str, value: object) -> str:
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, RetryPolicy):
            return f"{value.max_attempts}x{value.initial_backoff_ms}ms"
        if name in ("fire_at_ms", "started_ms") and isinstance(value, int):
            return f"+{value - BIRTH_MS}"
        return self.names.get(str(value), str(value))

    def _foreign(self, key: RunKey, command: Command) -> str:
        if key.workflow_id != getattr(command, "workflow_id", key.workflow_id):
            return f" @{key.workflow_id}/{key.run_id}"
        about = getattr(command, "run_id", "") or "r1"
        return "" if key.run_id == about else f" @{key.run_id}"

    def _stand(self, key: RunKey) -> str:
        run = self.harness.rows.load_run(key)
        assert run is not None
        reason = f" ({run.suspended_reason})" if run.suspended_reason else ""
        return f"{key.workflow_id}/{key.run_id} {run.status.name}{reason}"

    def _show(self, directive: _Directive) -> str:
        run = self._run(directive)
        out = [self._stand(run.key)]
        named = ("search_attributes", "memo", "continued_from_run_id", "continued_to_run_id")
        told = ("cancel_requested_event_id", "cancel_reason")
        values = [(name, getattr(run, name)) for name in named + told]
        out += [f"  {name}: {self._value(name, value)}" for name, value in values if value]
        results = [(name, getattr(run, name)) for name in ("output", "error", "error_type")]
        out += [f"  {name}: {self._value(name, value)}" for name, value in results if value]
        for step in run.steps:
            text = f"  step {step.sequence} {step.kind.name} {step.name} {step.status.name}"
            for name in ("marker", "attempts", "output", "error", "error_type", "last_error"):
                if getattr(step, name):
                    text += f" {name}={self._value(name, getattr(step, name))}"
            out.append(text)
        out += [
            f"  signal {s.event_id} {s.name}={s.payload.decode()}" for s in run.signals.values()
        ]
        out += [
            f"  arrival {number} {self._fields(arrival.body)}"
            for number, arrival in run.arrivals.items()
        ]
        for number, message in run.outbox.items():
            out.append(f"  owes {number} {self._fields(message)}")
        for wait in waiting_on(run):
            which = f" {wait.sequence}" if wait.sequence else ""
            state = "ARRIVED" if wait.arrived else wait.task.name
            out.append(f"  waits for {wait.kind}{which} {state}")
        return "\n".join(out)

    # ---- building commands --------------------------------------------------------------------

    def _run(self, directive: _Directive) -> Run:
        namespace = directive.options.get("ns", DEFAULT_NAMESPACE)
        return self.harness.run(directive.words[0], directive.options.get("run", ""), namespace)

    def token(self, directive: _Directive) -> str:
        name = directive.options.get("token", "t")
        return self.tokens.get(name, name)

    def start(self, directive: _Directive) -> Command:
        get = directive.options.get
        command = make.start(
            directive.words[0],
            get("type", "Order"),
            run_id=get("run", "r1"),
            namespace=get("ns", DEFAULT_NAMESPACE),
            input=get("input", "").encode(),
            task_queue=get("queue", "default"),
            execution_timeout_ms=int(get("timeout", "0")),
            reuse=cmd.IdReusePolicy[get("reuse", "REJECT_DUPLICATE")],
            conflict=cmd.IdConflictPolicy[get("conflict", "FAIL")],
            request_id=get("request", ""),
        )
        return dataclasses.replace(
            command,
            signal_name=get("signal", ""),
            signal_payload=get("payload", "").encode(),
            search_attributes=_attributes(directive.words[1:]),
            memo=get("memo", ""),
        )

    def signal(self, directive: _Directive) -> Command:
        get = directive.options.get
        workflow, name, *payload = directive.words
        return make.signal(
            workflow,
            name,
            " ".join(payload).encode(),
            run_id=get("run", ""),
            namespace=get("ns", DEFAULT_NAMESPACE),
            request_id=get("request", ""),
        )

    def end(self, directive: _Directive) -> Command:
        get = directive.options.get
        words = [word for word in directive.words[1:] if word != "gracefully"]
        end = cmd.CancelRun(
            namespace=get("ns", DEFAULT_NAMESPACE),
            workflow_id=directive.words[0],
            run_id=get("run", ""),
            reason=" ".join(words),
            request_id=get("request", ""),
            graceful="gracefully" in directive.words,
        )
        if directive.verb == "cancel":
            return end
        fields = dataclasses.asdict(end)
        del fields["graceful"]
        return (cmd.TerminateRun if directive.verb == "terminate" else cmd.PauseRun)(**fields)

    def unpause(self, directive: _Directive) -> Command:
        get = directive.options.get
        return cmd.UnpauseRun(
            namespace=get("ns", DEFAULT_NAMESPACE),
            workflow_id=directive.words[0],
            run_id=get("run", ""),
            request_id=get("request", ""),
        )

    def grant(self, directive: _Directive) -> Command:
        get, run = directive.options.get, self._run(directive)
        nonce = f"n{self.harness.index}"
        if "step" not in directive.options:
            return make.grant_decision(run, nonce=nonce)
        sequence, attempt = int(get("step", "0")), int(get("attempt", "0"))
        return make.grant_activity(run, sequence, nonce=nonce, attempt=attempt)

    def decide(self, directive: _Directive) -> Command:
        options = directive.options
        command = make.complete_decision(
            directive.words[0],
            self.token(directive),
            *[_workflow_command(line) for line in directive.input],
            namespace=options.get("ns", DEFAULT_NAMESPACE),
            replay_error=options.get("replay_error", ""),
            nondeterminism="nondeterminism" in directive.words,
        )
        new_run_id = options.get("new_run", "")
        return dataclasses.replace(command, eager=self.eager(directive), new_run_id=new_run_id)

    def eager(self, directive: _Directive) -> EagerPoll | None:
        """`eager=2` takes two tasks along; `names=` and `queue=` say which."""
        get = directive.options.get
        if "eager" not in directive.options:
            return None
        return make.eager(
            names=tuple(filter(None, get("names", "").split(","))),
            task_queue=get("queue", "default"),
            limit=int(get("eager", "1")),
            nonce=f"e{self.harness.index}",
        )

    def complete(self, directive: _Directive) -> Command:
        options = directive.options
        command = make.complete_activity(
            directive.words[0],
            self.token(directive),
            options.get("output", "").encode(),
            namespace=options.get("ns", DEFAULT_NAMESPACE),
        )
        return dataclasses.replace(
            command,
            sequence=int(options.get("sequence", "0")),
            step_name=options.get("step_name", ""),
            eager=self.eager(directive),
        )

    def fail(self, directive: _Directive) -> Command:
        options = directive.options
        return make.fail_activity(
            directive.words[0],
            self.token(directive),
            options.get("error", "boom"),
            error_type=options.get("type", ""),
            non_retryable="non_retryable" in directive.words,
            next_retry_delay_ms=int(options.get("delay", "-1")),
            namespace=options.get("ns", DEFAULT_NAMESPACE),
        )

    def by_token(self, directive: _Directive) -> Command:
        namespace, workflow = directive.options.get("ns", DEFAULT_NAMESPACE), directive.words[0]
        token = self.token(directive)
        if directive.verb == "return":
            return cmd.ReturnTask(namespace=namespace, workflow_id=workflow, token=token)
        if directive.verb == "expire":
            return cmd.ExpireLease(namespace=namespace, workflow_id=workflow, token=token)
        details = directive.options.get("details", "").encode()
        return cmd.RecordHeartbeat(
            namespace=namespace, workflow_id=workflow, lease_token=token, details=details
        )

    def fire(self, directive: _Directive) -> Command:
        """`fire order-1 STEP 2`, by default for the time at which it is armed (else `at=`)."""
        run, kind = self._run(directive), TimerKind[directive.words[1]]
        sequence = int(directive.words[2]) if len(directive.words) > 2 else 0
        row = self.harness.rows.timers.get((run.key, kind, sequence))
        armed_ms = row.fire_at_ms if row else self.harness.time_ms
        at = directive.options.get("at")
        return cmd.FireTimer(
            namespace=run.key.namespace,
            workflow_id=run.key.workflow_id,
            run_id=run.key.run_id,
            kind=kind,
            sequence=sequence,
            fire_at_ms=BIRTH_MS + int(at) if at else armed_ms,
        )

    def namespace(self, directive: _Directive) -> Command:
        return cmd.CreateNamespace(
            namespace=directive.words[0],
            retention_ms=int(directive.options.get("retention", "0")),
            request_id=directive.options.get("request", ""),
        )

    def mint(self, directive: _Directive) -> Command:
        """An id has 12 characters; `for=` is its lifetime, `parent=` makes it a session."""
        get = directive.options.get
        (token_id,) = directive.words
        return cmd.MintToken(
            token_id=token_id,
            name=get("name", "somebody"),
            role=cmd.Role[get("role", "user").upper()],
            namespaces=tuple(filter(None, get("ns", "").split(","))),
            sees_payloads="payloads" in directive.options,
            salt=b"s" * int(get("salt", "16")),
            digest=b"d" * 32,
            lifetime_ms=int(get("for", "0")),
            parent=get("parent", ""),
            request_id=get("request", ""),
        )

    def revoke(self, directive: _Directive) -> Command:
        return cmd.RevokeToken(
            token_id=directive.words[0], request_id=directive.options.get("request", "")
        )

    def record(self, directive: _Directive) -> Command:
        call, target, outcome = directive.words
        return cmd.RecordCall(call=call, target=target, outcome=outcome)

    def deliver(self, directive: _Directive) -> Command:
        """`deliver order-1 1`, as the row says; `child=` is the run id of a child that starts,
        `to=` and `to_run=` another target."""
        get, run = directive.options.get, self._run(directive)
        number = int(directive.words[1])
        message = run.outbox.get(number, EndChild(0, "", False, ""))
        command = make.deliver(run.key, number, message, new_run_id=get("child", "c1"))
        return dataclasses.replace(
            command,
            target_workflow_id=get("to", command.target_workflow_id),
            target_run_id=get("to_run", command.target_run_id),
        )

    def delete(self, directive: _Directive) -> Command:
        get = directive.options.get
        before = get("closed_before")
        return make.delete(
            directive.words[0],
            get("run", "r1"),
            namespace=get("ns", DEFAULT_NAMESPACE),
            request_id=get("request", ""),
            closed_before_ms=BIRTH_MS + int(before) if before else 0,
        )

    def update(self, directive: _Directive) -> Command:
        return cmd.UpdateNamespace(
            namespace=directive.words[0],
            retention_ms=int(directive.options.get("retention", "0")),
            request_id=directive.options.get("request", ""),
        )

    def quota(self, directive: _Directive) -> Command:
        return cmd.SetQuota(
            namespace=directive.words[0],
            max_open_runs=int(directive.options.get("open", "0")),
            starts_per_second=int(directive.options.get("starts", "0")),
            request_id=directive.options.get("request", ""),
        )

    def register(self, directive: _Directive) -> Command:
        namespace = directive.options.get("ns", DEFAULT_NAMESPACE)
        return cmd.RegisterTypes(namespace=namespace, workflow_types=directive.words)


def _by(command: Any, who: str) -> Command:
    if not who:
        return command
    named = who.startswith(":")
    origin = cmd.Origin(
        actor=who[1:] if named else who,
        role=cmd.Role.ADMIN,
        node="n1",
        address="10.0.0.9",
        token_id="" if named else who,
    )
    return cmd.Attributed(origin=origin, command=command)


def _audit(row: AuditRecord) -> str:
    where = f"{row.audit_no >> 16}.{row.audit_no & 0xFFFF}"
    said = (row.actor, row.call, row.namespace, row.target, row.run_id, row.detail, row.outcome)
    return " | ".join([f"audit {where}", *filter(None, said)])


def _attributes(words: Sequence[str]) -> cmd.Attributes:
    """`city:"Kiel"`: name and JSON."""
    return tuple((name, value) for name, _, value in [word.partition(":") for word in words])


def _workflow_command(line: str) -> WorkflowCommand:
    (verb, *words), options = _parse(line)
    match verb:
        case "activity":
            attempts, _, backoff = options.get("retry", "1").partition("x")
            retry = RetryPolicy(
                max_attempts=int(attempts),
                initial_backoff_ms=int(backoff or "0"),
                non_retryable_error_types=tuple(filter(None, [options.get("fatal")])),
                jitter_milli=int(options.get("jitter", "0")),
                jitter_seed=int(options.get("seed", "0")),
            )
            return dataclasses.replace(
                make.activity(int(words[0]), words[1], retry=retry),
                input=options.get("input", "").encode(),
                task_queue=options.get("queue", ""),
                start_to_close_timeout_ms=int(options.get("start_to_close", "0")),
                schedule_to_close_timeout_ms=int(options.get("schedule_to_close", "0")),
                schedule_to_start_timeout_ms=int(options.get("schedule_to_start", "0")),
                priority=int(options.get("priority", "3")),
            )
        case "timer":
            return StartTimer(sequence=int(words[0]), step_name=words[1], delay_ms=int(words[2]))
        case "await":
            return AwaitSignal(sequence=int(words[0]), step_name=words[1], signal_name=words[2])
        case "marker":
            return RecordMarker(
                sequence=int(words[0]),
                step_name=words[1],
                marker=words[2],
                data=" ".join(words[3:]).encode(),
            )
        case "cancel_step":
            reason = " ".join(words[2:])
            return CancelStep(sequence=int(words[0]), step_name=words[1], reason=reason)
        case "upsert":
            return UpsertSearchAttributes(attributes=_attributes(words))
        case "continue":
            return ContinueAsNew(
                input=" ".join(words).encode(),
                workflow_type=options.get("type", ""),
                task_queue=options.get("queue", ""),
                execution_timeout_ms=int(options.get("timeout", "-1")),
            )
        case "child":
            return StartChildWorkflow(
                sequence=int(words[0]),
                step_name=words[1],
                workflow_type=options.get("type", "Order"),
                workflow_id=options.get("id", ""),
                input=options.get("input", "").encode(),
                task_queue=options.get("queue", ""),
                parent_close_policy=cmd.ParentClosePolicy[options.get("policy", "TERMINATE")],
            )
        case "complete":
            return CompleteWorkflow(output=" ".join(words).encode())
        case "fail":
            return FailWorkflow(
                error=" ".join(words),
                error_type=options.get("type", ""),
                cancelled="cancelled" in options,
            )
        case _:
            raise ValueError(f"no such workflow command: {line}")


_BUILD: dict[str, Callable[[_Script, _Directive], Command]] = {
    "start": _Script.start,
    "signal": _Script.signal,
    "terminate": _Script.end,
    "cancel": _Script.end,
    "pause": _Script.end,
    "unpause": _Script.unpause,
    "grant": _Script.grant,
    "decide": _Script.decide,
    "complete": _Script.complete,
    "fail": _Script.fail,
    "return": _Script.by_token,
    "expire": _Script.by_token,
    "heartbeat": _Script.by_token,
    "fire": _Script.fire,
    "namespace": _Script.namespace,
    "register": _Script.register,
    "update": _Script.update,
    "quota": _Script.quota,
    "mint": _Script.mint,
    "revoke": _Script.revoke,
    "record": _Script.record,
    "deliver": _Script.deliver,
    "delete": _Script.delete,
}
