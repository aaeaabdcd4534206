"""YAML with positions: parsing, the canonical form, formatting and the files of a project folder."""
