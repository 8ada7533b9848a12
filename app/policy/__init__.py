"""Capabilities, taint, grants and `decide()`. Pure, and independent of the engine's types."""
