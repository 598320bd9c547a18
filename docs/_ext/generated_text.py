"""A directive whose content is reStructuredText that a function returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def add_directive(app: Sphinx, name: str, text: Callable[..., str]) -> None:
    """Registers a directive; its arguments are those of the function."""

    class Generated(SphinxDirective):
        optional_arguments = 1
        final_argument_whitespace = True

        def run(self) -> list[nodes.Node]:
            lines = text(*self.arguments).splitlines()
            return self.parse_content_to_nodes_of(StringList(lines, source=f"<{name}>"))

        def parse_content_to_nodes_of(self, lines: StringList) -> list[nodes.Node]:
            node = nodes.Element()
            node.document = self.state.document
            self.state.nested_parse(lines, self.content_offset, node)
            return node.children

    app.add_directive(name, Generated)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A table, as reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (head, *rows):
        lines += [f"   {'* -' if i == 0 else '  -'} {cell}".rstrip() for i, cell in enumerate(row)]
    return "\n".join([*lines, ""])
