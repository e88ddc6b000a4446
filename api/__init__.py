"""The top floor: speaks HTTP and translates; the workflow decides."""
