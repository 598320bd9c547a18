"""Models from outside the package: registered in Python, or defined in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, overload

from polybasis.nn.models.model import Model, check_model_class
from polybasis.nn.models.names import OWN_MODELS
from polybasis.registry import NAME, Definition, attribute_of, read_source, run_file

M = TypeVar("M", bound=type[Model])


@overload
def register_model(name: str) -> Callable[[M], M]: ...
@overload
def register_model(name: str, cls: M) -> M: ...
def register_model(name: str, cls: M | None = None) -> M | Callable[[M], M]:
    """Registers a model under a name, for :class:`polybasis.NodeClassifier`, ``Config.of`` and training.

    The constructor arguments after ``out_channels`` are the hyperparameters of the model; all need defaults. Installed
    packages register models through the entry point group ``polybasis.models``, which makes them available on the
    command line.

    Args:
        name: a name that is not taken; letters, digits, ``.``, ``_`` and ``-``.
        cls: the class, a subclass of :class:`polybasis.nn.Model`; without it, a decorator is returned.

    Raises:
        ValueError: if the name is taken or invalid, or the class is not a model.

    >>> import torch, polybasis as pb
    >>> @pb.register_model("two-hops")
    ... class TwoHops(pb.nn.Model):
    ...     def __init__(self, in_channels, hidden_channels, out_channels, num_nodes=None):
    ...         super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
    ...         self.last = pb.nn.FeatureLinear(in_channels, out_channels)
    ...     def forward(self, x, graph):
    ...         return graph @ (graph @ self.last(x))
    >>> pb.NodeClassifier("two-hops")
    NodeClassifier(model='two-hops')
    """
    if cls is None:
        return lambda decorated: register_model(name, decorated)
    check_model_class(cls, f"the model {name!r}")
    OWN_MODELS.register(name, cls)
    return cls


def load_model_file(
    path: str | Path, attribute: str | None = None, *, sha256: str | None = None, name: str | None = None
) -> str:
    """Runs a Python file and registers a model that it defines, under the name ``FILE.py:Class``.

    The file runs with the full rights of this process, so only load files that you trust. It can import installed
    packages but no neighbouring files, so its hash identifies the model.

    Args:
        path: the file; or ``PATH/FILE.py:Class``.
        attribute: name of the class; None if ``path`` contains it.
        sha256: the expected hash; a file with a different hash does not run.
        name: the name of the model; by default ``FILE.py:Class``.

    Returns:
        The name of the model.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file has another hash, raises an error, or does not define such a model.
    """
    if attribute is None:
        path, _, attribute = str(path).rpartition(":")
    file = Path(path).absolute()
    if file.suffix != ".py" or not NAME.fullmatch(file.name) or not attribute.isidentifier():
        raise ValueError(f"{path}:{attribute} does not name a model in a file; expected FILE.py:Class")
    sha256 = sha256 or read_source(file)[1]
    name = name or f"{file.name}:{attribute}"
    cls = check_model_class(attribute_of(run_file(file, sha256), attribute, str(file)), f"{attribute} in {file}")
    OWN_MODELS.register(name, cls, Definition("model", name, "", attribute, file, sha256))
    return name


def model_file(name: str) -> Definition | None:
    """The file that defines a model; None for models of a module, and for unknown ones."""
    definition = OWN_MODELS.definition(name)
    return None if definition is None or definition.file is None else definition
