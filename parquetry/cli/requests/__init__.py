"""What commands share: options, approval, saving, progress."""
