#include "loader/host_images.h"

#include <assert.h>
#include <stdlib.h>

#include "loader/pipeline.h"

size_t ldri_image_bytes(const ldr_batch *b)
{
    static const size_t value_bytes[] = {
        [LDR_F32] = 4, [LDR_F16] = 2, [LDR_BF16] = 2, [LDR_U8] = 1};
    return (size_t)3 * b->height * b->width * value_bytes[b->dtype];
}

static uint32_t output_of(const ldr *ld, const ldr_batch *b)
{
    uint32_t i = 0;
    while (b < ld->outputs[i].views || b >= ld->outputs[i].views + LDRI_VIEWS) {
        i++;
        assert(i < ld->n_outputs);
    }
    return ld->outputs[i].id;
}

static ldr_status reserve(ldri_host_images *copy, size_t bytes, ldr_error *err)
{
    if (bytes <= copy->bytes) return LDR_OK;
    ldri_host_images_free(copy);
    copy->memory = malloc(bytes);
    if (!copy->memory) {
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE,
                              "no memory for a copy of a batch, %zu bytes: lower batch", bytes);
    }
    copy->bytes = bytes;
    return LDR_OK;
}

ldr_status ldri_host_images_get(ldr *ld, const ldr_batch *b, ldri_host_images *copy,
                                const void **out)
{
    *out = b->images;
    if (!ld->ops->download) return LDR_OK;
    ldr_error err;
    size_t bytes = b->count * ldri_image_bytes(b);
    ldr_status s = reserve(copy, bytes, &err);
    *out = copy->memory;
    if (s >= 0) s = ld->ops->download(ld->backend, output_of(ld, b), copy->memory, bytes, &err);
    if (s < 0) ldri_pipeline_fail(ld, &err);
    return s;
}

void ldri_host_images_free(ldri_host_images *copy)
{
    free(copy->memory);
    copy->memory = NULL;
    copy->bytes = 0;
}
