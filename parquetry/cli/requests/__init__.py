"""Code that commands share: options, approval, saving, progress."""
