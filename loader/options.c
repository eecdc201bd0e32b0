#include "loader/options.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "loader/descriptor.h"

/* A larger `size` is taken for memory that nobody filled. */
enum { SIZE_LIMIT = 65536 };

static const ldr_options defaults = {
    .size = sizeof(ldr_options),
    .class_order = LDR_ORDER_BYTES,
    .batch = 64,
    .width = 224,
    .height = 224,
    .dtype = LDR_F32,
    .layout = LDR_NCHW,
    .epochs = 1,
    .shuffle = 1,
    .keep_last = 1,
    .world = 1,
    .view = LDR_VIEW_EVAL,
    .filter = LDR_BICUBIC,
    .scale = {0.08f, 1.0f},
    .ratio = {3.0f / 4.0f, 4.0f / 3.0f},
    .crop_pct = 0.875,
    .mean = {0.485f, 0.456f, 0.406f},
    .std = {0.229f, 0.224f, 0.225f},
    .device = LDR_DEVICE_AUTO,
    .depth = 4,
    .decode_limit = (size_t)1 << 30,
    .max_pixels = 100000000,
    .max_scans = 500,
    .max_file = (size_t)1 << 30,
    .on_bad = LDR_BAD_REPLACE,
    .jitter_prob = 1.0f,
    .mix_prob = 1.0f,
    .mix_switch_prob = 0.5f,
    .erase_area = {0.02f, 1.0f / 3.0f},
    .erase_aspect = 0.3f,
    .erase_mode = LDR_ERASE_CONST,
    .erase_count = {1, 1},
};

void ldr_options_init_sized(ldr_options *o, size_t size)
{
    if (!o || size < sizeof o->size) return;
    memset(o, 0, size);
    memcpy(o, &defaults, size < sizeof defaults ? size : sizeof defaults);
    o->size = size;
}

/* Writes a field only if the caller's struct has it. */
#define SET(o, field, value)                                                                       \
    do {                                                                                           \
        if (offsetof(ldr_options, field) + sizeof(o)->field <= (o)->size) (o)->field = (value);    \
    } while (0)

void ldr_options_train(ldr_options *o, uint32_t image_size)
{
    if (!o) return;
    SET(o, width, image_size);
    SET(o, height, image_size);
    SET(o, view, LDR_VIEW_TRAIN);
    SET(o, filter, LDR_BILINEAR);
    SET(o, hflip, 0.5f);
}

void ldr_options_eval(ldr_options *o, uint32_t image_size)
{
    if (!o) return;
    SET(o, width, image_size);
    SET(o, height, image_size);
    SET(o, shuffle, 0);
    SET(o, keep_last, 1);
    SET(o, view, LDR_VIEW_EVAL);
    SET(o, filter, LDR_BICUBIC);
    SET(o, hflip, 0.0f);
    SET(o, vflip, 0.0f);
}

static ldr_status whole(const char *name, uint64_t value, uint64_t low, uint64_t high,
                        ldr_error *err)
{
    if (value >= low && value <= high) return LDR_OK;
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "%s is %llu: give %llu to %llu",
                          name, (unsigned long long)value, (unsigned long long)low,
                          (unsigned long long)high);
}

static ldr_status at_least_1(const char *name, uint64_t value, ldr_error *err)
{
    if (value >= 1) return LDR_OK;
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "%s is 0: give 1 or more", name);
}

/* The choices' names, in order, separated by ", ". */
static ldr_status choice(const char *name, int value, int n, const char *names, ldr_error *err)
{
    if (value >= 0 && value < n) return LDR_OK;
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "%s is %d: give 0 to %d (%s)", name,
                          value, n - 1, names);
}

static ldr_status bounded(const char *name, float value, float high, ldr_error *err)
{
    if (value >= 0.0f && value <= high) return LDR_OK;
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "%s is %g: give 0 to %g", name,
                          (double)value, (double)high);
}

static ldr_status range(const char *name, const float v[2], ldr_error *err)
{
    if (v[0] > 0.0f && v[0] <= v[1] && isfinite(v[1])) return LDR_OK;
    return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                          "%s is %g,%g: give two numbers above 0, the smaller first", name,
                          (double)v[0], (double)v[1]);
}

