"""PromQL: evaluation and answers."""
