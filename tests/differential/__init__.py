"""Our PromQL against a Prometheus server, on the same random samples. Runs only with `make differential`."""
