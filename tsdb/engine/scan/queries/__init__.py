"""What queries get: rows in batches, cells of aggregates, whole series."""
