"""The bytes of Parquet files: footers, indexes, assembly from pieces, encryption, Bloom filters."""
