"""Jobs: compilation, launch, submission."""
