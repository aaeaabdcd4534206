"""Reading tables and sources as DataFrames."""
