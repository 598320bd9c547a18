"""A pool of processes that end with the process that started them, and whose finished results can be collected.

This module imports nothing large: a worker must be tied to its parent before it imports torch.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from polybasis.processes import end_with_parent, uninterrupted

PATIENCE = 1.0  # seconds between SIGTERM and SIGKILL to a worker


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    label: Any = None


class WorkerPool:
    """Processes that call functions, one call at a time each.

    The workers do not receive Ctrl-C: this process stops them. They end when this process ends, however it ends.

    Args:
        size: number of workers.
    """

    def __init__(self, size: int) -> None:
        # Spawn the workers: forking a process that has used threads may deadlock.
        context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        try:
            with _ctrl_c_blocked():
                for _ in range(size):
                    here, there = context.Pipe()
                    process = context.Process(target=_serve, args=(there, os.getpid()), daemon=True)
                    with uninterrupted():
                        process.start()
                        self._idle.append(_Worker(process, here))
                    there.close()
        except BaseException:
            self.stop()
            raise

    @property
    def idle(self) -> int:
        """Number of workers that wait for a call."""
        return len(self._idle)

    @property
    def busy(self) -> int:
        """Number of workers that are at work."""
        return len(self._busy)

    def submit(self, label: Any, function: Callable[..., Any], *arguments: Any) -> None:
        """Starts a call in an idle worker.

        Args:
            label: identifies the call.
            function: a function of a module.
            *arguments: its arguments.
        """
        with uninterrupted():
            worker = self._idle.pop()
            worker.label = label
            self._busy.append(worker)
            with suppress(BrokenPipeError):  # the worker was killed; collect() reports it
                worker.connection.send((function, arguments))

    def collect(self, handle: Callable[[Any, Any], None]) -> None:
        """Waits until at least one call ends, and handles those that have ended.

        Args:
            handle: called with the label of a call and its value, or the exception that it raised, or a
                ChildProcessError if its worker was killed; signals do not separate its end from this call.
        """
        wait([worker.connection for worker in self._busy])
        self._handle_ended(handle)

    def _handle_ended(self, handle: Callable[[Any, Any], None]) -> None:
        for worker in list(self._busy):
            with uninterrupted():
                if worker.connection.poll():
                    self._busy.remove(worker)
                    outcome = self._receive(worker)
                    handle(worker.label, outcome)

    def _receive(self, worker: _Worker) -> Any:
        try:
            outcome = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            return ChildProcessError(f"a worker process was ended by {_cause(worker.process.exitcode)}")
        except Exception as error:  # an exception that cannot be unpickled
            outcome = RuntimeError(f"a call ended with an error that cannot be read ({error})")
        self._idle.append(worker)
        return outcome

    def stop(self, handle: Callable[[Any, Any], None] | None = None) -> None:
        """Ends all workers, whatever they are doing.

        Args:
            handle: called for calls that had ended before; see :meth:`collect`.
        """
        workers = [*self._idle, *self._busy]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join(PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        if handle is not None:

            def handle_finished(label: Any, outcome: Any) -> None:
                if not isinstance(outcome, ChildProcessError):
                    handle(label, outcome)

            self._handle_ended(handle_finished)
        for worker in workers:
            worker.connection.close()


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Blocks SIGINT in this thread and in processes started by it; does nothing on Windows, which has no such masks."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # here, because it unblocks signals
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _cause(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


def _serve(connection: Connection, parent: int) -> None:
    end_with_parent(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for function, arguments in _calls(connection):
        try:
            outcome = function(*arguments)
        except Exception as error:
            error.add_note(f"in a worker process:\n{traceback.format_exc()}")
            outcome = error
        try:
            connection.send(outcome)
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:  # it cannot be pickled
            connection.send(RuntimeError(f"{type(outcome).__name__}: {outcome} ({error})"))


def _calls(connection: Connection) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return
