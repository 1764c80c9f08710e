"""Configuration of the Sphinx site: ``python -m sphinx -W -b html docs docs/_build``."""

import inspect
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

from skfedcausal import __version__  # noqa: E402

project = "skfedcausal"
author = "The skfedcausal developers"
project_copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas in plants without internet: MathJax is part of the site
    "myst_parser",  # for the changelog, which is Markdown
    "numpydoc",
    "published",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
source_suffix = {".rst": "restructuredtext"}
templates_path = ["_templates"]
nitpicky = True  # a name in the text that does not exist any more is an error
nitpick_ignore_regex = [("py:.*", r"(collections|control|numpy|pandas|scipy|sklearn)\..*")]
default_role = None

autosummary_generate = True
# Estimators are put together from classes of their own: what they have from those is shown with them, what
# they have from other libraries is not.
_foreign = "BaseEstimator, _MetadataRequester, RegressorMixin, TransformerMixin, _SetOutputMixin"
_foreign += ", BaseException"
autodoc_default_options = {"members": True, "inherited-members": _foreign}
autodoc_typehints = "none"  # parameters say what they may be, in words
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"  # the column on the right has room for the names of methods alone


def setup(app):
    """Classes that are called through a metaclass show the parameters of their ``__init__``."""
    from sphinx.util.inspect import stringify_signature  # tests collect this file without Sphinx

    def own_parameters(app, what, name, obj, options, signature, returns):
        if what == "class" and signature and "**settings" in signature:
            own = inspect.signature(obj)
            return stringify_signature(own, show_annotation=False, show_return_annotation=False), returns
        return None

    app.connect("autodoc-process-signature", own_parameters)


html_theme = "pydata_sphinx_theme"
html_title = f"skfedcausal {version}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}  # else the theme reports an error in the browser's console
html_theme_options = {
    "logo": {"text": "skfedcausal"},
    "github_url": "https://github.com/skfedcausal/skfedcausal",
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "whats_new": []}
html_show_sourcelink = False

# The Tennessee Eastman example runs only where its records are: nothing is downloaded.
_has_records = "SKFEDCAUSAL_DATA" in os.environ
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[\\/]plot_" if _has_records else r"[\\/]plot_(?!tep)",
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,  # a page that loads scripts from elsewhere
    "min_reported_time": 5,
    "ignore_repr_types": r"skfedcausal\.displays|matplotlib",  # pictures are shown, not their addresses
    "default_thumb_file": str(ROOT / "docs" / "_static" / "front.png"),
}
# sphinx-gallery keeps functions in its configuration, which Sphinx cannot store between builds; the changelog has no
# title of its own in its page.
suppress_warnings = ["config.cache", "myst.header"]
