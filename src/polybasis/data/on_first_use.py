"""A field of a dataclass that is computed when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")


class OnFirstUse(Generic[T]):
    """A required field that holds a value, or a function that is called for it once.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Squares:
    ...     values: OnFirstUse[list[int]] = OnFirstUse()
    >>> Squares(lambda: [i * i for i in range(4)]).values
    [0, 1, 4, 9]
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> OnFirstUse[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> OnFirstUse[T] | T:
        if instance is None:
            raise AttributeError("the field has no default")  # so that it is required
        value = instance.__dict__[self._key]
        if callable(value):
            value = instance.__dict__[self._key] = value()
        return cast(T, value)

    def __set__(self, instance: Any, value: T | Callable[[], T]) -> None:
        instance.__dict__[self._key] = value
