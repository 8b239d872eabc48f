"""The measurements behind the pages of `docs/decisions`."""
