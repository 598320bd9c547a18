"""The order of tutorials and of figures in the gallery; scripts that are not listed follow by name."""

from __future__ import annotations

from sphinx_gallery.sorting import FileNameSortKey

TUTORIALS = [
    "own_tables",
    "filter_responses",
    "own_basis_and_model",
    "own_network",
    "sensors",
    "pictures",
    "larger_than_memory",
    "cluster",
    "reproduce_the_paper",
]
FIGURES = [
    "krylov_space",
    "classical_bases",
    "one_filter_in_four_bases",
    "density_and_polynomials",
    "density_of_a_signal",
    "favard",
    "learning_in_different_bases",
    "condition_numbers",
    "convergence_of_favard",
    "loss_of_orthogonality",
    "rank_of_a_basis",
    "spectra_of_graphs",
    "spectrum_of_a_signal",
    "filtered_images",
    "learned_responses",
    "learned_weight_functions",
]
ORDER = [f"{name}.py" for name in TUTORIALS + FIGURES]


class Order(FileNameSortKey):
    def __call__(self, filename: str) -> tuple[int, str]:
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)
