"""Objects by path, put atomically: local files and S3."""
