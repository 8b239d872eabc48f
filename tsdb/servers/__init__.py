"""The protocols clients speak. Each package here translates one of them and knows nothing of the others."""
