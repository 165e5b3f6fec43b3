"""How the documentation becomes a site: `make docs` builds it into target/site."""

import os
import sys
from pathlib import Path

project = "FTLKit"
copyright = "the FTLKit authors, MIT or Apache-2.0"  # noqa: A001  (Sphinx's own name)

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The reference needs the docstrings of the package alone, not its native part.
autodoc_mock_imports = ["ftlkit._ftlkit"]
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
napoleon_use_ivar = True
source_suffix = {".md": "myst-nb"}
# A heading can be a link's target, down to this level.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
# The tests run the notebooks. `make docs NOTEBOOKS=auto` runs them, too, so that their pages show what comes out.
nb_execution_mode = os.environ.get("NOTEBOOKS", "off")
nb_execution_timeout = 300
# Bars tell whoever waits how far runs are; on a page nobody waits.
nb_output_stderr = "remove"
# Blocks of shell commands that are not for every reader: `sh live`, `sh skip`.
highlight_language = "none"

html_theme = "furo"
html_title = "FTLKit"
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
