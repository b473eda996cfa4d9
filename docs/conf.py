"""Sphinx configuration: MyST Markdown, warnings are errors (make docs)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from provision import __version__

project = "pvectl"
author = "The pvectl authors"
copyright = "the pvectl authors"
release = version = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "GPU passthrough on Proxmox VE, from firmware to proof", "page_width": "1100px"}
nitpicky = True
