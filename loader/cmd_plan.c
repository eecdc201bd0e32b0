/* The plan without the loader: nothing is decoded, no thread is started.  With --probe the headers
 * are read, because a crop's box is drawn from the picture's size. */
#include "loader/cmd.h"

#include <math.h>
#include <stdlib.h>

#include "decode/decode.h"
#include "loader/json.h"
#include "loader/log.h"
#include "loader/options.h"
#include "loader/params.h"
#include "loader/params_mix.h"
#include "loader/plan.h"
#include "loader/read.h"
#include "loader/source.h"
#include "loader/status.h"

typedef struct probe { /* zeroed: headers are not read */
    ldri_decoder *decoder;
    ldri_limits limits;
    ldri_buffer file;
} probe;

static void write_box(ldri_json *j, const char *key, const ldri_box *box)
{
    ldri_json_open(j, key, '[');
    ldri_json_uint(j, NULL, box->top);
    ldri_json_uint(j, NULL, box->left);
    ldri_json_uint(j, NULL, box->height);
    ldri_json_uint(j, NULL, box->width);
    ldri_json_close(j);
}

/* What an operator was drawn, under the name of its option, or null where the draw left it out. */
static void write_factor(ldri_json *j, const ldri_params *p, ldri_jitter op, const char *name,
                         float strength, double value)
{
    if (!(strength > 0.0f)) return;
    ldri_json_real(j, name, p->jitter >> op & 1 ? value : NAN);
}

static void write_colour(ldri_json *j, const ldr_options *o, const ldri_params *p)
{
    static const char *const names[4] = {"brightness", "contrast", "saturation", "hue"};
    const float strength[4] = {o->brightness, o->contrast, o->saturation, o->hue};
    for (unsigned op = 0; op < 4; op++) {
        double value = op == LDRI_HUE ? p->hue_turns : (double)p->factor[op];
        write_factor(j, p, (ldri_jitter)op, names[op], strength[op], value);
    }
    if (p->jitter) {
        ldri_json_open(j, "order", '[');
        for (unsigned i = 0; i < 4; i++)
            if (p->jitter >> p->order[i] & 1) ldri_json_string(j, NULL, names[p->order[i]]);
        ldri_json_close(j);
    }
    if (o->grayscale_prob > 0.0f) ldri_json_bool(j, "grayscale", p->greyscale);
}

static void write_mix(ldri_json *j, const ldr_options *o, const ldri_mix_params *m)
{
    if (!ldri_mixes(o)) return;
    ldri_json_string(j, "mix", m->mix == LDRI_MIXUP ? "mixup" : m->mix ? "cutmix" : "none");
    ldri_json_uint(j, "mix_with", m->partner);
    ldri_json_real(j, "mix_lambda", (double)m->label_weight);
    if (m->mix != LDRI_CUTMIX) return;
    ldri_box box = {m->top, m->left, m->bottom - m->top, m->right - m->left};
    write_box(j, "mix_box", &box);
}

static void write_erase(ldri_json *j, const ldr_options *o, const ldri_params *p)
{
    if (!(o->erase_prob > 0.0f)) return;
    ldri_json_open(j, "erase", '[');
    for (unsigned i = 0; i < p->n_erase; i++) {
        const ldri_erase_box *e = &p->erase[i];
        ldri_box box = {e->top, e->left, e->height, e->width};
        write_box(j, NULL, &box);
    }
    ldri_json_close(j);
}

/* Adds the picture's size and box, or what is wrong with it.  Failures that are not the file's
 * fault are returned. */
static ldr_status write_probed(ldri_json *j, probe *p, const ldri_source *source,
                               const ldr_options *o, const ldri_params *params, ldr_error *err)
{
    const char *name = ldri_source_name(source, params->sample);
    ldri_image_info info;
    ldri_failure why;
    ldr_status s =
        ldri_read_file(ldri_source_root_fd(source), name, &p->limits, NULL, &p->file, &why);
    if (s >= 0) s = ldri_decode_begin(p->decoder, p->file.bytes, p->file.n, &info, &why);
    if (s >= 0) {
        ldri_box box;
        ldri_params_box(o, params, info.width, info.height, &box);
        ldri_json_uint(j, "width", info.width);
        ldri_json_uint(j, "height", info.height);
        write_box(j, "box", &box);
    } else if (why.cause != LDR_CAUSE_NONE) {
        ldri_json_string(j, "bad", ldr_cause_name(why.cause));
        ldri_json_string(j, "message", why.text);
        s = LDR_OK;
    } else {
        char path[256];
        ldri_error_set(err, s, why.detail, params->sample, "%s: %s",
                       ldri_printable_path(path, sizeof path, name), why.text);
    }
    ldri_decode_end(p->decoder);
    return s;
}

