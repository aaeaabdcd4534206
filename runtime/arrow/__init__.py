"""Arrow batches as a table wants them: schema, conversion, sizes, samples, fingerprints. Knows no file."""
