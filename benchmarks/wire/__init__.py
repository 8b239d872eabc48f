"""How fast answers travel over the wire protocols."""
