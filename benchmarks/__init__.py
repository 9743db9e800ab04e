"""Measurements of the kernels against a copy of the same bytes and against other libraries.

`python -m benchmarks.run` measures on the GPU and writes a JSON file; `pytest benchmarks` measures the host's part of
small calls. The cases stand in scan.py, normalization.py and modulus.py.
"""
