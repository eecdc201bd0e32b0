/* draw_photos.c - draws small "photographs" in class folders, to try a loader on.
 *
 *     draw_photos DIR N [SEED [SIDE]]      N pictures in all, about SIDE (400) pixels wide
 *
 * Writes DIR/CLASS/NNN.jpg or .png: sizes are mixed, some JPEGs are progressive, some pictures are
 * grey.  What is drawn depends on SEED (1) and the picture's number only. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>
#include <png.h>

#define N_RANDOM 16

typedef struct colour {
    float r, g, b;
} colour;

typedef struct scene {      /* what a painter knows about its picture */
    float random[N_RANDOM]; /* 0 .. 1, drawn for this picture */
    uint32_t seed;
    float pixel; /* size of a pixel, for smooth edges */
} scene;

/* Pictures are 0 .. 1 high and `aspect` wide; y points down. */
typedef colour painter(const scene *s, float x, float y);

/* --- noise and colours ----------------------------------------------------------------------- */

static uint32_t mix_bits(uint32_t x) /* the finaliser of MurmurHash3 */
{
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

static float hash(int32_t x, int32_t y, uint32_t seed)
{
    uint32_t h =
        mix_bits(((uint32_t)x * 0x9e3779b9u + (uint32_t)y * 0x85ebca77u) ^ seed * 0xc2b2ae3du);
    return (float)(h >> 8) * 0x1p-24f;
}

static float between(float a, float b, float t)
{
    return a + (b - a) * t;
}

static float step_up(float edge, float width, float x) /* 0 below the edge, 1 above it */
{
    float t = (x - edge) / width + 0.5f;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return t * t * (3 - 2 * t);
}

static float noise(float x, float y, uint32_t seed)
{
    int32_t i = (int32_t)x, j = (int32_t)y; /* to the floor: a cast truncates */
    i -= x < (float)i;
    j -= y < (float)j;
    float u = x - (float)i, v = y - (float)j;
    u = u * u * (3 - 2 * u);
    v = v * v * (3 - 2 * v);
    return between(between(hash(i, j, seed), hash(i + 1, j, seed), u),
                   between(hash(i, j + 1, seed), hash(i + 1, j + 1, seed), u), v);
}

static float clouds(float x, float y, uint32_t seed)
{
    float sum = 0, weight = 0.5f;
    for (uint32_t k = 0; k < 4; k++) {
        sum += weight * noise(x, y, seed + k);
        x *= 2.03f;
        y *= 2.03f;
        weight *= 0.5f;
    }
    return sum;
}

static colour blend(colour a, colour b, float t)
{
    colour c = {between(a.r, b.r, t), between(a.g, b.g, t), between(a.b, b.b, t)};
    return c;
}

static colour shade(colour c, float f)
{
    colour d = {c.r * f, c.g * f, c.b * f};
    return d;
}

static colour hue(float h, float saturation, float value)
{
    float c[3];
    for (int i = 0; i < 3; i++) {
        float turn = h + 2.0f - (float)i / 3.0f; /* not negative: the cast rounds down */
        float t = fabsf((turn - (float)(int)turn) * 6.0f - 3.0f) - 1.0f;
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        c[i] = value * between(1.0f, t, saturation);
    }
    colour out = {c[0], c[1], c[2]};
    return out;
}

/* --- painters -------------------------------------------------------------------------------- */

static colour paint_balloons(const scene *s, float x, float y)
{
    float rise = clouds(x * 3 + 9, y * 5, s->seed);
    colour c = blend(hue(0.56f + 0.06f * s->random[0], 0.65f, 0.85f), hue(0.55f, 0.15f, 1.0f), y);
    c = blend(c, (colour){1, 1, 1}, step_up(0.52f, 0.25f, rise) * 0.8f);
    for (uint32_t k = 0; k < 6; k++) {
        float size = 0.05f + 0.035f * (float)k * (0.5f + hash(3, (int32_t)k, s->seed));
        float dx = x - 1.3f * hash(1, (int32_t)k, s->seed);
        float dy = y - 0.15f - 0.6f * hash(2, (int32_t)k, s->seed);
        float string = step_up(0.004f, s->pixel, fabsf(dx + 0.1f * size * sinf(dy * 30)));
        if (dy > size && dy < 4 * size) c = blend(shade(c, 0.5f), c, string);
        float d = sqrtf(dx * dx + dy * dy * (dy > 0 ? 0.75f : 1.0f));
        float light =
            1.05f - 0.6f * d / size - 0.35f * ((dx + dy) / size) * (d < size ? 1.0f : 0.0f);
        float spot = hypotf(dx + 0.35f * size, dy + 0.4f * size) / size;
        colour ball = shade(hue(hash(4, (int32_t)k, s->seed), 0.8f, 1.0f), 0.35f + 0.65f * light);
        ball = blend((colour){1, 1, 1}, ball, step_up(0.15f, 0.2f, spot));
        c = blend(ball, c, step_up(size, s->pixel, d));
    }
    return c;
}

static colour paint_bricks(const scene *s, float x, float y)
{
    float across = 5 + 5 * s->random[0], down = across * 2.2f;
    float row = floorf(y * down);
    float u = x * across + (fmodf(row, 2) != 0 ? 0.5f : 0.0f), v = y * down - row;
    float column = floorf(u);
    u -= column;
    float tone = hash((int32_t)column, (int32_t)row, s->seed);
    colour brick = hue(0.01f + 0.05f * s->random[1] + 0.02f * tone, 0.65f, 0.5f + 0.3f * tone);
    float grain = clouds(x * 45, y * 45, s->seed);
    brick = shade(brick, 0.75f + 0.5f * grain);
    colour mortar = shade((colour){0.8f, 0.77f, 0.7f}, 0.7f + 0.4f * grain);
    float edge_x = fminf(u, 1 - u) / across, edge_y = fminf(v, 1 - v) / down;
    float inside = step_up(0.006f, 0.004f + s->pixel, fminf(edge_x, edge_y));
    float lit = 1.0f + 0.15f * step_up(0.5f, 1.0f, 1 - v) - 0.25f * (1 - s->random[2]) * x;
    return shade(blend(mortar, brick, inside), lit);
}

static colour paint_checks(const scene *s, float x, float y)
{
    /* A floor seen from above its edge: each row of the picture is at one distance. */
    float horizon = 0.25f + 0.2f * s->random[0];
    colour wall = blend(hue(s->random[1], 0.45f, 0.9f), hue(s->random[1], 0.6f, 0.4f), y / horizon);
    if (y <= horizon) return wall;
    float distance = 0.35f / (y - horizon + 0.02f), turn = 1.5f * s->random[2];
    float px = (x - 0.65f) * distance * 2, py = distance * 2;
    float u = 2 * (px * cosf(turn) - py * sinf(turn)), v = 2 * (px * sinf(turn) + py * cosf(turn));
    float blur = 4 * s->pixel * distance * distance;
    float a = sinf(u * 3.14159f), b = sinf(v * 3.14159f);
    float check = step_up(0, 0.05f + 3 * blur, a * b);
    colour c = blend((colour){0.93f, 0.92f, 0.88f}, hue(s->random[3], 0.7f, 0.35f), check);
    float sheen = 1 - 0.5f * step_up(0.1f, 0.8f, fabsf(x - 0.4f - 0.5f * s->random[4]));
    c = shade(c, 0.55f + 0.55f * sheen);
    return blend(c, wall, step_up(4, 8, distance) * 0.9f);
}

static colour paint_flowers(const scene *s, float x, float y)
{
    float grass = clouds(x * 30, y * 7 + 20 * noise(x * 4, y * 4, 3), s->seed);
    colour c = blend((colour){0.08f, 0.25f, 0.05f}, (colour){0.45f, 0.65f, 0.2f}, grass);
    for (uint32_t k = 0; k < 9; k++) {
        int32_t i = (int32_t)k;
        float size = 0.07f + 0.012f * (float)k;
        float dx = x - 1.4f * hash(1, i, s->seed), dy = y - hash(2, i, s->seed);
        float d = hypotf(dx, dy) / size, angle = atan2f(dy, dx);
        if (d > 1.4f) continue;
        float petals = 5 + floorf(4 * hash(3, i, s->seed));
        float edge = 0.62f + 0.38f * fabsf(cosf(0.5f * petals * angle + 6 * hash(4, i, s->seed)));
        colour petal = hue(0.8f + 0.35f * hash(5, i, s->seed), 0.35f + 0.5f * s->random[0], 1.0f);
        petal = shade(petal, 0.55f + 0.45f * edge * (0.5f + 0.5f * d) + 0.1f * sinf(angle * 24));
        c = blend(c, shade(c, 0.55f), 1 - step_up(edge + 0.15f, 0.35f, d));
        c = blend(petal, c, step_up(edge, s->pixel / size + 0.02f, d));
        colour heart = shade((colour){0.98f, 0.78f, 0.15f},
                             0.7f + 0.5f * hash((int32_t)(dx * 600), (int32_t)(dy * 600), 5));
        c = blend(heart, c, step_up(0.24f, 0.06f, d));
    }
    return c;
}

static colour paint_mountains(const scene *s, float x, float y)
{
    float warm = s->random[0];
    colour low = hue(0.07f + 0.03f * warm, 0.55f * warm + 0.1f, 1.0f);
    colour c =
        blend(hue(0.6f, 0.55f, 0.55f + 0.35f * s->random[1]), low, y * 1.7f < 1 ? y * 1.7f : 1);
    float sun = hypotf(x - 1.2f * s->random[2], y - 0.2f - 0.15f * s->random[3]);
    c = blend(c, (colour){1, 0.95f, 0.8f}, expf(-sun * 7) * 0.8f + 1 - step_up(0.05f, 0.01f, sun));
    for (int k = 0; k < 4; k++) {
        float base = 0.42f + 0.14f * (float)k, height = 0.36f - 0.07f * (float)k;
        float ridge =
            base - height * (clouds(x * (1.6f + (float)k), 3.3f * (float)k, s->seed) - 0.4f) * 2;
        float below = (y - ridge) / 0.3f;
        if (y < ridge - 2 * s->pixel) continue;
        colour rock = blend(hue(0.6f, 0.25f, 0.72f), hue(0.3f + 0.1f * s->random[4], 0.5f, 0.22f),
                            (float)k / 3);
        float grain = clouds(x * 18 + (float)k, y * 26, s->seed + 9);
        rock = shade(rock, 0.7f + 0.6f * grain);
        if (k < 2) { /* snow on what is high and far */
            rock =
                blend((colour){0.97f, 0.97f, 1}, rock, step_up(0.25f + 0.5f * grain, 0.15f, below));
        }
        rock = blend(rock, low, 0.35f * (1 - (float)k / 3));
        c = blend(c, rock, step_up(ridge, 1.5f * s->pixel, y));
    }
    return c;
}

static colour paint_night(const scene *s, float x, float y)
{
    colour c = blend(hue(0.65f, 0.8f, 0.12f), hue(0.62f + 0.12f * s->random[0], 0.65f, 0.35f), y);
    float band = clouds(x * 3 + y * 2, y * 3 - x, s->seed) - 0.25f * fabsf(x - y - 0.2f) * 3;
    c = blend(c, hue(0.75f + 0.2f * s->random[1], 0.5f, 0.9f), step_up(0.45f, 0.6f, band) * 0.6f);
    for (int k = 0; k < 3; k++) { /* a star, perhaps, in each cell of three grids */
        float n = 9 + 12 * (float)k, cx = floorf(x * n), cy = floorf(y * n);
        float there = hash((int32_t)cx, (int32_t)cy, s->seed + 40u + (uint32_t)k);
        if (there < 0.45f) continue;
        float dx = x * n - cx - 0.3f - 0.4f * hash((int32_t)cx, (int32_t)cy, s->seed + 50u);
        float dy = y * n - cy - 0.3f - 0.4f * hash((int32_t)cx, (int32_t)cy, s->seed + 60u);
        float glow = 1.4f * expf(-hypotf(dx, dy) * 11 / there);
        c = blend(c, hue(0.55f + 0.5f * there, 0.25f, 1), glow > 1 ? 1 : glow);
    }
    float dx = x - 0.25f - 0.8f * s->random[2], dy = y - 0.25f, moon = hypotf(dx, dy);
    float shadow = hypotf(dx - 0.09f * s->random[3] - 0.02f, dy + 0.02f);
    colour face = shade((colour){0.98f, 0.95f, 0.82f}, 0.75f + 0.4f * clouds(x * 14, y * 14, 4));
    float lit = (1 - step_up(0.11f, 2 * s->pixel, moon)) * step_up(0.1f, 0.03f, shadow);
    c = blend(c, face, lit);
    float skyline = 0.86f - 0.16f * hash((int32_t)floorf(x * 14), 0, s->seed);
    if (y > skyline) {
        float wx = x * 70, wy = y * 50;
        float on = hash((int32_t)wx, (int32_t)wy, s->seed) > 0.72f &&
                   fabsf(wx - floorf(wx) - 0.5f) < 0.3f && fabsf(wy - floorf(wy) - 0.5f) < 0.3f;
        c = blend((colour){0.02f, 0.02f, 0.05f}, (colour){1, 0.8f, 0.4f}, on * 0.85f);
    }
    return c;
}

static colour paint_stripes(const scene *s, float x, float y)
{
    /* Woven cloth: stripes in a few colours, threads across, soft folds. */
    float turn = 3.1f * s->random[0], fold = clouds(x * 2, y * 2, s->seed);
    float u = x * cosf(turn) + y * sinf(turn) + 0.12f * fold;
    float v = y * cosf(turn) - x * sinf(turn);
    float n = 7 + 7 * s->random[1], at = u * n, stripe = floorf(at);
    int32_t which = (int32_t)stripe;
    colour a = hue(s->random[2] + 0.35f * hash(which, 1, s->seed), 0.65f, 0.95f);
    if (hash(which, 2, s->seed) < 0.4f) a = (colour){0.95f, 0.93f, 0.88f};
    float line = fabsf(at - stripe - 0.5f);
    a = blend(a, hue(s->random[3], 0.7f, 0.3f), step_up(0.44f, 2 * n * s->pixel, line));
    float weave = 0.88f + 0.12f * sinf(u * 420) * sinf(v * 420);
    float light = 0.55f + 0.9f * clouds(x * 2 + 0.15f, y * 2 + 0.1f, s->seed);
    return shade(a, weave * light);
}

static colour paint_waves(const scene *s, float x, float y)
{
    float horizon = 0.3f + 0.15f * s->random[0];
    colour glow = hue(0.04f + 0.06f * s->random[1], 0.75f, 1.0f);
    colour top = hue(0.68f + 0.15f * s->random[2], 0.5f, 0.55f);
    float sun_x = 0.3f + 0.7f * s->random[3];
    float sun = hypotf(x - sun_x, y - horizon + 0.06f);
    if (y < horizon) {
        colour c = blend(top, glow, powf(y / horizon, 1.5f));
        float veil = clouds(x * 2.5f, y * 12, s->seed);
        c = blend(c, shade(glow, 0.75f), step_up(0.5f, 0.3f, veil) * 0.6f);
        c = blend(c, (colour){1, 0.95f, 0.75f}, 1 - step_up(0.09f, 2 * s->pixel, sun));
        return blend(c, (colour){1, 0.9f, 0.6f}, 0.6f * expf(-sun * 6));
    }
    float depth = (y - horizon) / (1 - horizon), distance = 1 / (depth + 0.06f);
    float swell = clouds(x * distance * 1.5f, distance * 5, s->seed) +
                  0.1f * sinf(distance * 18 + 6 * noise(x * 4, distance, 2));
    colour deep = hue(0.52f + 0.08f * s->random[4], 0.8f, 0.3f);
    colour c = blend(deep, blend(glow, top, 0.5f), step_up(0.5f, 0.55f, swell));
    float path = expf(-fabsf(x - sun_x) * (9 - 5 * depth)) * step_up(0.42f, 0.2f, swell);
    c = blend(c, (colour){1, 0.9f, 0.65f}, path * 0.9f);
    float foam = clouds(x * 9, y * 22, s->seed + 5) * depth;
    return blend(c, (colour){1, 1, 1}, step_up(0.5f, 0.12f, foam) * 0.8f);
}

static const struct {
    const char *name;
    painter *paint;
} classes[] = {{"balloons", paint_balloons},   {"bricks", paint_bricks},
               {"checks", paint_checks},       {"flowers", paint_flowers},
               {"mountains", paint_mountains}, {"night", paint_night},
               {"stripes", paint_stripes},     {"waves", paint_waves}};

enum { N_CLASSES = sizeof classes / sizeof classes[0] };

/* --- pictures -------------------------------------------------------------------------------- */

typedef struct picture {
    unsigned width, height, channels; /* 3, or 1: grey */
    uint8_t *pixels;
} picture;

static uint8_t to_byte(float v, float grain)
{
    v = v < 0 ? 0 : v > 1 ? 1 : v;
    v = 255 * v + grain;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)(v + 0.5f);
}

