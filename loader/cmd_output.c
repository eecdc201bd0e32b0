#include "loader/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/status.h"

int ldri_cmd_has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && path[n - m - 1] != '/' && strcasecmp(path + n - m, suffix) == 0;
}

static ldr_status cannot_write(const char *path, int error, ldr_error *err)
{
    char printable[256];
    return ldri_error_set(err, LDR_E_IO, error, LDR_NO_SAMPLE, "cannot write %s: %s",
                          ldri_printable_path(printable, sizeof printable, path), strerror(error));
}

ldr_status ldri_cmd_file_open(ldri_cmd_file *f, const char *path, ldr_error *err)
{
    static const char suffix[] = ".part-XXXXXX";
    struct stat st;
    int error = 0;
    memset(f, 0, sizeof *f);

    /* A link is written through, not replaced; a device is left alone. */
    if (stat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode)) {
            char printable[256];
            return ldri_error_set(err, LDR_E_IO, 0, LDR_NO_SAMPLE,
                                  "cannot write %s: not a regular file",
                                  ldri_printable_path(printable, sizeof printable, path));
        }
        f->target = realpath(path, NULL);
    } else {
        f->target = strdup(path);
    }
    if (!f->target) return cannot_write(path, errno, err);
    f->temporary = malloc(strlen(f->target) + sizeof suffix);
    if (!f->temporary) {
        error = ENOMEM;
        goto free_names;
    }
    strcpy(f->temporary, f->target);
    strcat(f->temporary, suffix);
    int fd = ldri_cmd_make_temporary(f->temporary);
    if (fd < 0) {
        error = errno;
        goto free_names;
    }
    mode_t mask = umask(0); /* mkstemp's file is private: give it the usual mode */
    umask(mask);
    (void)fchmod(fd, 0666 & ~mask); /* a file system without modes does not matter */
    f->stream = fdopen(fd, "wb");
    if (f->stream) return LDR_OK;
    error = errno;
    close(fd);
    ldri_cmd_remove_temporary(f->temporary);
free_names:
    free(f->temporary);
    free(f->target);
    memset(f, 0, sizeof *f);
    return cannot_write(path, error, err);
}

ldr_status ldri_cmd_file_commit(ldri_cmd_file *f, const char *path, ldr_error *err)
{
    int failed = ferror(f->stream), error = EIO;
    if (fclose(f->stream) != 0) {
        failed = 1;
        error = errno;
    }
    f->stream = NULL;
    if (!failed && ldri_cmd_rename_temporary(f->temporary, f->target) != 0) {
        failed = 1;
        error = errno;
    }
    if (failed) {
        ldri_cmd_file_discard(f);
        return cannot_write(path, error, err);
    }
    free(f->temporary);
    free(f->target);
    memset(f, 0, sizeof *f);
    return LDR_OK;
}

void ldri_cmd_file_discard(ldri_cmd_file *f)
{
    if (!f->temporary) return;
    if (f->stream) fclose(f->stream);
    ldri_cmd_remove_temporary(f->temporary);
    free(f->temporary);
    free(f->target);
    memset(f, 0, sizeof *f);
}
