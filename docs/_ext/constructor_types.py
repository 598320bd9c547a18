"""The types of constructor arguments, with the values of aliases such as ``Scale``, which autodoc shows by name."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation


def on_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    shown = app.env.current_document.autodoc_annotations.get(name, {})
    if not inspect.isclass(thing):
        return
    for argument, hint in get_type_hints(thing.__init__).items():
        if argument in shown:
            shown[argument] = stringify_annotation(hint, "smart", short_literals=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", on_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
