"""Visible marks on generated images: where they lie, whether they are there, and their removal."""
