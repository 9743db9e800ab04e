"""The CUDA backend: `cudml.cuda.backend` imports CuPy, `cache`, `compiler` and `sources` do without it."""
