"""Configuration of the documentation site; ``make docs`` builds it."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import polybasis

os.environ.setdefault("OMP_NUM_THREADS", "1")
DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

project = "polybasis"
author = "the polybasis developers"
copyright = "the polybasis developers"
version = release = polybasis.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_line",
    "configuration",
    "console_cells",
    "constructor_types",
    "data_sets",
    "inherited_sections",
    "repository_links",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "tutorials",
    "gallery",
    "auto_*/*.ipynb",
    "**sg_execution_times.rst",
]
templates_path = ["_templates"]
nitpicky = False

# ---- pages in Markdown ---------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4

# ---- the API reference ---------------------------------------------------------------------------------------------

autosummary_generate = True
autosummary_imported_members = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_custom_sections = ["Shapes"]
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
python_display_short_literal_types = True
python_maximum_signature_line_length = 88

# ---- tutorials and gallery: scripts that run during the build --------------------------------------------------------

# They run where they are, and write files there: not among the sources.
SCRIPTS = DOCS / "_build" / "scripts"
shutil.rmtree(SCRIPTS, ignore_errors=True)
for folder in ("tutorials", "gallery"):
    shutil.copytree(DOCS / folder, SCRIPTS / folder)

sphinx_gallery_conf = {
    "examples_dirs": ["_build/scripts/tutorials", "_build/scripts/gallery"],
    "gallery_dirs": ["auto_tutorials", "auto_gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.Order",
    "download_all_examples": False,
    "ignore_repr_types": r"matplotlib\.(axes|figure)",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "image_srcset": ["2x"],
    "image_scrapers": ("matplotlib", "returned_figures.scraper"),
    "reset_modules": ("matplotlib", "start_of_script.reset"),
}

# ---- the pages, without any resource of another host -----------------------------------------------------------------

html_theme = "furo"
html_title = "polybasis"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db5f0", "color-brand-content": "#7db5f0"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

# One script that contains its fonts as paths; the package ships many more files.
_mathjax = find_spec("sphinx-mathjax-offline")
assert _mathjax is not None, "sphinx-mathjax-offline is missing: pip install '.[docs]'"
html_static_path.append(str(Path(str(_mathjax.origin)).parent / "static" / "mathjax" / "tex-svg.js"))
mathjax_path = "tex-svg.js"
