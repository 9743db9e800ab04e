"""What can go wrong when a kernel is compiled for the CPU or run there."""


class KernelFault(RuntimeError):
    """A defect of the kernel: what, where in the source, which block and thread, under which schedule."""


class LaunchError(ValueError):
    """A launch that no GPU would accept: arguments of the wrong size or kind, a geometry out of limits."""


class CompileError(RuntimeError):
    """A kernel file that is not C++."""


class Unsupported(CompileError):
    """A kernel file that uses something of CUDA that is not built here; the message names it."""
