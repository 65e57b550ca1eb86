"""Logs for people and machines: one structlog event per decision, to standard error."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import grpc
import structlog

from raftflow.cluster.printable import escaped_json, printable, printable_lines


def configure(*, level: str, style: str, node_id: str) -> None:
    """Set up logging for the process. ``style`` is ``json`` (one object a line) or ``text``."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)
    renderer: structlog.types.Processor
    if style == "json":
        renderer = structlog.processors.JSONRenderer(serializer=_json)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *([_legible] if style == "text" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(node=node_id)


def _json(event: dict[str, Any], **settings: Any) -> str:
    """Ids and errors come from outside: a log is read on terminals, too."""
    return escaped_json(json.dumps(event, ensure_ascii=False, **settings))


def _legible(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {
        name: printable_lines(value) if name == "exception" else _shown(value)
        for name, value in event.items()
    }


def _shown(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _is_news(record: logging.LogRecord) -> bool:
    """gRPC tells with a traceback that an answer went nowhere: its caller had hung up, or the call
    had been ended by gRPC itself, as one whose message is over the limit is."""
    problem = record.exc_info[1] if record.exc_info else None
    return not (isinstance(problem, grpc.aio.InternalError) and "execute_batch" in str(problem))
