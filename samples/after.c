/* after.c - one's own augmentation behind the built-in ones: solarize, on the CPU.
 *
 *     after photos/train
 *
 * The callback gets each batch in plan order, on a thread of the library, before ldr_next can give
 * it away.  What it draws, it draws from the seed it is given: so a batch's content does not depend
 * on threads or timing, and a run can be repeated.
 */
#include <stdio.h>

#include "loader.h"

/* A small generator of numbers, SplitMix64 (G. Steele et al., 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Half of the images: values from a threshold on are inverted. */
static int solarize(void *user, const struct ldr_batch *b, uint64_t seed, ldr_stream stream)
{
    unsigned *n_done = user;
    size_t n_values = (size_t)3 * b->height * b->width;
    (void)stream;                     /* on the CPU there is none */
    if (b->dtype != LDR_U8) return 1; /* the batch fails with LDR_E_CALLBACK, detail 1 */
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t word = draw(&seed);
        if (word & 1) continue;
        uint8_t threshold = (uint8_t)(128 + (word >> 8) % 128);
        uint8_t *v = (uint8_t *)b->images + i * n_values;
        for (size_t k = 0; k < n_values; k++)
            if (v[k] >= threshold) v[k] = (uint8_t)(255 - v[k]);
        ++*n_done;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: after DIRECTORY\n");
        return 2;
    }
    unsigned n_done = 0;
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.source = argv[1];
    o.device = LDR_DEVICE_CPU;
    o.batch = 16;
    o.dtype = LDR_U8;
    o.after = solarize;
    o.after_user = &n_done;
    ldr *ld;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) {
        fprintf(stderr, "after: %s\n", err.message);
        return 1;
    }
    const ldr_batch *b;
    ldr_status s;
    uint64_t images = 0, sum = 0;
    while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) {
        const uint8_t *v = b->images;
        size_t n_values = (size_t)b->count * 3 * b->height * b->width;
        for (size_t k = 0; k < n_values; k++) sum += v[k];
        images += b->count;
        ldr_release(ld, b, NULL);
    }
    if (s < 0) {
        ldr_last_error(ld, &err);
        fprintf(stderr, "after: %s\n", err.message);
    }
    ldr_close(&ld);
    printf("%llu images, %u solarized, sum of values %llu\n", (unsigned long long)images, n_done,
           (unsigned long long)sum);
    return s < 0;
}