static ldr_status check_data(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if (!o->source || !o->source[0]) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "source is not set: give a directory of pictures or class folders");
    }
    if ((s = choice("class_order", (int)o->class_order, 2, "bytes, natural", err)) < 0) return s;
    if ((s = whole("follow_links", o->follow_links, 0, 1, err)) < 0) return s;
    if ((s = whole("batch", o->batch, 1, 65536, err)) < 0) return s;
    if ((s = whole("width", o->width, 1, 16384, err)) < 0) return s;
    if ((s = whole("height", o->height, 1, 16384, err)) < 0) return s;
    if ((s = choice("dtype", (int)o->dtype, 4, "f32, f16, bf16, u8", err)) < 0) return s;
    if ((s = choice("layout", (int)o->layout, 2, "nchw, nhwc", err)) < 0) return s;
    /* Random numbers have 32 bits for the epoch: past them epochs would repeat. */
    const uint64_t n_epochs = (uint64_t)1 << 32;
    if ((s = whole("first_epoch", o->first_epoch, 0, n_epochs - 1, err)) < 0) return s;
    if ((s = whole("epochs", o->epochs, 0, n_epochs - o->first_epoch, err)) < 0) return s;
    if ((s = whole("shuffle", o->shuffle, 0, 1, err)) < 0) return s;
    if ((s = whole("keep_last", o->keep_last, 0, 1, err)) < 0) return s;
    if (o->world < 1) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE, "world is %d: give 1 or more",
                              (int)o->world);
    }
    if (o->rank < 0 || o->rank >= o->world) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "rank is %d: give 0 to %d (world - 1)", (int)o->rank,
                              (int)o->world - 1);
    }
    return LDR_OK;
}

static ldr_status check_image(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if ((s = choice("view", (int)o->view, 3, "eval, train, squash", err)) < 0) return s;
    if ((s = choice("filter", (int)o->filter, 4, "bilinear, bicubic, nearest, random", err)) < 0)
        return s;
    if ((s = range("scale", o->scale, err)) < 0) return s;
    if ((s = range("ratio", o->ratio, err)) < 0) return s;
    if (!(o->crop_pct > 0.0 && o->crop_pct <= 1.0)) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "crop_pct is %g: give more than 0, up to 1", o->crop_pct);
    }
    if ((s = bounded("hflip", o->hflip, 1, err)) < 0) return s;
    if ((s = bounded("vflip", o->vflip, 1, err)) < 0) return s;
    for (int c = 0; c < 3; c++) {
        if (!isfinite(o->mean[c])) {
            return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                                  "mean[%d] is %g: give a finite number", c, (double)o->mean[c]);
        }
        if (!(o->std[c] > 0.0f && isfinite(o->std[c]))) {
            return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                                  "std[%d] is %g: give a finite number above 0", c,
                                  (double)o->std[c]);
        }
    }
    return LDR_OK;
}

/* Far beyond what is of use; a value times a factor stays an int. */
#define MAX_STRENGTH 100.0f
#define MAX_ALPHA    100.0f

static ldr_status check_colour(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if ((s = bounded("brightness", o->brightness, MAX_STRENGTH, err)) < 0) return s;
    if ((s = bounded("contrast", o->contrast, MAX_STRENGTH, err)) < 0) return s;
    if ((s = bounded("saturation", o->saturation, MAX_STRENGTH, err)) < 0) return s;
    if ((s = bounded("hue", o->hue, 0.5f, err)) < 0) return s;
    if ((s = bounded("jitter_prob", o->jitter_prob, 1, err)) < 0) return s;
    return bounded("grayscale_prob", o->grayscale_prob, 1, err);
}

