"""Formats of our own where Django's are not what people here read."""
