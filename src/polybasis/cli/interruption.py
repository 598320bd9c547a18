"""Ctrl-C and SIGTERM: the command stops within three seconds, and one line says what is kept."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

STOP_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
GRACE = 2.5  # seconds after which a process that native code keeps busy is ended
KEPT = "files that were complete are kept; run the same command again"


class Stopped(BaseException):
    """SIGINT or SIGTERM arrived; not an Exception, and not a KeyboardInterrupt, which Click and Optuna handle.

    Notes that were added to it say what is kept.
    """


class _Stopping:
    """Raises :class:`Stopped` in the main thread at the first signal and ignores further ones.

    Attributes:
        number: the signal.
        raised: whether it has arrived.
    """

    def __init__(self) -> None:
        self.number, self.raised = signal.SIGTERM, False
        self._ending = threading.Lock()
        self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        self._hook = sys.unraisablehook
        self._arrivals, write = os.pipe()
        if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12
            os.set_blocking(write, False)
        self._wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:  # nohup, and background jobs of a shell script
                signal.signal(number, self._raise)
        sys.unraisablehook = self._raise_again
        threading.Thread(target=self._watch, daemon=True).start()

    def _raise(self, number: int, _: FrameType | None) -> NoReturn:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        self.number, self.raised = signal.Signals(number), True
        raise Stopped

    def _raise_again(self, unraisable: Any) -> None:
        """Raises the exception again, a moment later, if it arrived in a destructor, where Python only prints it."""
        if not isinstance(unraisable.exc_value, Stopped):
            self._hook(unraisable)
            return
        main = ctypes.c_ulong(threading.main_thread().ident or 0)
        later = threading.Timer(0.01, ctypes.pythonapi.PyThreadState_SetAsyncExc, (main, ctypes.py_object(Stopped)))
        later.daemon = True
        later.start()

    def _watch(self) -> None:
        """Ends the process if it is still alive some time after a signal."""
        while arrived := os.read(self._arrivals, 1):
            if arrived[0] in STOP_SIGNALS:
                self.number = signal.Signals(arrived[0])
                time.sleep(GRACE)
                self.end(KEPT)
        os.close(self._arrivals)

    def end(self, kept: str) -> NoReturn:
        """Prints the line and ends the process, without the seconds that Python needs to unload large packages."""
        with self._ending:
            with suppress(OSError, ValueError):  # standard error or output may be closed
                print(f"polybasis: {STOP_SIGNALS[self.number]}; {kept}", file=sys.stderr, flush=True)
                sys.stdout.flush()
            os._exit(128 + self.number)

    def restore(self) -> None:
        """Restores the former handlers and ends the thread; does nothing after a signal, so that it keeps watching."""
        if self.raised:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook
        os.close(signal.set_wakeup_fd(self._wakeup))
        # Python would print a traceback for a Ctrl-C while it exits.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def run_stoppable(command: Callable[[], None]) -> None:
    """Runs a command; if SIGINT or SIGTERM arrives, prints one line and exits with status 130 or 143.

    A process that is still busy after :data:`GRACE` seconds is ended without further cleaning up: its temporary files
    are removed by the next process that writes in their folder.
    """
    if threading.current_thread() is not threading.main_thread():  # cannot receive signals
        command()
        return
    stopping = _Stopping()
    try:
        try:
            command()
        finally:
            stopping.restore()
    except BaseException as error:
        if not stopping.raised:
            raise
        # Python and extension modules may replace the exception, for example by a RuntimeError in __set_name__.
        notes = error.__notes__ if isinstance(error, Stopped) and hasattr(error, "__notes__") else [KEPT]
        stopping.end("; ".join(notes))
