/* helper_images.h - pictures and files for tests.
 *
 * Pictures are drawn by integer formulas of (drawing, width, height, seed), so every machine draws
 * the same ones, and are encoded in memory with libjpeg and libpng.  Nothing here can fail: what
 * goes wrong (memory, disk, a library's error) prints a line and aborts the test program.  Memory
 * that is returned is the caller's, to be freed with free(). */
#ifndef LDR_HELPER_IMAGES_H
#define LDR_HELPER_IMAGES_H

#include <stddef.h>
#include <stdint.h>

typedef enum helper_drawing {
    HELPER_SMOOTH, /* gradients: compresses well */
    HELPER_NOISE,  /* every byte from a hash: compresses badly */
    HELPER_EDGES,  /* coloured rectangles with hard edges */
    HELPER_PHOTO,  /* gradients, edges and a little noise together */
    HELPER_N_DRAWINGS
} helper_drawing;

/* 64 mixed bits of x (splitmix64's output function); and the next number of a stream. */
uint64_t helper_hash(uint64_t x);
uint64_t helper_random(uint64_t *state);
/* 0 .. n-1 */
uint32_t helper_below(uint64_t *state, uint32_t n);

/* RGB8, 3 * width bytes a row. */
uint8_t *helper_draw(helper_drawing drawing, uint32_t width, uint32_t height, uint64_t seed);

typedef struct helper_jpeg {
    int quality;         /* 90 */
    int components;      /* 3; 1: grey (the green channel); 4: CMYK (helper_cmyk) */
    int ycck;            /* 0; 1: four components are stored as YCCK */
    int adobe;           /* 1; 0: leave out the Adobe marker that goes with four components */
    int h[4], v[4];      /* sampling factors of each component; all 1 */
    int progressive;     /* 0; 1: libjpeg's ten-scan script; 2: one scan a component, sequential;
                            3: progressive with the finer scans missing */
    int arithmetic;      /* 0; not together with optimize */
    int optimize;        /* 0: optimal Huffman tables */
    unsigned restart;    /* 0: MCUs between restart markers */
    const uint8_t *exif; /* NULL; body of an APP1 marker, "Exif\0\0" and on */
    size_t n_exif;
} helper_jpeg;

void helper_jpeg_init(helper_jpeg *o);
/* Sets the factors for three components by name: "444", "422", "420", "440", "411", "410", "441".
 * For other counts of components only the first one's are set from it. */
void helper_jpeg_sampling(helper_jpeg *o, const char *name);
int helper_jpeg_has_arithmetic(void); /* 1 if libjpeg can write arithmetic coding */
uint8_t *helper_jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                            const helper_jpeg *o, size_t *n_bytes);
/* The four stored samples (c, m, y, k as in the file) that helper_jpeg_encode makes of a pixel. */
void helper_cmyk(const uint8_t rgb[3], uint8_t cmyk[4]);

typedef struct helper_png {
    int colour_type;     /* 2; PNG's number: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA */
    int depth;           /* 8 */
    int interlaced;      /* 0 */
    int trns;            /* 0; 1: a tRNS chunk (colour types 0, 2, 3) */
    int palette_entries; /* 0: 2^depth; else fewer, the pixels use only those */
    int level;           /* 1: zlib's compression level */
    int extras;          /* 0; 1: gAMA, cHRM, pHYs, zTXt, a private chunk and such things */
} helper_png;

void helper_png_init(helper_png *o);
uint8_t *helper_png_encode(const uint8_t *rgb, uint32_t width, uint32_t height, const helper_png *o,
                           size_t *n_bytes);
/* The RGB8 picture that a decoder must give for helper_png_encode's file: reduced to the type and
 * depth, alpha dropped, 16 bit by the high byte. */
uint8_t *helper_png_expected(const uint8_t *rgb, uint32_t width, uint32_t height,
                             const helper_png *o);

/* A new directory under $TMPDIR or the system's temporary folder. */
char *helper_temp_dir(void);
/* Writes directory/name (name may have folders, which are made). */
void helper_write_file(const char *directory, const char *name, const void *bytes, size_t n_bytes);
/* Reads a whole file; one zero byte follows the bytes. NULL if it cannot be opened. */
uint8_t *helper_read_file(const char *path, size_t *n_bytes);
/* Removes a directory and all below it; follows no links. */
void helper_remove_tree(const char *path);

#endif
