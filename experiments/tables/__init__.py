"""Tables as data, and how they are shown: as text, HTML, CSV and Markdown."""
