/* libraries.c - which decoding libraries this process runs with, for `ldr doctor`. */
#include "decode/decode.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#include <png.h>
#include <zlib.h>

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

/* libjpeg-turbo tells its version to nobody, but carries it as text. */
static const char mark[] = "libjpeg-turbo version ";

typedef struct search {
    uintptr_t inside; /* an address of the library */
    char *out;
    size_t capacity;
} search;

/* Not memmem: in a program linked statically the segment is the program's own, where
 * AddressSanitizer forbids what lies between two variables. */
__attribute__((no_sanitize("address"))) static int copy_version(const char *at, size_t n,
                                                                const search *wanted)
{
    for (size_t i = 0; i + sizeof mark < n; i++) {
        size_t k = 0;
        while (mark[k] && at[i + k] == mark[k]) k++;
        const char *digits = at + i + k;
        if (mark[k] || digits[0] < '0' || digits[0] > '9') continue;
        size_t length = 0;
        for (; i + k + length < n && length + 1 < wanted->capacity; length++) {
            char c = digits[length];
            if (c != '.' && (c < '0' || c > '9')) break;
            wanted->out[length] = c;
        }
        wanted->out[length] = 0;
        return 1;
    }
    return 0;
}

/* Looks through the read-only segments of the module that `inside` belongs to. */
static int look_into(struct dl_phdr_info *module, size_t size, void *arg)
{
    const search *wanted = arg;
    int owner = 0;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        uintptr_t start = module->dlpi_addr + p->p_vaddr;
        owner |= p->p_type == PT_LOAD && wanted->inside - start < p->p_memsz;
    }
    if (!owner) return 0;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_R) || (p->p_flags & PF_W)) continue;
        const char *start = (const char *)(module->dlpi_addr + p->p_vaddr);
        if (copy_version(start, p->p_filesz, wanted)) break;
    }
    return 1;
}

/* Every message table of the libjpeg family names its owner. */
static int is_turbo(void)
{
    struct jpeg_error_mgr errors;
    jpeg_std_error(&errors);
    if (JMSG_COPYRIGHT > errors.last_jpeg_message) return 0;
    const char *owner = errors.jpeg_message_table[JMSG_COPYRIGHT];
    return owner && strstr(owner, "libjpeg-turbo") != NULL;
}

void ldri_decode_libraries(ldri_libraries *out)
{
    memset(out, 0, sizeof *out);
    out->jpeg_is_turbo = is_turbo();
#ifdef LIBJPEG_TURBO_VERSION
    snprintf(out->jpeg_built, sizeof out->jpeg_built, "%s", VALUE_OF(LIBJPEG_TURBO_VERSION));
#endif
    /* Through an integer: a pointer to a function is no pointer to data. */
    search wanted = {(uintptr_t)jpeg_std_error, out->jpeg_runs, sizeof out->jpeg_runs};
    dl_iterate_phdr(look_into, &wanted);
    snprintf(out->png_built, sizeof out->png_built, "%s", PNG_LIBPNG_VER_STRING);
    snprintf(out->png_runs, sizeof out->png_runs, "%s", png_get_libpng_ver(NULL));
    snprintf(out->zlib_built, sizeof out->zlib_built, "%s", ZLIB_VERSION);
    snprintf(out->zlib_runs, sizeof out->zlib_runs, "%s", zlibVersion());
}
