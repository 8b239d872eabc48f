"""How fast answers to SQL become text."""
