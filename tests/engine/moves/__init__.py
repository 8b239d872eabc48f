"""Regions that move between engines over one store."""
