"""Object stores with atomic writes: local files, S3 and Google Cloud Storage."""
