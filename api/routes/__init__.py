"""The routes: thin, they translate."""
