"""The order of tutorials and of figures in the gallery; scripts that are not listed follow by name."""

from __future__ import annotations

from sphinx_gallery.sorting import FileNameSortKey

ORDER = [
    "own_tables.py",
    "filter_responses.py",
    "own_basis_and_model.py",
    "own_network.py",
]


class Order(FileNameSortKey):
    def __call__(self, filename: str) -> tuple[int, str]:
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)
