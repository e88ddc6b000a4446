"""Telling applications about their jobs: signed messages over HTTP, to where they may go."""
