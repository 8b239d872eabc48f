"""The messages of the gRPC services, and their code as `grpcio-tools` makes it; `make generate` writes it anew."""
