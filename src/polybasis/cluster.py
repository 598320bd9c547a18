"""Parallel function calls on a Ray cluster."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any


def map_on_ray(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    address: str,
    processors: int = 1,
    memory: int | None = None,
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Calls a function with the arguments of each job on a cluster, running as many jobs at a time as fit.

    A job whose machine is lost is restarted on another one. All machines must see the same files under the same paths.

    Args:
        function: a function defined in an installed module.
        jobs: arguments of each call.
        address: address of the cluster's head node, or ``auto`` for the cluster this machine belongs to, or else this
            machine.
        processors, memory: number of processors and bytes of memory that a job needs.

    Yields:
        In the order of completion: the job's index, and a function that returns its result or raises its exception.

    Raises:
        ImportError: if Ray is not installed.
        ConnectionError: if there is no cluster at the address, or Ray does not start.
        ValueError: if no machine of the cluster is large enough.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("--ray needs Ray; install it with: pip install 'polybasis[ray]'") from error
    own = not ray.is_initialized()
    if own:
        if address != "auto":
            _check_address(address)
        with _own_sigterm_handler():
            try:
                ray.init(None if address == "auto" else address, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # Ray has no class for it: its processes did not start in time, for example
                raise ConnectionError(f"Ray did not start: {str(error).splitlines()[0]}") from error
    try:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        if not any(m.get("CPU", 0) >= processors and m.get("memory", 0) >= (memory or 0) for m in machines):
            raise ValueError(
                f"no machine of the cluster has {processors} processors and {(memory or 0) / 2**30:.2f} GiB: "
                "request less or add a machine"
            )
        task = ray.remote(function).options(num_cpus=processors, memory=memory, max_retries=5)
        waiting = {task.remote(*job): number for number, job in enumerate(jobs)}
        while waiting:
            ended = _first_ended(ray, list(waiting))
            yield waiting.pop(ended), partial(_result, ray, ended)
    finally:
        if own:
            ray.shutdown()


def _first_ended(ray: Any, references: list[Any]) -> Any:
    """Waits for a task; raises the original exception if a signal handler raises one."""
    try:
        (ended, *_), _ = ray.wait(references, num_returns=1)
    except SystemError as error:  # Ray lets the exception pass as a result
        raise error.__cause__ or error from None
    return ended


@contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """Restores the handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _result(ray: Any, reference: Any) -> Any:
    """The result of a task; raises the original exception instead of Ray's wrapper."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise ConnectionError(f"the cluster lost a task: {str(error).splitlines()[0]}") from error


def _check_address(address: str) -> None:
    """Raises ConnectionError for an address that does not answer; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address} ({error}); expected HOST:PORT, or auto") from error
