"""How a process ends that must not go on: at once. Its status says whether to start it again."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

from raftflow.cluster.consensus.outcast import Outcast

EXIT_FATAL = 70
EXIT_REFUSED = 78  # sysexits.h EX_CONFIG: to start again changes nothing


def exit_process(error: BaseException) -> NoReturn:
    """Nothing may be acknowledged after a broken invariant or disk: no cleanup."""
    status = EXIT_REFUSED if isinstance(error, Outcast) else EXIT_FATAL
    try:
        logging.shutdown()
        if status == EXIT_REFUSED:
            print(f"raftflow: {error}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
