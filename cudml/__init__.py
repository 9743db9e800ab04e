"""Four DirectML operators for CuPy and NumPy arrays: running sums and products, normalization and modulus.

The functions take what NumPy's and CuPy's functions of the same name take. CuPy arrays (and any array that exports
CUDA memory) are computed on the GPU by hand-written kernels, NumPy arrays on the CPU:

>>> import numpy as np
>>> import cudml
>>> cudml.cumsum(np.array([2, 1, 3, 5]), exclusive=True)
array([0, 2, 3, 6])

`cudml.dml` has the same operators as DirectML's descriptors. Importing the package does not import CuPy and loads no
kernel; that is done when the first array on a GPU is met.
"""

from cudml import backend, dml
from cudml.modulus import fmod
from cudml.normalization import batch_norm, group_norm, instance_norm, layer_norm, mean_var, mean_variance_normalization
from cudml.scan import cumprod, cumsum, cumulative_prod, cumulative_sum, segmented_cumprod, segmented_cumsum
from cudml.warming import warmup

__version__ = "0.1.0"

backend.prepare_for_cupy()

__all__ = [
    "batch_norm",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "dml",
    "fmod",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "mean_var",
    "mean_variance_normalization",
    "segmented_cumprod",
    "segmented_cumsum",
    "warmup",
]
