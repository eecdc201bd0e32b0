#include "tests/helper_images.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

static void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("test helper: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static void *get_memory(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) give_up("out of memory");
    return p;
}

/* ---- pictures ---- */

uint64_t helper_hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t helper_random(uint64_t *state)
{
    uint64_t r = helper_hash(*state);
    *state += 0x9E3779B97F4A7C15u;
    return r;
}

uint32_t helper_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((helper_random(state) >> 32) * n) >> 32);
}

/* A wave of period 512 in steps of one, 0 .. 255. */
static uint32_t triangle(uint32_t x)
{
    x &= 511;
    return x < 256 ? x : 511 - x;
}

static uint8_t smooth_at(uint32_t x, uint32_t y, uint32_t c, uint64_t seed)
{
    uint32_t s = (uint32_t)(helper_hash(seed + c) & 511);
    return (
        uint8_t)((triangle(x + 2 * y * (c + 1) / 3 + s) + triangle(3 * x / (c + 2) - y + 2 * s)) /
                 2);
}

static uint8_t edges_at(uint32_t x, uint32_t y, uint32_t c, uint64_t seed)
{
    uint64_t cell = helper_hash(seed ^ ((uint64_t)(x / 13) << 32 | y / 9));
    if ((x / 3 + y / 5) % 7 == 0) cell = ~cell;
    return (uint8_t)(cell >> (8 * c));
}

static uint8_t noise_at(uint32_t x, uint32_t y, uint32_t c, uint64_t seed)
{
    return (uint8_t)(helper_hash(helper_hash(seed ^ ((uint64_t)x << 32 | y))) >> (8 * c));
}

uint8_t *helper_draw(helper_drawing drawing, uint32_t width, uint32_t height, uint64_t seed)
{
    uint8_t *rgb = get_memory((size_t)3 * width * height), *p = rgb;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t v;
                switch (drawing) {
                case HELPER_SMOOTH:
                    v = smooth_at(x, y, c, seed);
                    break;
                case HELPER_NOISE:
                    v = noise_at(x, y, c, seed);
                    break;
                case HELPER_EDGES:
                    v = edges_at(x, y, c, seed);
                    break;
                default:
                    v = (12u * smooth_at(x, y, c, seed) + 3u * edges_at(x, y, c, seed) +
                         noise_at(x, y, c, seed)) /
                        16;
                }
                *p++ = (uint8_t)v;
            }
        }
    }
    return rgb;
}

/* ---- JPEG ---- */

void helper_jpeg_init(helper_jpeg *o)
{
    memset(o, 0, sizeof *o);
    o->quality = 90;
    o->components = 3;
    o->adobe = 1;
    for (int c = 0; c < 4; c++) o->h[c] = o->v[c] = 1;
}

void helper_jpeg_sampling(helper_jpeg *o, const char *name)
{
    static const struct {
        const char *name;
        int h, v;
    } known[] = {{"444", 1, 1}, {"422", 2, 1}, {"420", 2, 2}, {"440", 1, 2},
                 {"411", 4, 1}, {"410", 4, 2}, {"441", 1, 4}};
    for (int c = 0; c < 4; c++) o->h[c] = o->v[c] = 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        o->h[0] = known[i].h;
        o->v[0] = known[i].v;
        if (o->components == 4) { /* the black plane is as fine as the first one */
            o->h[3] = known[i].h;
            o->v[3] = known[i].v;
        }
        return;
    }
    give_up("no sampling is called %s", name);
}

int helper_jpeg_has_arithmetic(void)
{
#ifdef C_ARITH_CODING_SUPPORTED
    return 1;
#else
    return 0;
#endif
}

void helper_cmyk(const uint8_t rgb[3], uint8_t cmyk[4])
{
    cmyk[0] = rgb[0];
    cmyk[1] = rgb[1];
    cmyk[2] = rgb[2];
    cmyk[3] = (uint8_t)(255 - (rgb[0] + 2 * rgb[1] + rgb[2]) / 8);
}

static void jpeg_gives_up(j_common_ptr cinfo)
{
    char text[JMSG_LENGTH_MAX];
    cinfo->err->format_message(cinfo, text);
    give_up("libjpeg: %s", text);
}

