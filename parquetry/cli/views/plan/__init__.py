"""Plans as text, Markdown, HTML and GitHub annotations."""
