"""Bounds that apply enforces. They are part of the log's meaning: each entry is applied under the
limits that travel with it, so that nodes with different flags never diverge."""

from __future__ import annotations

from dataclasses import dataclass

# The longest timer, timeout or retention (100 years): sums with it stay within 64 bits for ever.
MAX_DURATION_MS = 100 * 365 * 24 * 3_600_000
MAX_SEARCH_ATTRIBUTES = 100
MAX_SEARCH_ATTRIBUTE_BYTES = 2 << 10
# Of activities: 1 goes first. The usual one is what 0 stands for wherever it is written, for ever.
FIRST_PRIORITY, USUAL_PRIORITY, LAST_PRIORITY = 1, 3, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Per-run bounds (counts, bytes). A refusal names field, size and limit."""

    max_payload_bytes: int = 2 << 20
    max_history_events: int = 50_000
    max_history_bytes: int = 50 << 20
    max_open_steps: int = 2_000
    max_untaken_signals: int = 10_000
    suggest_continue_as_new_at: int = 4_096


DEFAULT_LIMITS = Limits()