/* One scan a component, everything in it: a sequential file that must be read whole. */
static void script_by_component(struct jpeg_compress_struct *cinfo, jpeg_scan_info scans[4])
{
    memset(scans, 0, 4 * sizeof *scans);
    for (int c = 0; c < cinfo->num_components; c++) {
        scans[c].comps_in_scan = 1;
        scans[c].component_index[0] = c;
        scans[c].Se = 63;
    }
    cinfo->scan_info = scans;
    cinfo->num_scans = cinfo->num_components;
}

/* A progressive file that stops short: coarse DC of all, coarse AC of the first component only.  It
 * is legal; libjpeg smooths over the blocks' edges where precision is lacking. */
static void script_unfinished(struct jpeg_compress_struct *cinfo, jpeg_scan_info scans[4])
{
    memset(scans, 0, 4 * sizeof *scans);
    scans[0].comps_in_scan = cinfo->num_components;
    for (int c = 0; c < cinfo->num_components; c++) scans[0].component_index[c] = c;
    scans[0].Al = 1;
    scans[1].comps_in_scan = 1;
    scans[1].Ss = 1;
    scans[1].Se = 5;
    scans[1].Al = 2;
    cinfo->scan_info = scans;
    cinfo->num_scans = 2;
}

uint8_t *helper_jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                            const helper_jpeg *o, size_t *n_bytes)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[4];
    unsigned char *bytes = NULL;
    unsigned long n = 0;

    cinfo.err = jpeg_std_error(&errors);
    errors.error_exit = jpeg_gives_up;
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &bytes, &n);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = o->components;
    cinfo.in_color_space = o->components == 1   ? JCS_GRAYSCALE
                           : o->components == 3 ? JCS_RGB
                                                : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    if (o->components == 4 && o->ycck) jpeg_set_colorspace(&cinfo, JCS_YCCK);
    if (o->components == 4 && !o->adobe) cinfo.write_Adobe_marker = FALSE;
    jpeg_set_quality(&cinfo, o->quality, TRUE);
    for (int c = 0; c < o->components; c++) {
        cinfo.comp_info[c].h_samp_factor = o->h[c];
        cinfo.comp_info[c].v_samp_factor = o->v[c];
    }
    cinfo.restart_interval = o->restart;
    cinfo.arith_code = o->arithmetic ? TRUE : FALSE;
    cinfo.optimize_coding = o->optimize ? TRUE : FALSE;
    if (o->progressive == 1) jpeg_simple_progression(&cinfo);
    if (o->progressive == 2) script_by_component(&cinfo, scans);
    if (o->progressive == 3) script_unfinished(&cinfo, scans);
    jpeg_start_compress(&cinfo, TRUE);
    if (o->exif) jpeg_write_marker(&cinfo, JPEG_APP0 + 1, o->exif, (unsigned)o->n_exif);
    uint8_t *row = get_memory((size_t)4 * width);
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *from = rgb + (size_t)3 * width * y;
        for (uint32_t x = 0; x < width; x++) {
            if (o->components == 1) row[x] = from[3 * x + 1];
            if (o->components == 3) memcpy(row + 3 * x, from + 3 * x, 3);
            if (o->components == 4) helper_cmyk(from + 3 * x, row + 4 * x);
        }
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&cinfo, rows, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    free(row);
    *n_bytes = n;
    return bytes;
}

/* ---- PNG ---- */

void helper_png_init(helper_png *o)
{
    memset(o, 0, sizeof *o);
    o->colour_type = 2;
    o->depth = 8;
    o->level = 1;
}

static int palette_size(const helper_png *o)
{
    return o->palette_entries ? o->palette_entries : 1 << o->depth;
}

static void palette_colour(int i, uint8_t rgb[3])
{
    uint64_t h = helper_hash(1000u + (unsigned)i);
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(h >> (8 * c));
}

static int palette_index(const helper_png *o, const uint8_t rgb[3])
{
    return (rgb[0] + 3 * rgb[1] + 7 * rgb[2]) % palette_size(o);
}

typedef struct byte_sink {
    uint8_t *bytes;
    size_t n, capacity;
} byte_sink;

