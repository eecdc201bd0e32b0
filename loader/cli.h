/* cli.h - the command line: one table of options drives parsing, help and the manual page. */
#ifndef LDR_CLI_H
#define LDR_CLI_H

#include <stdio.h>

#include "loader/loader.h"

enum { /* verbs, as bits of ldri_cli_option.verbs */
       LDRI_VERB_RUN = 1,
       LDRI_VERB_VERIFY = 2,
       LDRI_VERB_DECODE = 4,
       LDRI_VERB_PLAN = 8,
       LDRI_VERB_PREVIEW = 16,
       LDRI_VERB_BENCH = 32,
       LDRI_VERB_DOCTOR = 64
};

typedef struct ldri_cli { /* what a command line says */
    ldr_options options;  /* options.source is not set here: args[0] */
    uint32_t json, probe, help;
    uint32_t rounds; /* of bench */
    double seconds;  /* of a round */
    const char *output;
    const char *args[2]; /* the verb's arguments, n_args of them */
    unsigned n_args;
} ldri_cli;

typedef enum ldri_cli_kind {
    LDRI_CLI_CHOICE, /* an enum, by name */
    LDRI_CLI_U32,    /* n_values > 1: so many, a,b */
    LDRI_CLI_I32,
    LDRI_CLI_U64,
    LDRI_CLI_BYTES, /* size_t; k, M, G: times 1024, 1024^2, 1024^3 */
    LDRI_CLI_F32,   /* n_values floats, a,b,... */
    LDRI_CLI_F64,
    LDRI_CLI_SWITCH, /* uint32_t, 0 or 1 */
    LDRI_CLI_FLAG,   /* uint32_t, takes no value */
    LDRI_CLI_TEXT    /* const char * */
} ldri_cli_kind;

typedef struct ldri_cli_option {
    const char *name; /* without "--" */
    char letter;      /* of the short form; 0: none */
    char essential;   /* shown by `ldr VERB --help`; the others by `ldr help options` */
    char early;       /* a preset: applied before the others, wherever it stands */
    unsigned char n_values, n_targets; /* n_targets: fields at offset that take the same value */
    ldri_cli_kind kind;
    unsigned verbs;
    size_t offset;              /* of the field in ldri_cli */
    const char *const *choices; /* of a CHOICE; ends with NULL */
    const char *help;
} ldri_cli_option;

typedef struct ldri_cli_verb {
    const char *name;
    unsigned bit;
    const char *arguments[2]; /* "SOURCE"; "[SOURCE]": need not be there; NULL: no more */
    const char *summary;      /* one line of `ldr --help` */
    const char *about;        /* lines of `ldr VERB --help` */
    int (*run)(const ldri_cli *cli);
} ldri_cli_verb;

extern const ldri_cli_option ldri_cli_options[]; /* ends with a NULL name */

/* The defaults of the command: those of the library and `--view train`. */
void ldri_cli_defaults(ldri_cli *cli);

/* Reads the words after the verb.  Strings point into argv.  LDR_E_INVALID: *err has one line. */
ldr_status ldri_cli_parse(ldri_cli *cli, const ldri_cli_verb *verb, int argc, char *const argv[],
                          ldr_error *err);

void ldri_cli_help_verb(FILE *f, const ldri_cli_verb *verb); /* 24 lines of 80 columns at most */
void ldri_cli_help_options(FILE *f);                         /* all of them, a line each */

/* The name nearest to a mistyped word among `n` names, or NULL if none is near. */
const char *ldri_cli_nearest(const char *word, const char *const *names, size_t n);

#endif
