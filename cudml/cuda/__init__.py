"""The CUDA backend: `cudml.cuda.backend` imports CuPy, `cache`, `compiler`, `scratch` and `sources` do without it."""
