#!/usr/bin/env python3
"""Writes tests/pixels_digests.h: what Pillow makes of pictures that both sides can draw.

usage: make_pixels_digests.py >tests/pixels_digests.h          (needs Pillow and numpy)

The contract is the order of the passes of Pillow up to 11, horizontal first.  Pillow 12.2 takes the
vertical pass first for pictures more than 100 times taller than wide, and later ones for many more,
which moves some pixels by a level or more; so each pass is asked for by a call of its own, which
gives the same in every version.

tests/test_pixels.c draws the same pictures and the same cases by the same integer formulas, takes
them through the library's resample or colour operators, and compares digests (FNV-1a, 64 bits, over
the final picture's RGB bytes).
"""
import numpy as np
import PIL
from PIL import Image, ImageEnhance

from itertools import permutations

N_RANDOM, N_EVAL, N_NEAREST, N_COLOUR = 1200, 160, 300, 500
FILTERS = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)
M32 = 0xFFFFFFFF


def mix(v):
    """A 32-bit finaliser (C. Wellons, lowbias32), on ints and on arrays of uint64."""
    v = v & M32
    v = v ^ (v >> 16)
    v = (v * 0x7FEB352D) & M32
    v = v ^ (v >> 15)
    v = (v * 0x846CA68B) & M32
    return v ^ (v >> 16)


class Draw:
    """Numbers of a case, in the order in which they are asked for."""

    def __init__(self, case):
        self.state = case * 4096

    def __call__(self, lo, hi):
        self.state += 1
        return lo + mix(self.state) % (hi - lo + 1)


