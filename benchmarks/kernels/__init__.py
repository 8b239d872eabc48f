"""One benchmark for each kernel of `tsdb._kernels`."""
