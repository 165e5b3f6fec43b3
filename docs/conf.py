"""How the documentation becomes a site: `make docs` builds it into target/site."""

project = "FTLKit"
copyright = "the FTLKit authors, MIT or Apache-2.0"  # noqa: A001  (Sphinx's own name)

extensions = ["myst_nb"]
source_suffix = {".md": "myst-nb"}
# A heading can be a link's target, down to this level.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
# Notebooks are run by the tests, and by `make docs` where the package is installed.
nb_execution_mode = "off"
# Blocks of shell commands that are not for every reader: `sh live`, `sh skip`.
highlight_language = "none"

html_theme = "furo"
html_title = "FTLKit"
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
