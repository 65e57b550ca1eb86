"""Logs for people and machines: one structlog event per decision, to standard error."""

from __future__ import annotations

import logging
import sys

import grpc
import structlog


def configure(*, level: str, style: str, node_id: str) -> None:
    """Set up logging for the process. ``style`` is ``json`` (one object a line) or ``text``."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)
    renderer: structlog.types.Processor
    if style == "json":
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(node=node_id)


def _is_news(record: logging.LogRecord) -> bool:
    """gRPC tells with a traceback that an answer went nowhere: its caller had hung up, or the call
    had been ended by gRPC itself, as one whose message is over the limit is."""
    problem = record.exc_info[1] if record.exc_info else None
    return not (isinstance(problem, grpc.aio.InternalError) and "execute_batch" in str(problem))