static ldr_status check_mix(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if ((s = bounded("mixup_alpha", o->mixup_alpha, MAX_ALPHA, err)) < 0) return s;
    if ((s = bounded("cutmix_alpha", o->cutmix_alpha, MAX_ALPHA, err)) < 0) return s;
    if ((s = bounded("mix_prob", o->mix_prob, 1, err)) < 0) return s;
    if ((s = bounded("mix_switch_prob", o->mix_switch_prob, 1, err)) < 0) return s;
    return whole("mix_pair", o->mix_pair, 0, 1, err);
}

static ldr_status check_erase(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if ((s = bounded("erase_prob", o->erase_prob, 1, err)) < 0) return s;
    if ((s = range("erase_area", o->erase_area, err)) < 0) return s;
    if ((s = bounded("erase_area[1]", o->erase_area[1], 1, err)) < 0) return s;
    if (!(o->erase_aspect > 0.0f && o->erase_aspect <= 1.0f)) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "erase_aspect is %g: give more than 0, up to 1",
                              (double)o->erase_aspect);
    }
    if ((s = choice("erase_mode", (int)o->erase_mode, 3, "const, rand, pixel", err)) < 0) return s;
    if ((s = whole("erase_count[0]", o->erase_count[0], 1, LDRI_MAX_ERASE, err)) < 0) return s;
    s = whole("erase_count[1]", o->erase_count[1], o->erase_count[0], LDRI_MAX_ERASE, err);
    if (s < 0) return s;
    /* Noise is drawn by a value's number, for which random numbers have that much room. */
    const uint64_t most = (uint64_t)1 << 22, values = (uint64_t)3 * o->width * o->height;
    if (o->erase_prob > 0.0f && o->erase_mode == LDR_ERASE_PIXEL && values > most) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "erase_mode is pixel, for images of at most %llu values, but %u x %u "
                              "is %llu: lower width or height, or take erase_mode rand",
                              (unsigned long long)most, o->width, o->height,
                              (unsigned long long)values);
    }
    return LDR_OK;
}

static ldr_status check_means(const ldr_options *o, ldr_error *err)
{
    ldr_status s;
    if ((s = choice("device", (int)o->device, 3, "auto, cpu, cuda", err)) < 0) return s;
    if (o->device_id < 0) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "device_id is %d: give 0 or more", (int)o->device_id);
    }
    if ((s = whole("threads", o->threads, 0, 1024, err)) < 0) return s;
    if ((s = whole("depth", o->depth, 1, 64, err)) < 0) return s;
    if ((s = at_least_1("decode_limit", o->decode_limit, err)) < 0) return s;
    if ((s = at_least_1("max_pixels", o->max_pixels, err)) < 0) return s;
    if ((s = at_least_1("max_scans", o->max_scans, err)) < 0) return s;
    if ((s = at_least_1("max_file", o->max_file, err)) < 0) return s;
    return choice("on_bad", (int)o->on_bad, 3, "replace, stop, mark", err);
}

ldr_status ldri_options_resolve(const ldr_options *in, ldr_options *out, ldr_error *err)
{
    if (!in) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "no options given: fill them with ldr_options_init");
    }
    if (in->size < sizeof in->size || in->size > SIZE_LIMIT) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "size of the options is %zu: fill them with ldr_options_init first",
                              in->size);
    }
    const unsigned char *bytes = (const unsigned char *)in;
    for (size_t i = sizeof *in; i < in->size; i++) {
        if (bytes[i]) {
            return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                                  "an option is set that this library (%d.%d.%d) does not know: "
                                  "use a newer one",
                                  LDR_VERSION_MAJOR, LDR_VERSION_MINOR, LDR_VERSION_PATCH);
        }
    }
    ldr_options o = defaults;
    memcpy(&o, in, in->size < sizeof o ? in->size : sizeof o);
    o.size = sizeof o;
    ldr_status s;
    if ((s = check_data(&o, err)) < 0) return s;
    if ((s = check_image(&o, err)) < 0) return s;
    if ((s = check_colour(&o, err)) < 0) return s;
    if ((s = check_mix(&o, err)) < 0) return s;
    if ((s = check_erase(&o, err)) < 0) return s;
    if ((s = check_means(&o, err)) < 0) return s;
    *out = o;
    return LDR_OK;
}
