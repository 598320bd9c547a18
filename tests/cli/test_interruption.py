"""Signals end a command with one line and the right status, wherever they arrive."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from polybasis.cli.interruption import run_stoppable

WAIT = "(print(flush=True), time.sleep(60))"
PLACES = {
    "Python": WAIT,
    "native code that does not return": "print(flush=True); hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
    "a class body, where Python replaces exceptions": f"""
    class Descriptor:
        def __set_name__(self, *_):
            {WAIT}
    class Owner:
        descriptor = Descriptor()
    """,
    "a destructor, where Python ignores exceptions": f"""
    class Resource:
        def __del__(self):
            {WAIT}
    Resource()
    while True:
        pass
    """,
}
COMMAND = """
import hashlib, time
from polybasis.cli.interruption import run_stoppable
def work():
    {place}
run_stoppable(work)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_ends_a_command_with_one_line(place: str, number: signal.Signals) -> None:
    command = ["env", "--default-signal=INT", sys.executable, "-c", COMMAND.format(place=PLACES[place].lstrip())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert errors == f"polybasis: {word}; files that were complete are kept; run the same command again\n"
    assert process.returncode == 128 + number


def test_errors_of_a_command_pass_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook

    def fail() -> None:
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        run_stoppable(fail)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before
