"""What goes wrong with metadata."""


class DamagedMetadataError(Exception):
    """The file, or the metadata in it, can't be taken apart; the message is for a user."""


class UnreadableXmpError(DamagedMetadataError):
    """The XMP packet is nothing that any reader takes: no loss where a new one replaces it."""
