"""What a query looks at: snapshots of a region, views of them as tables of the metric engine, and counters."""
