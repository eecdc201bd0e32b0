/* host_images.h - a batch's images in host memory, wherever the back end keeps them.  For the
 * command and for tests; a training loop has no use for it. */
#ifndef LDR_HOST_IMAGES_H
#define LDR_HOST_IMAGES_H

#include "loader/status.h"

typedef struct ldri_host_images { /* zeroed: empty */
    void *memory;
    size_t bytes;
} ldri_host_images;

size_t ldri_image_bytes(const ldr_batch *b); /* of one image */

/* b, which is held, was taken by ldr_next with consumer NULL.  *out is good until b is released or
 * the next call with the same copy.  Waits for a device.  A failure becomes the loader's own:
 * ldr_last_error has it. */
ldr_status ldri_host_images_get(ldr *ld, const ldr_batch *b, ldri_host_images *copy,
                                const void **out);
void ldri_host_images_free(ldri_host_images *copy);

#endif
