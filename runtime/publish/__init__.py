"""The files of a table in the metadata of other table formats, without a copy of a row."""
