"""SQL and PromQL over regions that could be on another node: the same tests, the same answers."""
