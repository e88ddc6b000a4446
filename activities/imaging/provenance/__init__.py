"""Machine-readable provenance inside image files: written, read, carried over and signed."""
