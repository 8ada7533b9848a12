"""The container image and the composed services, as files, and built where a builder is at hand."""
