/* embed.c - the loader in another program: one epoch of a directory, batch by batch.
 *
 *     cc embed.c -lldr -o embed && ./embed photos/train
 */
#include <stdio.h>

#include "loader.h"

int main(int argc, char **argv)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.source = argc > 1 ? argv[1] : ".";
    o.batch = 16;

    ldr *ld;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) {
        fprintf(stderr, "embed: %s\n", err.message);
        return 1;
    }
    const ldr_batch *b;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) {
        const float *images = b->images; /* [count, 3, height, width], normalised */
        printf("batch %llu: %u images of %ux%u, the first is of class %s, its first value %g\n",
               (unsigned long long)b->index, b->count, b->width, b->height,
               ldr_class_name(ld, (uint32_t)b->labels_host[0]), (double)images[0]);
        ldr_release(ld, b, NULL); /* after the last use; on a GPU: on the stream of the last use */
    }
    if (s < 0) { /* not LDR_END: the loader has failed */
        ldr_last_error(ld, &err);
        fprintf(stderr, "embed: %s\n", err.message);
    }
    ldr_close(&ld);
    return s < 0;
}
