"""Curate: raw sources in, RLVR prompt pools worth training on out."""

__version__ = "0.1.0"
