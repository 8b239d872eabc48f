"""Tables as Prometheus sees them: metrics and their metadata, remote read, and TQL."""
