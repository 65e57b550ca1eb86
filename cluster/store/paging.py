"""Page after page along an index, each beginning behind the last row of the one before.

In a damaged file a page may begin before that, and whoever reads on until there is no more would
never come to an end. So each page is looked at: a row that is not behind its predecessor is damage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raftflow.cluster.codec.shapes import UnknownValue


def forward(keys: Iterable[Any], after: Any) -> None:
    """Raises UnknownValue unless each key is greater than the one before it, the first one than
    ``after``."""
    for key in keys:
        try:
            goes_on = key > after
        except TypeError:
            goes_on = False
        if not goes_on:
            raise UnknownValue(f"{key!r:.80} comes behind {after!r:.80}")
        after = key
