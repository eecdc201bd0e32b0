#!/usr/bin/env python3
"""Writes gpu/normal_table.h: quantiles of N(0,1), for erasing noise.

usage: make_normal_table.py >gpu/normal_table.h          (Python's standard library only)

Entry c is the quantile of 1/2 + c/2048 as float32, c = 0 .. 1023.  The last, which would be
infinite, is the value that makes the variance of the linear interpolation between them 1.  Each
quantile is found with 50 digits and rounded once, so the table is the same everywhere.
"""
from decimal import Decimal, getcontext
from statistics import NormalDist
import struct

getcontext().prec = 50
LAST = 3.79789


def pi():
    """Machin's formula."""

    def arctan_inverse(n):
        term = Decimal(1) / n
        total, k = term, 1
        while abs(term) > Decimal(10) ** -48:
            term = -term / (n * n)
            k += 2
            total += term / k
        return total

    return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


ROOT_2_PI = (2 * pi()).sqrt()


def density(x):
    return (-x * x / 2).exp() / ROOT_2_PI


def half_cdf(x):
    """The integral of the density from 0 to x, as its series x + x^3/3 + x^5/(3 5) + ..."""
    term, total, k = x, x, 1
    while abs(term) > Decimal(10) ** -45:
        k += 2
        term = term * x * x / k
        total += term
    return total * density(x)


def quantile(c):
    p = Decimal(c) / 2048
    x = Decimal(NormalDist().inv_cdf(0.5 + c / 2048)) if c else Decimal(0)
    for _ in range(3):  # Newton
        x -= (half_cdf(x) - p) / density(x)
    return x


def as_float32(x):
    """Rounded to nearest: the exact value decides between the neighbours of a double's rounding."""
    bits = struct.unpack("<I", struct.pack("<f", float(x)))[0]
    near = [struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits - 1, bits, bits + 1) if b >= 0]
    return min(near, key=lambda v: abs(Decimal(v) - x))


def hexadecimal(v):
    if v == 0:
        return "0x0p+0f"
    mantissa, exponent = v.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}f"


values = [as_float32(quantile(c)) if c else 0.0 for c in range(1024)]
values.append(struct.unpack("<f", struct.pack("<f", LAST))[0])

print("/* normal_table.h - made by tests/make_normal_table.py.  C and CUDA.")
print(" *")
print(" * 1,025 quantiles of N(0,1): entry c is that of 1/2 + c/2048; the last makes the variance of")
print(" * the interpolation 1 (erase.h, ldri_normal).  A list, so that each side can put the array")
print(" * where it wants it:  static const float table[] = {LDRI_NORMAL_QUANTILES};  */")
print("#ifndef LDR_NORMAL_TABLE_H\n#define LDR_NORMAL_TABLE_H\n")
print("/* clang-format off */")
print("#define LDRI_NORMAL_QUANTILES \\")
line = "   "
for at, v in enumerate(values):
    last = at == len(values) - 1
    word = f" {hexadecimal(v)}" + ("" if last else ",")
    if len(line) + len(word) > 96:
        print(line + " \\")
        line = "   "
    line += word
print(line)
print("/* clang-format on */\n\n#endif")
