"""YAML with places: parsing, canonical form, formatting, project folders."""
