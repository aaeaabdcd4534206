"""The results of tests of tables, in text, JSON and the formats of CI."""
