"""Pure decisions about files: values in, values out, nothing is read or written."""
