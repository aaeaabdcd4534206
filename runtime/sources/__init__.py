"""Files to ingest: their listing, the selection of due files, and the ledger of ingested files."""