static void take_bytes(png_structp png, png_bytep data, png_size_t n)
{
    byte_sink *s = png_get_io_ptr(png);
    if (s->n + n > s->capacity) {
        s->capacity = 2 * (s->n + n) + 256;
        s->bytes = realloc(s->bytes, s->capacity);
        if (!s->bytes) give_up("out of memory");
    }
    memcpy(s->bytes + s->n, data, n);
    s->n += n;
}

static void nothing_to_flush(png_structp png)
{
    (void)png;
}

static void png_gives_up(png_structp png, png_const_charp text)
{
    (void)png;
    give_up("libpng: %s", text);
}

static void png_keeps_quiet(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

/* Packs one row: 16-bit samples have the wanted value as high byte and noise as low byte; alpha is
 * noise, fully transparent pixels among it. */
static void png_row(const helper_png *o, const uint8_t *rgb, uint32_t width, uint32_t y,
                    uint8_t *row)
{
    int colour = o->colour_type & 2, alpha = o->colour_type & 4, is_palette = o->colour_type == 3;
    size_t at = 0;
    if (o->depth < 8) memset(row, 0, ((size_t)width * (unsigned)o->depth + 7) / 8);
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *p = rgb + 3 * (size_t)x;
        uint64_t noise = helper_hash((uint64_t)y << 32 | x);
        if (o->depth < 8 || is_palette) {
            unsigned v =
                is_palette ? (unsigned)palette_index(o, p) : (unsigned)p[1] >> (8 - o->depth);
            if (o->depth == 8) {
                row[at++] = (uint8_t)v;
            } else {
                unsigned bit = x * (unsigned)o->depth;
                row[bit / 8] |= (uint8_t)(v << (8 - (unsigned)o->depth - bit % 8));
            }
            continue;
        }
        for (int c = 0; c < (colour ? 3 : 1); c++) {
            row[at++] = colour ? p[c] : p[1];
            if (o->depth == 16) row[at++] = (uint8_t)(noise >> (8 * c));
        }
        if (alpha) {
            row[at++] = x % 5 == 0 ? 0 : (uint8_t)(noise >> 32);
            if (o->depth == 16) row[at++] = (uint8_t)(noise >> 40);
        }
    }
}

static void write_extras(png_structp png, png_infop info)
{
    static char key[] = "Comment", text[] = "drawn by a test";
    png_text t;
    memset(&t, 0, sizeof t);
    t.compression = PNG_TEXT_COMPRESSION_zTXt;
    t.key = key;
    t.text = text;
    t.text_length = strlen(text);
    png_set_text(png, info, &t, 1);
    png_set_gAMA_fixed(png, info, 100000);
    png_set_cHRM_fixed(png, info, 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000);
    png_set_pHYs(png, info, 2835, 2835, PNG_RESOLUTION_METER);
    static png_byte data[] = "private";
    png_unknown_chunk u;
    memset(&u, 0, sizeof u);
    memcpy(u.name, "teSt", 5);
    u.data = data;
    u.size = sizeof data;
    u.location = PNG_HAVE_IHDR;
    png_set_unknown_chunks(png, info, &u, 1);
}

