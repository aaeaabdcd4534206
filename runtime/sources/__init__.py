"""Files to ingest: which there are, which are due, and the ledger of those ingested."""
