"""Reads published pickles of arrays without running the code that a pickle may contain.

A pickle is a program. :func:`load_arrays` runs only the instructions that build numbers, text, lists, tuples and
dictionaries, and replaces the constructors of NumPy and SciPy by its own, which check their arguments. It imports
nothing and calls nothing else, so a malicious pickle ends in an error.

A pickle can refer to the same bytes a million times. Constructors therefore copy nothing: they keep their arguments,
and :func:`array_of` makes the array when it is used. Error messages never show nested objects, whose text can be
exponentially long.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from math import prod
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polybasis.foreign_files import regular_file

_ARRAY = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_CSR = ("scipy.sparse.csr", "scipy.sparse._csr")
_OPCODES = (
    "PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL NEWOBJ REDUCE BUILD NONE NEWTRUE NEWFALSE EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS BININT BININT1 BININT2 LONG1 BINFLOAT "
    "BINSTRING SHORT_BINSTRING BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 BINPUT "
    "LONG_BINPUT BINGET LONG_BINGET MEMOIZE"
)


def load_arrays(path: Path, file: IO[bytes] | None = None) -> Any:
    """Loads a pickle of arrays, of a ``csr_matrix``, or of lists and dictionaries of numbers.

    Args:
        path: the file.
        file: the opened file, if the pickle does not start at its beginning.

    Returns:
        A NumPy array (a list if its elements are objects), a SciPy ``csr_array``, or the lists and dictionaries.

    Raises:
        ValueError: if the pickle is damaged, or contains anything else, such as a function to call.
    """
    regular_file(path)
    content = path.read_bytes() if file is None else file.read()
    try:
        return array_of(_ArrayUnpickler(io.BytesIO(content), encoding="latin1").load())
    except _ForbiddenError as error:
        raise ValueError(f"{path}: {error}; only arrays of numbers are loaded from a pickle") from None
    except Exception as error:  # a damaged pickle can raise any error
        raise ValueError(f"{path}: damaged pickle ({type(error).__name__}: {str(error)[:200]})") from error


class _ForbiddenError(Exception):
    """A pickle asks for something other than arrays."""


class _Built:
    """An object of a pickle. Every class has ``__setstate__``: without it, a pickle could set attributes of classes."""

    def __setstate__(self, state: Any) -> None:
        raise TypeError("unexpected state")


class _Dtype(_Built):
    def __init__(self, name: Any, *_: object) -> None:
        if type(name) is not str or not re.fullmatch(r"[<>|=]?([biuf][1248]|O8?)", name):
            raise TypeError("unknown dtype; expected real numbers")
        self.name = name

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise TypeError("unknown byte order")
        self.name = state[1] + self.name.lstrip("<>|=")


class _Array(_Built):
    """The arguments of an array: shape, data type, whether the first index varies fastest, and contents."""

    arguments: tuple[Any, ...] = (None, None, None, None)

    def __setstate__(self, state: Any) -> None:
        _, *arguments = state
        self.arguments = tuple(arguments)

    def array(self) -> Any:
        shape, dtype, by_column, content = self.arguments
        if not isinstance(dtype, _Dtype) or type(shape) is not tuple or any(type(n) is not int for n in shape):
            raise TypeError("damaged array")
        if "O" in dtype.name:
            if type(content) is not list or shape != (len(content),):
                raise TypeError("damaged array of objects")
            return content
        content = content.text if isinstance(content, _Bytes) else content
        buffer: Any = content.encode("latin1") if type(content) is str else content
        found = np.frombuffer(buffer, dtype.name)
        if min(shape, default=0) < 0 or prod(shape) != len(found):
            raise TypeError(f"{len(found)} numbers for an array of {len(shape)} axes")
        native = found.astype(found.dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if by_column else "C")


class _Reconstruct(_Built):
    def __new__(cls, *_: object) -> Any:
        return _Array()


class _FromBuffer(_Built):
    def __new__(cls, content: Any, dtype: Any, shape: Any, order: Any) -> Any:
        array = _Array()
        array.arguments = (shape, dtype, order == "F", content)
        return array


class _Csr(_Built):
    def __setstate__(self, state: Any) -> None:
        self.state = state

    def matrix(self) -> Any:
        import scipy.sparse as sp

        parts = tuple(array_of(self.state[name]) for name in ("data", "indices", "indptr"))
        shape = self.state["_shape"]
        if type(shape) is not tuple or [type(length) for length in shape] != [int, int]:
            raise TypeError("damaged shape of a sparse matrix")
        if any(not isinstance(part, np.ndarray) or part.ndim != 1 for part in parts):
            raise TypeError("damaged sparse matrix")
        matrix = sp.csr_array(parts, shape=shape)
        matrix.check_format(full_check=True)
        return matrix


class _Bytes(_Built):
    """``_codecs.encode``, by which Python 3 writes bytes in protocol 2."""

    def __init__(self, text: Any, encoding: Any) -> None:
        if type(text) is not str or encoding != "latin1":
            raise TypeError("unknown encoding of bytes")
        self.text = text


class _DefaultDict(_Built):
    def __new__(cls, *_: object) -> Any:
        return {}


class _List(_Built):
    """The default of a ``defaultdict``."""


def array_of(found: Any) -> Any:
    """The array or matrix of an object inside the loaded lists and dictionaries; anything else unchanged."""
    if isinstance(found, _Array):
        return found.array()
    return found.matrix() if isinstance(found, _Csr) else found


def integers(found: Any) -> NDArray[np.int64]:
    """A list of integers, or an array of them, (n,).

    Raises:
        TypeError: for anything else, such as nested lists, which can be exponentially large.
    """
    numbers = array_of(found)
    if type(numbers) is list and all(type(number) is int for number in numbers):
        return np.array(numbers, dtype=np.int64)
    if isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype.kind in "iu":
        return numbers.astype(np.int64)
    raise TypeError("not a list of integers")


_PYTHON_UNPICKLER: Any = pickle._Unpickler  # the one in C allocates as much memory as a pickle asks for


class _ArrayUnpickler(_PYTHON_UNPICKLER):  # type: ignore[misc]
    """Builds arrays, numbers, text, lists and dictionaries only."""

    known: ClassVar[dict[tuple[str, str], type[_Built]]] = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        **{(module, "_reconstruct"): _Reconstruct for module in _ARRAY},
        **{(module, "_frombuffer"): _FromBuffer for module in _ARRAY},
        **{(module, "csr_matrix"): _Csr for module in _CSR},
        **{(module, "csr_array"): _Csr for module in _CSR},
        ("_codecs", "encode"): _Bytes,
        ("collections", "defaultdict"): _DefaultDict,
        ("__builtin__", "list"): _List,
        ("builtins", "list"): _List,
    }
    dispatch: ClassVar[dict[int, Any]] = {
        getattr(pickle, name)[0]: _PYTHON_UNPICKLER.dispatch[getattr(pickle, name)[0]] for name in _OPCODES.split()
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise _ForbiddenError(f"the pickle asks for {f'{module}.{name}'[:80]!r}")
        return self.known[module, name]

    # Numbers and text only as keys: hashing nested tuples can take exponential time.

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set(self.stack[-1], [key, value])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        self._set(self.stack[-1], items)

    def _set(self, target: Any, items: list[Any]) -> None:
        if type(target) is not dict or any(type(key) not in (int, str) for key in items[::2]):
            raise _ForbiddenError("the pickle has keys other than numbers and text")
        target.update(zip(items[::2], items[1::2], strict=True))

    def load_bytearray8(self) -> None:  # without allocating the length that it states
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(self.read(length))

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