def picture(kind, seed, width, height):
    y, x, c = np.meshgrid(np.arange(height, dtype=np.uint64), np.arange(width, dtype=np.uint64),
                          np.arange(3, dtype=np.uint64), indexing="ij")
    noise = mix(mix(mix(seed + x) + y) + c)
    if kind == 0:  # noise
        v = noise >> 24
    elif kind == 1:  # hard edges: blocks of 0 and 255
        side = seed % 13 + 1
        v = ((x // side + y // side + c) % 2) * 255
    elif kind == 2:  # lone points of 255 on 0, or the reverse
        v = (noise % 17 == 0) * 255
        if seed % 2:
            v = 255 - v
    else:  # smooth
        v = (x * (c + 1) + y * (3 - c) + (seed & 255)) & 255
    return v.astype(np.uint8)


def digest(a):
    h = 0xCBF29CE484222325
    for b in a.tobytes():
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def resize(image, size, filt):
    return image.resize((size[0], image.height), filt).resize(size, filt)


def random_case(case):
    """A box of a picture, resized."""
    d = Draw(case)
    kind = d(0, 3)
    filt = FILTERS[d(0, 1)]
    size = d(0, 3)  # of the picture
    limit = (24, 90, 260, 700)[size]
    width, height = d(1, limit), d(1, limit)
    box_w, box_h = d(1, width), d(1, height)
    left, top = d(0, width - box_w), d(0, height - box_h)
    out_limit = (140, 90, 70, 50)[size]
    out_w, out_h = d(1, out_limit), d(1, out_limit)
    same = d(0, 9)  # now and then a side stays as it is
    if same == 0 and box_w <= 140:
        out_w = box_w
    if same == 1 and box_h <= 140:
        out_h = box_h
    image = Image.fromarray(picture(kind, mix(case), width, height))
    image = image.crop((left, top, left + box_w, top + box_h))
    return np.asarray(resize(image, (out_w, out_h), filt))


def eval_case(case):
    """The whole picture resized, then a centre crop; black where the picture is smaller."""
    d = Draw(1000000 + case)
    kind = d(0, 3)
    filt = FILTERS[d(0, 1)]
    width, height = d(4, 300), d(4, 300)
    out_w, out_h = d(8, 64), d(8, 64)
    view = d(0, 2)
    if view == 0:  # shorter edge
        short = min(out_w, out_h) * 8 // 7
        if width <= height:
            m_w, m_h = short, short * height // width
        else:
            m_w, m_h = short * width // height, short
    elif view == 1:  # squash
        m_w, m_h = out_w * 8 // 7, out_h * 8 // 7
    else:  # anything: borders on some sides
        m_w, m_h = d(1, 80), d(1, 80)
    image = Image.fromarray(picture(kind, mix(1000000 + case), width, height))
    image = resize(image, (m_w, m_h), filt)
    # Image.crop fills what lies outside with 0
    left = (m_w - out_w) // 2 if m_w >= out_w else -((out_w - m_w) // 2)
    top = (m_h - out_h) // 2 if m_h >= out_h else -((out_h - m_h) // 2)
    return np.asarray(image.crop((left, top, left + out_w, top + out_h)))


LARGE = [  # width, height, box left, top, width, height, output width, height
    (500, 375, 40, 10, 400, 350, 224, 224),
    (2000, 40, 0, 0, 2000, 40, 224, 17),
    (30, 3000, 0, 0, 30, 3000, 40, 100),
    (10000, 2, 0, 0, 10000, 2, 50, 3),
    (1, 5000, 0, 0, 1, 5000, 9, 1),
    (1200, 900, 1, 3, 1111, 877, 96, 80),
]


def large_case(case):
    width, height, left, top, box_w, box_h, out_w, out_h = LARGE[case // 2]
    image = Image.fromarray(picture(case % 3, mix(2000000 + case), width, height))
    box = (left, top, left + box_w, top + box_h)
    return np.asarray(resize(image.crop(box), (out_w, out_h), FILTERS[case % 2]))


def nearest_case(case):
    d = Draw(3000000 + case)
    limit = (24, 90, 260, 700)[d(0, 3)]
    width, height = d(1, limit), d(1, limit)
    box_w, box_h = d(1, width), d(1, height)
    left, top = d(0, width - box_w), d(0, height - box_h)
    out_w, out_h = d(1, 140), d(1, 140)
    image = Image.fromarray(picture(0, mix(3000000 + case), width, height))
    image = image.crop((left, top, left + box_w, top + box_h))
    return np.asarray(image.resize((out_w, out_h), Image.Resampling.NEAREST))


def shift_hue(image, shift):
    h, s, v = image.convert("HSV").split()
    h = Image.fromarray((np.asarray(h).astype(np.uint32) + shift).astype(np.uint8))
    return Image.merge("HSV", (h, s, v)).convert("RGB")


ORDERS = list(permutations(range(4)))  # lexicographic


def colour_case(case):
    d = Draw(4000000 + case)
    kind = d(0, 3)
    width, height = d(1, 90), d(1, 60)
    image = Image.fromarray(picture(kind, mix(4000000 + case), width, height))
    wanted, order = d(0, 15), ORDERS[d(0, 23)]
    factors = [d(0, 2500) / 1000 for _ in range(3)]
    if d(0, 9) == 0:
        factors[d(0, 2)] = 1.0
    shift, grey = d(0, 255), d(0, 3) == 0
    for op in order:
        if not wanted >> op & 1:
            continue
        if op == 3:
            image = shift_hue(image, shift)
        else:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[op]
            image = enhance(image).enhance(factors[op])
    if grey:
        image = image.convert("L").convert("RGB")
    return np.asarray(image)


def table(name, make, n):
    print(f"\nstatic const uint64_t {name}[] = {{")
    line = "   "
    for i in range(n):
        line += f" 0x{digest(make(i)):016x},"
        if len(line) > 80 or i == n - 1:
            print(line)
            line = "   "
    print("};")


print(f"/* pixels_digests.h - made by make_pixels_digests.py with Pillow {PIL.__version__}. */")
print("#ifndef LDR_PIXELS_DIGESTS_H\n#define LDR_PIXELS_DIGESTS_H\n\n#include <stdint.h>")
table("random_digests", random_case, N_RANDOM)
table("eval_digests", eval_case, N_EVAL)
table("large_digests", large_case, 2 * len(LARGE))
table("nearest_digests", nearest_case, N_NEAREST)
table("colour_digests", colour_case, N_COLOUR)
print("\n#endif")
