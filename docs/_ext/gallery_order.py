"""The order of tutorials and of figures in the gallery; scripts that are not listed follow by name."""

from __future__ import annotations

from sphinx_gallery.sorting import FileNameSortKey

ORDER = ["node_classification.py"]


class Order(FileNameSortKey):
    def __call__(self, filename: str) -> tuple[int, str]:
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)