uint8_t *helper_png_encode(const uint8_t *rgb, uint32_t width, uint32_t height, const helper_png *o,
                           size_t *n_bytes)
{
    byte_sink sink = {NULL, 0, 0};
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, png_gives_up, png_keeps_quiet);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) give_up("out of memory");
    png_set_write_fn(png, &sink, take_bytes, nothing_to_flush);
    png_set_IHDR(png, info, width, height, o->depth, o->colour_type,
                 o->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (o->colour_type == 3) {
        png_color colours[256];
        png_byte alphas[256];
        int n = palette_size(o);
        for (int i = 0; i < n; i++) {
            uint8_t c[3];
            palette_colour(i, c);
            colours[i].red = c[0];
            colours[i].green = c[1];
            colours[i].blue = c[2];
            alphas[i] = (png_byte)(i * 37);
        }
        png_set_PLTE(png, info, colours, n);
        if (o->trns) png_set_tRNS(png, info, alphas, n > 1 ? n - 1 : n, NULL);
    } else if (o->trns) {
        png_color_16 clear; /* the first pixel's colour is the transparent one */
        memset(&clear, 0, sizeof clear);
        uint32_t high = o->depth == 16 ? 8 : 0;
        clear.red = (png_uint_16)(rgb[0] << high);
        clear.green = (png_uint_16)(rgb[1] << high);
        clear.blue = (png_uint_16)(rgb[2] << high);
        clear.gray = (png_uint_16)(o->depth < 8 ? (unsigned)rgb[1] >> (8 - o->depth)
                                                : (unsigned)rgb[1] << high);
        png_set_tRNS(png, info, NULL, 0, &clear);
    }
    if (o->extras) write_extras(png, info);
    png_set_compression_level(png, o->level);
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    uint8_t *row = get_memory((size_t)8 * width + 8);
    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < height; y++) {
            png_row(o, rgb + (size_t)3 * width * y, width, y, row);
            png_write_row(png, row);
        }
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(row);
    *n_bytes = sink.n;
    return sink.bytes;
}

uint8_t *helper_png_expected(const uint8_t *rgb, uint32_t width, uint32_t height,
                             const helper_png *o)
{
    size_t n = (size_t)width * height;
    uint8_t *out = get_memory(3 * n);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = rgb + 3 * i;
        uint8_t *q = out + 3 * i;
        if (o->colour_type == 3) {
            palette_colour(palette_index(o, p), q);
        } else if (o->colour_type & 2) {
            memcpy(q, p, 3);
        } else {
            static const uint8_t step[] = {0, 255, 85, 0, 17};
            unsigned v = p[1];
            if (o->depth < 8) v = (v >> (8 - o->depth)) * step[o->depth];
            q[0] = q[1] = q[2] = (uint8_t)v;
        }
    }
    return out;
}

/* ---- files ---- */

static char *join(const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 2;
    char *s = get_memory(n);
    snprintf(s, n, "%s/%s", a, b);
    return s;
}

char *helper_temp_dir(void)
{
    const char *base = getenv("TMPDIR");
    char *path = join(base && *base ? base : "/tmp", "ldr_test_XXXXXX");
    if (!mkdtemp(path)) give_up("cannot make %s: %s", path, strerror(errno));
    return path;
}

void helper_write_file(const char *directory, const char *name, const void *bytes, size_t n_bytes)
{
    char *path = join(directory, name);
    for (char *p = path + strlen(directory) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            give_up("cannot make %s: %s", path, strerror(errno));
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    if (!f) give_up("cannot write %s: %s", path, strerror(errno));
    if (n_bytes && fwrite(bytes, 1, n_bytes, f) != n_bytes) give_up("cannot write %s", path);
    if (fclose(f)) give_up("cannot write %s: %s", path, strerror(errno));
    free(path);
}

uint8_t *helper_read_file(const char *path, size_t *n_bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    size_t n = 0, capacity = 1 << 16;
    uint8_t *bytes = get_memory(capacity + 1);
    for (size_t got; (got = fread(bytes + n, 1, capacity - n, f)) > 0;) {
        n += got;
        if (n < capacity) continue;
        capacity *= 2;
        bytes = realloc(bytes, capacity + 1);
        if (!bytes) give_up("out of memory");
    }
    if (ferror(f)) give_up("cannot read %s", path);
    fclose(f);
    bytes[n] = 0;
    *n_bytes = n;
    return bytes;
}

void helper_remove_tree(const char *path)
{
    DIR *d = opendir(path);
    if (!d && errno == EACCES && chmod(path, 0700) == 0) d = opendir(path);
    if (!d) give_up("cannot open %s: %s", path, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        char *inner = join(path, e->d_name);
        struct stat s;
        if (lstat(inner, &s) == 0 && S_ISDIR(s.st_mode)) {
            helper_remove_tree(inner);
        } else if (unlink(inner)) {
            give_up("cannot remove %s: %s", inner, strerror(errno));
        }
        free(inner);
    }
    closedir(d);
    if (rmdir(path)) give_up("cannot remove %s: %s", path, strerror(errno));
}
