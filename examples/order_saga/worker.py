"""A worker for the order saga: python examples/order_saga/worker.py [ADDRESS...]"""

import sys

import activities
from workflows import WORKFLOWS

from raftflow_sdk import Worker

# The nodes of `raftflow dev`.
ADDRESSES = [f"http://127.0.0.1:{port}" for port in (8233, 8234, 8235)]


def main(addresses: list[str]) -> None:
    worker = Worker(addresses=addresses)
    for name, code in WORKFLOWS.items():
        worker.workflow(name)(code)
    for activity in (activities.reserve, activities.charge, activities.release, activities.ship):
        worker.activity(activity.__name__)(activity)
    print(f"working at {', '.join(addresses)} until Ctrl-C", flush=True)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1:] or ADDRESSES)
