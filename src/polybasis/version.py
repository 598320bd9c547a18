"""The version of the installed package, which is stated in ``pyproject.toml``."""

from importlib.metadata import version

__version__ = version("polybasis")
