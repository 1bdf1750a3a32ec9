"""adapters/files."""
