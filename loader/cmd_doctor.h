/* cmd_doctor.h - what the files of `ldr doctor` share: findings, one line or one JSON object each.
 */
#ifndef LDR_CMD_DOCTOR_H
#define LDR_CMD_DOCTOR_H

#include "loader/cli.h"
#include "loader/json.h"

typedef enum ldri_level {
    LDRI_FINE,
    LDRI_NOTE, /* worth knowing, or could be better */
    LDRI_WARN  /* will disturb */
} ldri_level;

typedef struct ldri_doctor {
    int as_json;
    ldri_json json; /* within the list of findings */
    uint32_t counts[LDRI_WARN + 1];
    int broken; /* ldr cannot run here, or not on this source */
} ldri_doctor;

/* Tells one finding.  help: what would help, NULL or "" for nothing. */
void ldri_doctor_tell(ldri_doctor *d, ldri_level level, const char *what, const char *help,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A number of bytes as people read it: "512 bytes", "17.5 MB", "2.0 GB".  Returns out. */
char *ldri_doctor_bytes(char *out, size_t capacity, double bytes);

/* Memory that this process may still take: the machine's or the control group's; 0: not known. */
double ldri_doctor_available_bytes(void);

void ldri_doctor_machine(ldri_doctor *d);                      /* cmd_doctor_machine.c */
void ldri_doctor_source(ldri_doctor *d, const ldr_options *o); /* cmd_doctor_source.c */

#endif
