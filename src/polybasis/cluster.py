"""A Ray cluster, for those who have one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster.

    Args:
        address: of its head, or ``auto``: the cluster that this machine is part of, else this machine alone.

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
        try:
            ray.init(None if address == "auto" else address, log_to_driver=False, logging_level="error")
        except ConnectionError as error:
            raise ConnectionError(f"there is no Ray cluster at {address}: {error}") from error
    try:
        yield ray
    finally:
        if own:
            ray.shutdown()
