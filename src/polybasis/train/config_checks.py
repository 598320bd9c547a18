"""Checks of single values of a configuration; errors begin with the key."""

from __future__ import annotations

from typing import get_args

from polybasis.nn.filter_layer import Role


def check_choice(key: str, value: object, expected: tuple[str, ...]) -> None:
    """Raises ValueError for a value that is not among those expected."""
    if value not in expected:
        raise ValueError(f"{key} is {value!r}; expected {', '.join(expected)}")


def check_count(key: str, value: object) -> None:
    """Raises ValueError for anything but a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{key} is {value!r}; expected a positive integer")


def check_fraction(key: str, value: object) -> None:
    """Raises ValueError for anything but a number between 0 and 1, both excluded."""
    if not (isinstance(value, int | float) and 0 < value < 1):
        raise ValueError(f"{key} is {value!r}; expected a number between 0 and 1")


def check_roles(key: str, numbers: object) -> None:
    """Raises ValueError for anything but non-negative numbers by role, with one for ``linear``."""
    if not isinstance(numbers, dict) or "linear" not in numbers:
        raise ValueError(f"{key} has no entry for the role 'linear'")
    for role, number in numbers.items():
        if role not in get_args(Role):
            raise ValueError(f"{key} has the unknown role {role!r}; expected {', '.join(get_args(Role))}")
        if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
            raise ValueError(f"{key}.{role} is {number!r}; expected a non-negative number")
