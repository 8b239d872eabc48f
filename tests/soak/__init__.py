"""Long runs against real servers: all protocols at once, processes that are killed, data that grows out of shape."""
