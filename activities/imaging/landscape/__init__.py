"""Landscapes drawn from a text and a seed, with the same pixels on every machine.

Only exactly rounded operations are used (+ - * / sqrt, minimum, maximum, floor, comparisons) and
integers: the results of sin, exp or pow, of a BLAS call and of a float sum differ between CPUs.
"""