typedef struct place {
    uint64_t epoch, batch;
    uint32_t index;
} place;

static const char *filter_name(uint8_t filter)
{
    return filter == LDR_BICUBIC ? "bicubic" : filter == LDR_NEAREST ? "nearest" : "bilinear";
}

static ldr_status write_line(const ldri_source *source, const ldri_plan *plan, const ldr_options *o,
                             const place *at, probe *p, ldr_error *err)
{
    ldri_json j = {.file = stdout};
    ldri_pick pick;
    ldri_params params;
    ldri_mix_params mix;
    ldr_status s = LDR_OK;
    ldri_plan_pick(plan, at->epoch, at->batch, at->index, &pick);
    ldri_params_draw(o, at->epoch, pick.sample, 0, &params);
    uint32_t class_id = ldri_source_class(source, pick.sample);

    ldri_json_open(&j, NULL, '{');
    ldri_json_uint(&j, "epoch", at->epoch);
    ldri_json_uint(&j, "batch", at->batch);
    ldri_json_uint(&j, "index", at->index);
    ldri_json_uint(&j, "position", pick.position);
    ldri_json_uint(&j, "sample", pick.sample);
    ldri_json_string(&j, "path", ldri_source_name(source, pick.sample));
    ldri_json_uint(&j, "label", class_id);
    ldri_json_string(&j, "class", ldri_source_class_name(source, class_id));
    if (p->decoder) s = write_probed(&j, p, source, o, &params, err);
    ldri_json_string(&j, "filter", filter_name(params.filter));
    ldri_json_bool(&j, "hflip", params.hflip);
    ldri_json_bool(&j, "vflip", params.vflip);
    write_colour(&j, o, &params);
    ldri_mix_draw(o, at->epoch, at->batch, ldri_plan_batch_count(plan, at->batch), at->index, &mix);
    write_mix(&j, o, &mix);
    write_erase(&j, o, &params);
    ldri_json_close(&j);
    return s;
}

/* All lines.  An endless plan ends with the reader or by a signal. */
static ldr_status write_plan(const ldri_source *source, const ldri_plan *plan, const ldr_options *o,
                             probe *p, ldr_error *err)
{
    for (uint64_t k = 0; o->epochs == 0 || k < o->epochs; k++) {
        for (uint64_t batch = 0; batch < plan->n_batches; batch++) {
            uint32_t n = ldri_plan_batch_count(plan, batch);
            for (uint32_t i = 0; i < n; i++) {
                place at = {o->first_epoch + k, batch, i};
                ldr_status s = write_line(source, plan, o, &at, p, err);
                if (s < 0 || !ldri_cmd_stdout_works(0)) return s;
            }
        }
    }
    return LDR_OK;
}

int ldri_cmd_plan(const ldri_cli *cli)
{
    ldr_options given = cli->options, o;
    ldri_source *source = NULL;
    ldri_plan plan;
    ldr_error err;
    probe p = {0};
    given.source = cli->args[0];

    ldr_status s = ldri_options_resolve(&given, &o, &err);
    if (s < 0) return ldri_cmd_failed(&err);
    s = ldri_source_open(&source, &o, &err);
    if (s >= 0) {
        ldri_log log;
        ldri_log_init(&log, NULL, NULL, getenv("LDR_DEBUG"));
        ldri_source_warn(source, &log);
    }
    if (s < 0) return ldri_cmd_failed(&err);
    s = ldri_plan_init(&plan, &o, ldri_source_count(source), &err);
    if (s >= 0 && cli->probe) {
        p.limits = (ldri_limits){o.max_pixels, o.max_scans, o.max_file};
        s = ldri_decoder_open(&p.decoder, &p.limits);
        if (s < 0) ldri_error_set(&err, s, 0, LDR_NO_SAMPLE, "out of memory");
    }
    if (s >= 0) s = write_plan(source, &plan, &o, &p, &err);
    int status = s < 0 ? ldri_cmd_failed(&err) : 0;
    if (!ldri_cmd_stdout_works(1) && status == 0) status = 1;
    ldri_buffer_free(&p.file);
    ldri_decoder_close(&p.decoder);
    ldri_source_close(&source);
    return status;
}
