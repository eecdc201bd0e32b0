/* main.c - the command `ldr`: finds the verb, reads its options, runs it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "decode/decode.h"
#include "loader/cmd.h"

static const ldri_cli_verb verbs[] = {
    {"run",
     LDRI_VERB_RUN,
     {"SOURCE"},
     "load epochs; tell throughput, waits and what limits them",
     "Loads epochs of SOURCE (a directory of class folders, or of pictures) and tells\n"
     "throughput, waits, what limits and what was skipped.",
     ldri_cmd_run},
    {"verify",
     LDRI_VERB_VERIFY,
     {"SOURCE"},
     "digest of each batch and of the epoch",
     "Prints the SHA-256 of each batch and of each epoch.  They do not depend on\n"
     "threads, depth, device, limits or time.",
     ldri_cmd_verify},
    {"plan",
     LDRI_VERB_PLAN,
     {"SOURCE"},
     "an epoch's order and drawn parameters, a JSON object a line",
     "Prints what will be loaded in which order, and the parameters drawn for it: one\n"
     "JSON object a line.  Decodes nothing.",
     ldri_cmd_plan},
    {"preview",
     LDRI_VERB_PREVIEW,
     {"SOURCE"},
     "contact sheet of a batch as the model will see it",
     "Writes a contact sheet (PNG) of the first images of an epoch, at most 64, as the\n"
     "model will see them, with their classes.",
     ldri_cmd_preview},
    {"decode",
     LDRI_VERB_DECODE,
     {"FILE", "OUT"},
     "one file to PNG or PPM",
     "Decodes FILE (JPEG or PNG) whole, with the loader's own decoder, to OUT, whose\n"
     "name ends in .png or .ppm.",
     ldri_cmd_decode},
    {"bench",
     LDRI_VERB_BENCH,
     {"SOURCE"},
     "what each stage can do here, and what all together reach",
     "Measures each stage alone, on files held in memory, in turn with libjpeg-turbo\n"
     "alone, then all stages together.  Medians of short rounds.",
     ldri_cmd_bench},
    {"doctor",
     LDRI_VERB_DOCTOR,
     {"[SOURCE]"},
     "what was found on this machine, and what would help",
     "Tells what matters for loading: CPUs, decoders, GPU, memory, limits, and of\n"
     "SOURCE what is listed and whether it can be read.  Changes nothing.",
     ldri_cmd_doctor}};

enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static const ldri_cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
    }
    return NULL;
}

static void print_help(FILE *f)
{
    fputs("usage: ldr VERB ... [options]\n\n"
          "Loads images for training: decoded, augmented, in batches, in an order and with\n"
          "bytes that depend on nothing but the options and the files.\n\n",
          f);
    for (size_t i = 0; i < N_VERBS; i++) {
        char shown[40];
        snprintf(shown, sizeof shown, "%s %s%s%s", verbs[i].name, verbs[i].arguments[0],
                 verbs[i].arguments[1] ? " " : "",
                 verbs[i].arguments[1] ? verbs[i].arguments[1] : "");
        fprintf(f, "  %-18s%s\n", shown, verbs[i].summary);
    }
    fputs("\n"
          "  VERB --help       what a verb does, and its main options\n"
          "  help options      all options, with their defaults\n"
          "  --version         versions of ldr and of its decoders\n\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 130, 143 after SIGINT, SIGTERM.\n",
          f);
}

static void print_version(void)
{
    char decoders[128];
    ldri_decode_versions(decoders, sizeof decoders);
    uint32_t v = ldr_version();
    printf("ldr %u.%u.%u (%s)\n", v >> 16, v >> 8 & 255, v & 255, decoders);
}

static int wrong_verb(const char *word)
{
    const char *names[N_VERBS];
    char printable[64];
    for (size_t i = 0; i < N_VERBS; i++) names[i] = verbs[i].name;
    const char *near = ldri_cli_nearest(word, names, N_VERBS);
    ldri_cmd_say("unknown verb '%s': %s%s%s`ldr --help` lists them",
                 ldri_printable_path(printable, sizeof printable, word),
                 near ? "did you mean " : "", near ? near : "", near ? "? " : "");
    return 2;
}

static int run_verb(const ldri_cli_verb *verb, int argc, char **argv)
{
    ldri_cli cli;
    ldr_error err;
    if (ldri_cli_parse(&cli, verb, argc, argv, &err) < 0) return ldri_cmd_failed(&err);
    if (cli.help) {
        ldri_cli_help_verb(stdout, verb);
        return 0;
    }
    ldri_cmd_signals_start();
    return verb->run(&cli);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *word = argv[1];
    int is_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    if (is_help || (strcmp(word, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(word, "--version") == 0) {
        print_version();
        return 0;
    }
    if (strcmp(word, "help") == 0) {
        const ldri_cli_verb *verb = find_verb(argv[2]);
        if (strcmp(argv[2], "options") == 0) {
            ldri_cli_help_options(stdout);
        } else if (verb) {
            ldri_cli_help_verb(stdout, verb);
        } else {
            return wrong_verb(argv[2]);
        }
        return 0;
    }
    const ldri_cli_verb *verb = find_verb(word);
    return verb ? run_verb(verb, argc - 2, argv + 2) : wrong_verb(word);
}

int main(int argc, char **argv)
{
    /* A descriptor that was closed would be given to the first file that is opened, and messages
     * would go there.  Standard output opened for reading makes each write fail, as it should. */
    static const int modes[3] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd) return 1;
    }
    /* A reader that goes away and a limit on file sizes are write errors, which are reported. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int status = dispatch(argc, argv);
    if (!ldri_cmd_stdout_works(1) && status == 0) status = 1;
    return status;
}
