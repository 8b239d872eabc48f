"""Regions over the network."""
