"""DirectML's descriptors: the structs as frozen dataclasses, checked on the CPU, run on NumPy or CuPy arrays.

>>> import numpy as np
>>> from cudml.dml import BufferTensorDesc, CumulativeSummationOperatorDesc, Device, FeatureLevel, TensorDataType
>>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(1, 1, 2, 3))
>>> desc = CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=3)
>>> summation = Device(FeatureLevel.FL_2_1).create_operator(desc).compile()
>>> x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
>>> summation(x, np.empty_like(x))
array([[[[ 0.,  1.,  3.],
         [ 3.,  7., 12.]]]], dtype=float32)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudml.dml.names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Imports all names when the first is asked for: some thirty dataclasses take longer than the rest of cudml."""
    if name.startswith("__") and name != "__all__":  # what import and inspection ask of every module
        raise AttributeError(name)
    names = importlib.import_module("cudml.dml.names")
    globals().update({public: getattr(names, public) for public in names.__all__}, __all__=names.__all__)
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]
