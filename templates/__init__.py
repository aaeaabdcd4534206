"""Jinja templates of job scripts, reviews, pages and new projects."""
