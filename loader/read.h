/* read.h - a file's bytes into a buffer that is kept from file to file. */
#ifndef LDR_READ_H
#define LDR_READ_H

#include "loader/status.h"

typedef struct ldri_buffer { /* zeroed: empty */
    uint8_t *bytes;
    size_t n, capacity;
} ldri_buffer;

/* Makes room for at least n bytes; what was there is lost.  LDR_E_NOMEM leaves it empty. */
ldr_status ldri_buffer_reserve(ldri_buffer *b, size_t n);
void ldri_buffer_free(ldri_buffer *b);

/* Gives an unusually large block back, so that one huge picture does not stay in memory for ever.
 */
void ldri_buffer_trim(ldri_buffer *b, size_t keep);

/* Asked once a file's size is known, before memory is taken for it; may block.  LDR_OK: go on;
 * LDR_E_LIMIT: it is more than may ever be taken; LDR_E_ABORTED: the loader stops. */
typedef struct ldri_admission {
    ldr_status (*admit)(void *arg, size_t bytes);
    void *arg;
} ldri_admission;

/* admission NULL: LDR_OK.  A refusal fills *why. */
ldr_status ldri_admit(const ldri_admission *admission, size_t bytes, ldri_failure *why);

/* Reads the regular file `path`, relative to dir_fd (or AT_FDCWD), whole.  Never blocks on a FIFO
 * or device.  A large file is looked at before it is read: what is neither JPEG nor PNG is refused
 * after its first bytes.  admission may be NULL.  On failure *why (not NULL) tells the cause; NONE
 * for a lack of memory or descriptors, for an I/O error that stayed through three tries, and for
 * LDR_E_ABORTED. */
ldr_status ldri_read_file(int dir_fd, const char *path, const ldri_limits *limits,
                          const ldri_admission *admission, ldri_buffer *buf, ldri_failure *why);

/* Tells the kernel that the file will be read soon.  Failures do not matter: reading it will tell.
 */
void ldri_read_ahead(int dir_fd, const char *path);

#endif
