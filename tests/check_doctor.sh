#!/usr/bin/env bash
# `ldr doctor` as a user meets it.  Wants LDR and BUILD, as check_command.sh does.
. "$(dirname "$0")/helper_shell.sh"

"$BUILD/samples/draw_photos" tree 20 1 96 || exit 1

help_fits doctor_help doctor
refused doctor_two_sources 2 'unexpected argument' "$ldr" doctor tree tree
refused doctor_batch 2 'no option --batch' "$ldr" doctor tree --batch 3

# --- without a source -------------------------------------------------------------------------

"$ldr" doctor >plain.txt 2>plain.err
same doctor_status 0 $?
same doctor_quiet '' "$(cat plain.err)"
same doctor_lines '' "$(grep -Ev '^(ok|note|warn) +[a-zA-Z ]+: .' plain.txt)"
missing=
for what in ldr 'vector instructions' jpeg libpng zlib 'back end' cpus gpu 'open files'; do
    grep -Eq "^(ok|note|warn) +$what: " plain.txt || missing="$missing '$what'"
done
[ -z "$missing" ] && ok doctor_findings || fail doctor_findings "no$missing"
same doctor_version "$("$ldr" --version | cut -d' ' -f2)" \
    "$(sed -n 's/^ok *ldr: //p' plain.txt)"
cd / && "$ldr" doctor >"$dir/root.txt" && ok doctor_anywhere || fail doctor_anywhere "status $?"
cd "$dir" || exit 1

"$ldr" doctor --json >plain.json
same doctor_json_status 0 $?
python doctor_json "
d = json.loads(open(sys.argv[1]).read())
assert d['can_run'] is True
f = {x['what']: x for x in d['findings']}
assert all(set(x) == {'level', 'what', 'value', 'help'} for x in d['findings'])
assert all(x['level'] in ('ok', 'note', 'warn') and x['value'] for x in d['findings'])
assert d['notes'] == sum(x['level'] == 'note' for x in d['findings'])
assert d['warnings'] == sum(x['level'] == 'warn' for x in d['findings'])
import os
n = len(os.sched_getaffinity(0))
assert 1 <= int(f['cpus']['value'].split()[0]) <= n, (n, f['cpus'])" plain.json

# --- what it takes notice of ------------------------------------------------------------------

LDR_SIMD=none "$ldr" doctor | grep -q '^.*vector instructions: none' && ok doctor_simd_none ||
    fail doctor_simd_none "not told"
LDR_SIMD=mmx "$ldr" doctor | grep -q '^warn  vector instructions: .*unknown' &&
    ok doctor_simd_unknown || fail doctor_simd_unknown "not told"
JSIMD_FORCENONE=1 "$ldr" doctor | grep -q '^warn  jpeg speed: JSIMD_FORCENONE' &&
    ok doctor_jpeg_switch || fail doctor_jpeg_switch "not told"
(ulimit -Sn 40 && "$ldr" doctor) | grep -q '^warn  open files: 40, ' && ok doctor_open_files ||
    fail doctor_open_files "not told"
if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
    taskset -c 0 "$ldr" doctor | grep -Eq '^(ok|note) +cpus: 1 to use of' && ok doctor_affinity ||
        fail doctor_affinity "$(taskset -c 0 "$ldr" doctor | grep cpus)"
else
    skip doctor_affinity "taskset cannot bind to CPU 0"
fi

# --- with a source ----------------------------------------------------------------------------

: >tree/notes.txt
"$ldr" doctor tree >tree.txt 2>tree.err
same doctor_source_status "0 0" "$? $(wc -l <tree.err)"
missing=
for line in 'source: 20 samples in [0-9]* classes, listed in' 'passed over: 1 without a picture' \
    'file system: .' 'headers: 20 of 20 looked at are good: ' 'size: [0-9.]* [kM]*B: fits'; do
    grep -q "^ok *$line" tree.txt || missing="$missing '$line'"
done
[ -z "$missing" ] && ok doctor_source || fail doctor_source "no$missing"
mkdir -p mixed/a
cp "$(find tree -name '*.jpg' | head -n 1)" mixed/a/good.jpg
printf '<!DOCTYPE html><html><body>404</body></html>' >mixed/a/page.jpg
ln -s "$dir/tree" mixed/a/link
"$ldr" doctor mixed >mixed.txt
same doctor_mixed_status 0 $?
grep -q '^warn  headers: 1 of 2 .*page.jpg' mixed.txt && ok doctor_bad_header ||
    fail doctor_bad_header "$(grep headers mixed.txt)"
grep -q '^note  passed over: 1 links to directories .*follow-links 1' mixed.txt &&
    ok doctor_links || fail doctor_links "$(grep passed mixed.txt)"
"$ldr" doctor mixed --follow-links 1 | grep -q 'source: 22 samples' && ok doctor_follows ||
    fail doctor_follows "not 22 samples"
rm mixed/a/good.jpg
"$ldr" doctor mixed --json >none.json 2>none.err
same doctor_no_good_file "1 0" "$? $(wc -l <none.err)"
"$ldr" doctor missing --json >missing.json 2>missing.err
same doctor_missing "1 0" "$? $(wc -l <missing.err)"
python doctor_missing_json "
d = json.loads(open(sys.argv[1]).read())
assert d['can_run'] is False and d['findings'][-1]['what'] == 'source', d['findings'][-1]
assert d['findings'][-1]['level'] == 'warn' and 'missing' in d['findings'][-1]['value']" missing.json
"$ldr" doctor tree >/dev/full 2>full.err
same doctor_disk_full "1 1" "$? $(grep -c 'standard output' full.err)"

exit $failed
