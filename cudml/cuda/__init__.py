"""The CUDA backend; importing it imports CuPy."""

from cudml.cuda.backend import BACKEND

__all__ = ["BACKEND"]
