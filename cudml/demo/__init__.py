"""The four operators on real input: a photograph, share prices and a terrain. `python -m cudml.demo` runs it.

Every result is compared to a float64 computation that shares no code with cudml.
"""
