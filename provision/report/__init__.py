"""Pictures of a host: SVG and one self-contained HTML page."""
