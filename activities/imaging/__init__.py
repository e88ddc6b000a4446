"""Pure image functions: arrays and bytes in, arrays and bytes out, no files and no network."""
