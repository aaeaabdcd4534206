"""Spec files that parquetry writes: adoption, accepted drift, new projects, exports."""
