"""What tests of tables came to, in text, JSON and the formats of CI."""
