"""Work on a Ray cluster, for those who have one."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any


def spread(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    address: str,
    processors: int = 1,
    memory: int | None = None,
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Calls a function with each job's arguments, somewhere on a cluster, as many at a time as fit.

    A job whose machine is lost is started again on another. Files are shared: the machines see the same paths.

    Args:
        function: of an installed module.
        jobs: arguments of each call.
        address: of the cluster's head, or ``auto``: the one that this machine is part of, else this machine alone.
        processors, memory: what a job needs; memory in bytes.

    Yields:
        The job's number, in the order in which they end, and a function for its result, which raises what it raised.

    Raises:
        ImportError: where Ray is not installed.
        ConnectionError: where there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("--ray needs Ray; install it with: pip install 'polybasis[ray]'") from error
    own = not ray.is_initialized()
    if own:
        if address != "auto":
            _knock(address)
        ray.init(None if address == "auto" else address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        task = ray.remote(function).options(num_cpus=processors, memory=memory, max_retries=5)
        waiting = {task.remote(*job): number for number, job in enumerate(jobs)}
        while waiting:
            (ended, *_), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(ended), partial(ray.get, ended)
    finally:
        if own:
            ray.shutdown()


def _knock(address: str) -> None:
    """Refuses an address where nobody answers; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address} ({error}); expected HOST:PORT, or auto") from error
