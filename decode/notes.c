#include "decode/notes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void ldri_notes_reset(ldri_notes *n)
{
    n->n_warnings = 0;
    n->first[0] = 0;
}

void ldri_notes_add(ldri_notes *n, const char *text)
{
    if (n->n_warnings++ == 0) snprintf(n->first, sizeof n->first, "%s", text);
}

char *ldri_notes_soften(char *text)
{
    unsigned char *t = (unsigned char *)text;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '.') text[length - 1] = 0;
    if (isupper(t[0]) && !isupper(t[1])) t[0] = (unsigned char)tolower(t[0]);
    return text;
}
