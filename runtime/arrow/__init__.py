"""Conversion of Arrow batches for a table: schema, types, sizes, samples, fingerprints. Reads no files."""
