"""What `make run` needs to keep a server, a worker and an API running on one machine."""