static void paint(picture *p, painter *painter_of_class, const scene *s)
{
    for (unsigned j = 0; j < p->height; j++) {
        for (unsigned i = 0; i < p->width; i++) {
            float x = ((float)i + 0.5f) * s->pixel, y = ((float)j + 0.5f) * s->pixel;
            colour c = painter_of_class(s, x, y);
            /* A lens darkens the corners; a sensor has some grain. */
            float dx = (float)i / (float)p->width - 0.5f, dy = (float)j / (float)p->height - 0.5f;
            c = shade(c, 1.04f - 0.5f * (dx * dx + dy * dy));
            float grain = 5 * (hash((int32_t)i, (int32_t)j, s->seed) - 0.5f);
            uint8_t *out = p->pixels + ((size_t)j * p->width + i) * p->channels;
            if (p->channels == 1) {
                out[0] = to_byte(0.299f * c.r + 0.587f * c.g + 0.114f * c.b, grain);
            } else {
                out[0] = to_byte(c.r, grain);
                out[1] = to_byte(c.g, grain);
                out[2] = to_byte(c.b, grain);
            }
        }
    }
}

static void write_jpeg(FILE *f, const picture *p, int quality, int progressive, int subsampled)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    c.err = jpeg_std_error(&e); /* ends the program: nothing here can go on */
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = p->width;
    c.image_height = p->height;
    c.input_components = (int)p->channels;
    c.in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    if (!subsampled) c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = 1;
    if (progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = p->pixels + (size_t)c.next_scanline * p->width * p->channels;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

static void write_png(FILE *f, const picture *p)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        fprintf(stderr, "draw_photos: libpng failed\n");
        exit(1);
    }
    png_init_io(png, f);
    png_set_compression_level(png, 3);
    png_set_IHDR(png, info, p->width, p->height, 8,
                 p->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (unsigned j = 0; j < p->height; j++) {
        png_write_row(png, p->pixels + (size_t)j * p->width * p->channels);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
}

static void make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "draw_photos: cannot make %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void draw(const char *directory, unsigned number, uint32_t seed, unsigned side)
{
    unsigned class_at = number % N_CLASSES;
    scene s;
    picture p;
    char path[4096];
    s.seed = mix_bits(seed * 0x01000193u + number + 1);
    for (int i = 0; i < N_RANDOM; i++) s.random[i] = hash(i, 77, s.seed);

    /* 3:2, 4:3, square or upright, of various sizes. */
    static const float aspects[] = {1.5f, 1.333f, 1.0f, 0.75f, 1.333f, 1.5f};
    float aspect = aspects[(int)(s.random[15] * 5.99f)];
    p.width = (unsigned)((float)side * (0.7f + 0.6f * s.random[14]));
    p.height = (unsigned)((float)p.width / aspect);
    if (p.width < 8) p.width = 8;
    if (p.height < 8) p.height = 8;
    p.channels = s.random[13] < 0.08f ? 1 : 3;
    s.pixel = 1 / (float)p.height;
    p.pixels = malloc((size_t)p.width * p.height * p.channels);
    if (!p.pixels) {
        fprintf(stderr, "draw_photos: out of memory\n");
        exit(1);
    }
    paint(&p, classes[class_at].paint, &s);

    int png = s.random[12] < 0.15f;
    snprintf(path, sizeof path, "%s/%s", directory, classes[class_at].name);
    make_directory(path);
    snprintf(path, sizeof path, "%s/%s/%03u.%s", directory, classes[class_at].name,
             number / N_CLASSES, png ? "png" : "jpg");
    FILE *f = fopen(path, "wb");
    if (f && png) write_png(f, &p);
    if (f && !png) {
        write_jpeg(f, &p, 80 + (int)(15 * s.random[11]), s.random[10] < 0.25f, s.random[9] < 0.7f);
    }
    if (!f || ferror(f) | fclose(f)) {
        fprintf(stderr, "draw_photos: cannot write %s: %s\n", path, strerror(errno));
        exit(1);
    }
    free(p.pixels);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    uint32_t seed = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
    unsigned side = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 400;
    if (argc < 3 || argc > 5 || n == 0 || side == 0 || side > 20000) {
        fprintf(stderr, "usage: draw_photos DIR N [SEED [SIDE]]\n");
        return 2;
    }
    make_directory(argv[1]);
    for (unsigned i = 0; i < n; i++) draw(argv[1], i, seed, side);
    return 0;
}
