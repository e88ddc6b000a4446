"""Image engines, one file each, and the child process that runs them."""
