/* notes.h - what the libraries warned of while one picture was decoded.
 *
 * Warnings never reach standard error: they are counted here and the first one is kept. */
#ifndef LDR_NOTES_H
#define LDR_NOTES_H

#include <stdint.h>

typedef struct ldri_notes {
    uint64_t n_warnings;
    char first[160]; /* "" if there was none */
} ldri_notes;

void ldri_notes_reset(ldri_notes *n);
void ldri_notes_add(ldri_notes *n, const char *text);

/* Lowers the first letter of a library's sentence, so that it can follow our own words, unless the
 * first word is an abbreviation ("DHT ..."), and removes a full stop.  Returns text. */
char *ldri_notes_soften(char *text);

#endif
