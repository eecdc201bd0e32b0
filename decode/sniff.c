/* What a file is, by its first bytes.  Signatures are those of the formats' own specifications; the
 * list of what is not decoded exists for the message only. */
#include "decode/decode.h"

#include <string.h>
#include <strings.h>

typedef struct signature {
    uint16_t at; /* offset of the bytes */
    uint8_t length;
    const char *bytes;
    const char *name;
} signature;

#define SIGNATURE(at, bytes, name)                                                                 \
    {                                                                                              \
        at, sizeof bytes - 1, bytes, name                                                          \
    }

/* The first that fits wins. */
static const signature known[] = {
    SIGNATURE(0, "\x89PNG", "a PNG damaged by a transfer in text mode"),
    SIGNATURE(0, "GIF8", "a GIF"),
    SIGNATURE(8, "WEBP", "a WebP"),
    SIGNATURE(0, "BM", "a BMP"),
    SIGNATURE(0, "II*\0", "a TIFF"),
    SIGNATURE(0, "MM\0*", "a TIFF"),
    SIGNATURE(0, "II+\0", "a BigTIFF"),
    SIGNATURE(0, "MM\0+", "a BigTIFF"),
    SIGNATURE(4, "ftypavif", "an AVIF"),
    SIGNATURE(4, "ftypavis", "an AVIF sequence"),
    SIGNATURE(4, "ftyphei", "a HEIC"),
    SIGNATURE(4, "ftyphev", "a HEIC"),
    SIGNATURE(4, "ftypmif1", "a HEIF"),
    SIGNATURE(4, "ftypmsf1", "a HEIF sequence"),
    SIGNATURE(4, "ftypcrx", "a Canon raw file"),
    SIGNATURE(4, "ftyp", "an MP4 or QuickTime file"),
    SIGNATURE(0, "\xff\x0a", "a JPEG XL"),
    SIGNATURE(0, "\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL"),
    SIGNATURE(0, "\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000"),
    SIGNATURE(0, "\xff\x4f\xff\x51", "a JPEG 2000 codestream"),
    SIGNATURE(0, "\x8aMNG\r\n\x1a\n", "an MNG"),
    SIGNATURE(0, "\x8bJNG\r\n\x1a\n", "a JNG"),
    SIGNATURE(0, "8BPS", "a Photoshop file"),
    SIGNATURE(0, "\0\0\1\0", "an ICO"),
    SIGNATURE(0, "v/1\1", "an OpenEXR"),
    SIGNATURE(0, "#?RADIANCE", "a Radiance HDR"),
    SIGNATURE(0, "DDS ", "a DDS"),
    SIGNATURE(0, "qoif", "a QOI"),
    SIGNATURE(0, "%PDF", "a PDF"),
    SIGNATURE(0, "PK\3\4", "a ZIP archive"),
    SIGNATURE(0, "PK\5\6", "an empty ZIP archive"),
    SIGNATURE(0, "\x1f\x8b", "a gzip file"),
    SIGNATURE(0, "BZh", "a bzip2 file"),
    SIGNATURE(0,
              "\xfd"
              "7zXZ",
              "an xz file"),
    SIGNATURE(0, "\x28\xb5\x2f\xfd", "a Zstandard file"),
    SIGNATURE(0, "7z\xbc\xaf", "a 7z archive"),
    SIGNATURE(257, "ustar", "a tar archive"),
    SIGNATURE(0, "\x93NUMPY", "a NumPy array"),
    SIGNATURE(0, "\x89HDF\r\n", "an HDF5 file"),
    SIGNATURE(0, "SQLite format 3", "an SQLite database"),
    SIGNATURE(0,
              "\x7f"
              "ELF",
              "a program"),
    SIGNATURE(0, "\x1a\x45\xdf\xa3", "a Matroska or WebM file"),
    SIGNATURE(0, "\0\5\x16\7", "a macOS resource fork (._ file)"),
    SIGNATURE(0, "version https://git-lfs", "a git-lfs pointer (run git lfs pull)"),
    SIGNATURE(0, "version https://hawser", "a git-lfs pointer (run git lfs pull)"),
    SIGNATURE(0, "HTTP/", "an HTTP response with its header"),
    SIGNATURE(0, "\xef\xbf\xbd", "a binary file damaged by a text conversion"),
    SIGNATURE(0, "\xc3\xbf\xc3\x98", "a JPEG damaged by a text conversion"),
    SIGNATURE(0, "\xc2\x89PNG", "a PNG damaged by a text conversion"),
    SIGNATURE(0, "/9j/", "a JPEG in base64"),
    SIGNATURE(0, "iVBORw0KGgo", "a PNG in base64"),
    SIGNATURE(0, "data:image", "a data URL"),
};

/* Where markup begins: after a byte order mark and white space. */
static size_t skip_blank(const uint8_t *bytes, size_t n)
{
    size_t i = n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < n && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    return i;
}

static int begins_with(const uint8_t *bytes, size_t n, const char *word)
{
    size_t length = strlen(word);
    return n >= length && strncasecmp((const char *)bytes, word, length) == 0;
}

/* Looks for an element in the first part of a text; markup may begin with comments and prologues.
 */
static int contains(const uint8_t *bytes, size_t n, const char *word)
{
    if (n > 1024) n = 1024;
    for (size_t i = 0; i < n; i++) {
        if (begins_with(bytes + i, n - i, word)) return 1;
    }
    return 0;
}

static const char *markup_name(const uint8_t *bytes, size_t n)
{
    size_t i = skip_blank(bytes, n);
    bytes += i;
    n -= i;
    if (n == 0) return "nothing but white space";
    if (bytes[0] == '<') {
        if (contains(bytes, n, "<svg")) return "an SVG";
        if (contains(bytes, n, "<html") || contains(bytes, n, "<!doctype html")) {
            return "an HTML page";
        }
        if (begins_with(bytes, n, "<?xml")) return "an XML file";
        if (begins_with(bytes, n, "<!") || contains(bytes, n, "<head") ||
            contains(bytes, n, "<body")) {
            return "an HTML page";
        }
    }
    if (bytes[0] == '{' && contains(bytes, n, "\"")) return "a JSON text";
    if (i == 3 && n >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        return "a JPEG behind a byte order mark";
    }
    return "";
}

ldri_format ldri_sniff(const uint8_t *bytes, size_t n_bytes, const char **name)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    /* Two bytes: what follows FF D8 must be a marker, and libjpeg says so where it is not. */
    if (n_bytes >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        *name = "a JPEG";
        return LDRI_FORMAT_JPEG;
    }
    if (n_bytes >= sizeof png && memcmp(bytes, png, sizeof png) == 0) {
        *name = "a PNG";
        return LDRI_FORMAT_PNG;
    }
    *name = "";
    if (n_bytes == 0) return LDRI_FORMAT_UNKNOWN;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const signature *s = &known[i];
        if (n_bytes < (size_t)s->at + s->length) continue;
        if (memcmp(bytes + s->at, s->bytes, s->length) != 0) continue;
        *name = s->name;
        return LDRI_FORMAT_UNKNOWN;
    }
    if (n_bytes >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' && bytes[2] <= ' ') {
        *name = "a PPM, PGM, PBM or PAM";
        return LDRI_FORMAT_UNKNOWN;
    }
    int zeros = 1;
    for (size_t i = 0; i < n_bytes && i < 4096; i++) zeros &= bytes[i] == 0;
    *name = zeros ? "nothing but zero bytes" : markup_name(bytes, n_bytes);
    return LDRI_FORMAT_UNKNOWN;
}
