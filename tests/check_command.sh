#!/usr/bin/env bash
# The command as a user meets it.  Wants LDR (the command) and BUILD (the build folder, for
# samples/draw_photos).  Prints `ok NAME`, `FAIL NAME why` or `skip NAME reason` for each check.
. "$(dirname "$0")/helper_shell.sh"

"$BUILD/samples/draw_photos" tree 40 1 160 || exit 1
small="--image-size 64 --batch 7"

# --- help and usage ---------------------------------------------------------------------------

for verb in run verify plan preview decode; do help_fits help_$verb $verb; done
help_fits help_alone
"$ldr" help options >help.txt && ! grep -q '.\{81\}' help.txt && ok help_options ||
    fail help_options "too wide"
"$ldr" --version | grep -q '^ldr [0-9]*\.[0-9]*\.[0-9]* (libjpeg' && ok version ||
    fail version "no version"

refused no_source 2 SOURCE "$ldr" run
refused unknown_verb 2 'did you mean verify' "$ldr" verfy tree
refused unknown_option 2 'did you mean --batch' "$ldr" run tree --bacth 3
refused bad_number 2 'whole number' "$ldr" run tree --batch 3x
refused out_of_range 2 'batch is 0' "$ldr" run tree --batch 0
refused out_of_range_json 2 'depth is 0' "$ldr" verify tree --depth 0 --json
refused missing_directory 1 'no such' "$ldr" run missing
refused missing_directory_plan 1 'no such' "$ldr" plan missing
mkdir empty
refused empty_directory 1 'empty' "$ldr" run empty
as_user=() # root may read everything
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ ${#as_user[@]} -gt 0 ] && ! "${as_user[@]}" "$ldr" --version >/dev/null 2>&1; then
    skip no_permission "no setpriv, or an ordinary user cannot enter the build's folder"
else
    chmod 755 . # of mktemp, entered by another user
    mkdir -m 0 locked && mkdir -p half/{a,b} && cp "$(find tree -name '*.jpg' | head -n 1)" half/a/x.jpg
    cp half/a/x.jpg half/b/y.jpg && chmod -R a+rX half && chmod 0 half/b
    refused no_permission 1 'ermission' "${as_user[@]}" "$ldr" run locked
    for verb in plan verify run; do # what is left out is said, whichever verb it is
        said=$("${as_user[@]}" "$ldr" $verb half --image-size 32 2>&1 >/dev/null)
        [[ $said == *'1 directories cannot be opened'*' b: '* ]] && ok class_left_out_$verb ||
            fail class_left_out_$verb "$said"
    done
    chmod 700 locked half/b
fi

# --- verify -----------------------------------------------------------------------------------

reference=$("$ldr" verify tree $small)
same verify_lines 7 "$(echo "$reference" | wc -l)"
echo "$reference" | grep -Eq '^epoch 0 batch 5  [0-9a-f]{64}$' && ok verify_batch_line ||
    fail verify_batch_line "$reference"
echo "$reference" | grep -Eq '^epoch 0  [0-9a-f]{64}$' && ok verify_epoch_line ||
    fail verify_epoch_line "$reference"
for n in 1 2 7 32; do
    same "verify_threads_$n" "$reference" "$("$ldr" verify tree $small --threads $n)"
done
for n in 1 2 16; do
    same "verify_depth_$n" "$reference" "$("$ldr" verify tree $small --depth $n --threads 3)"
done
same verify_again "$reference" "$("$ldr" verify tree $small)"
same verify_no_simd "$reference" "$(LDR_SIMD=none "$ldr" verify tree $small)"
same verify_small_arenas "$reference" "$("$ldr" verify tree $small --pinned-limit 450k)"
refused verify_arenas_too_small 1 'pinned' "$ldr" verify tree $small --pinned-limit 100k
differ verify_seed "$reference" "$("$ldr" verify tree $small --seed 1)"
differ verify_epoch "$(echo "$reference" | cut -d' ' -f3-)" \
    "$("$ldr" verify tree $small --epoch 1 | cut -d' ' -f3-)"
same verify_epochs_join "$reference
$("$ldr" verify tree $small --epoch 1)" "$("$ldr" verify tree $small --epochs 2)"
for dtype in f32 f16 bf16 u8; do
    for layout in nchw nhwc; do
        one=$("$ldr" verify tree $small --dtype $dtype --layout $layout --threads 1)
        other=$(LDR_SIMD=none "$ldr" verify tree $small --dtype $dtype --layout $layout --threads 5)
        same "verify_${dtype}_$layout" "$one" "$other"
        echo "$one" | tail -n 1 >>epochs
    done
done
same verify_types_differ 8 "$(sort -u epochs | wc -l)"
for view in eval squash; do
    same "verify_$view" "$("$ldr" verify tree $small --view $view --threads 1)" \
        "$("$ldr" verify tree $small --view $view --threads 4 --pinned-limit 450k)"
done
"$ldr" verify tree $small --json >verify.json
python verify_json "
lines = [json.loads(l) for l in open(sys.argv[1])]
assert [l.get('batch') for l in lines] == [0, 1, 2, 3, 4, 5, None], lines
assert all(l['epoch'] == 0 and len(l['sha256']) == 64 for l in lines), lines
import hashlib
joined = b''.join(bytes.fromhex(l['sha256']) for l in lines[:-1])
assert hashlib.sha256(joined).hexdigest() == lines[-1]['sha256']" verify.json

# What a digest is of, computed apart: a picture that is not resized, as bytes, and its label.
mkdir -p single/a single/b
cp "$(find tree -name '*.jpg' | sort | head -n 1)" single/b/only.jpg
cp "$(find tree -name '*.png' | sort | head -n 1)" single/a/other.png
"$ldr" decode single/b/only.jpg only.ppm
size=$(sed -n 2p only.ppm)
"$ldr" verify single --view squash --crop-pct 1 --width ${size% *} --height ${size#* } --batch 1 \
    --shuffle 0 --dtype u8 --layout nhwc | sed -n 2p >single.txt
python verify_digest "
import hashlib, struct
pixels = open('only.ppm', 'rb').read().split(b'\n', 3)[3]
digest = hashlib.sha256(pixels + struct.pack('<q', 1)).hexdigest()
line = open(sys.argv[1]).read().split()
assert line == ['epoch', '0', 'batch', '1', digest], (line, digest)" single.txt

# With cutmix: an image alone in its batch is mixed with itself; its labels and weight are digested too.
alone="--view squash --crop-pct 1 --width ${size% *} --height ${size#* } --batch 1 --shuffle 0 --cutmix-alpha 1"
"$ldr" plan single $alone | sed -n 2p >single.json
"$ldr" verify single $alone --dtype u8 --layout nhwc | sed -n 2p >single.txt
python verify_digest_of_mix "
import hashlib, struct
plan = json.load(open(sys.argv[1]))
assert plan['mix'] == 'cutmix' and plan['mix_with'] == 0 and 0 < plan['mix_lambda'] < 1, plan
pixels = open('only.ppm', 'rb').read().split(b'\n', 3)[3]
digest = hashlib.sha256(pixels + struct.pack('<qqf', 1, 1, plan['mix_lambda'])).hexdigest()
line = open('single.txt').read().split()
assert line == ['epoch', '0', 'batch', '1', digest], (line, digest)" single.json

everything="$small --filter random --vflip 0.5 --brightness 0.4 --contrast 0.4 --saturation 0.4 --hue 0.1
    --grayscale-prob 0.2 --mixup-alpha 0.8 --cutmix-alpha 1 --erase-prob 0.5 --erase-mode pixel"
reference=$("$ldr" verify tree $everything)
same verify_augmented "$reference" "$("$ldr" verify tree $everything --threads 5 --depth 2)"
same verify_augmented_small_arenas "$reference" \
    "$(LDR_SIMD=none "$ldr" verify tree $everything --threads 2 --depth 2 --pinned-limit 280k)"
differ verify_augmented_seed "$reference" "$("$ldr" verify tree $everything --seed 1)"

# --- run --------------------------------------------------------------------------------------

"$ldr" run tree $small --epochs 3 >run.txt 2>run.err
same run_status 0 $?
same run_quiet '' "$(cat run.err)"
grep -q '120 images in 18 batches, 3 epochs' run.txt && ok run_summary ||
    fail run_summary "$(head -n 3 run.txt)"
grep -q 'images/s' run.txt && ok run_speed || fail run_speed "no images/s"
"$ldr" run tree $small --epochs 2 --json >run.json 2>run.err
same run_json_status 0 $?
python run_json "
d = json.loads(open(sys.argv[1]).read())
assert d['images'] == 80 and d['batches'] == 12, d
assert abs(d['images_per_s'] * d['seconds'] - 80) < 0.01
w = d['wait_ms']
assert 0 <= w['p50'] <= w['p90'] <= w['p99'] <= w['max'] <= w['total'], w
for s in 'read decode synth copy augment'.split():
    assert set(d['stages'][s]) == {'items', 'bytes', 'busy_s', 'starved_s', 'blocked_s'}, s
assert d['stages']['decode']['items'] == 80 and d['stages']['read']['bytes'] > 80000
assert d['skipped'] == {} and d['bad'] == [] and d['cuda_calls'] == {}
for k in 'first_batch_ms limit threads depth device pinned_bytes device_bytes peak_rss_bytes'.split():
    assert k in d, k
assert d['device'] == 'cpu' and d['depth'] == 4 and d['peak_rss_bytes'] > 1 << 20" run.json

# --- plan -------------------------------------------------------------------------------------

"$ldr" plan tree $small --epochs 2 >plan.json
same plan_lines 80 "$(wc -l <plan.json)"
python plan_json "
lines = [json.loads(l) for l in open(sys.argv[1])]
for e in 0, 1:
    one = [l for l in lines if l['epoch'] == e]
    assert sorted(l['sample'] for l in one) == list(range(40))
    assert [l['position'] for l in one] == list(range(40))
    assert [(l['batch'], l['index']) for l in one] == [divmod(i, 7) for i in range(40)]
assert [l['sample'] for l in lines[:40]] != [l['sample'] for l in lines[40:]]
assert all(l['path'].startswith(l['class'] + '/') for l in lines)
assert len({l['label'] for l in lines}) == 8 and 'box' not in lines[0]
assert {l['hflip'] for l in lines} == {True, False} and not any(l['vflip'] for l in lines)
assert {l['filter'] for l in lines} == {'bilinear'}
assert not {'brightness', 'grayscale', 'mix', 'erase'} & set(lines[0])" plan.json
"$ldr" plan tree $everything --jitter-prob 0.5 >plan.json
python plan_augmented "
lines = [json.loads(l) for l in open(sys.argv[1])]
on = [l for l in lines if l['brightness'] is not None]
assert 0 < len(on) < 40
for l in on:
    assert all(0.6 <= l[k] <= 1.4 for k in ('brightness', 'contrast', 'saturation')), l
    assert -0.1 <= l['hue'] <= 0.1 and sorted(l['order']) == ['brightness', 'contrast', 'hue', 'saturation'], l
assert all(l['hue'] is None and 'order' not in l for l in lines if l not in on)
assert {l['grayscale'] for l in lines} == {True, False}
assert {len(l['erase']) for l in lines} == {0, 1}
for l in lines:
    for top, left, height, width in l['erase']:
        assert top + height <= 64 and left + width <= 64, l
for l in lines:
    n = 7 if l['batch'] < 5 else 5
    assert l['mix'] in ('mixup', 'cutmix') and l['mix_with'] == n - 1 - l['index'], l
    assert ('mix_box' in l) == (l['mix'] == 'cutmix') and 0 <= l['mix_lambda'] <= 1, l" plan.json
"$ldr" plan tree $small --probe >probe.json
python plan_probe "
for l in map(json.loads, open(sys.argv[1])):
    top, left, height, width = l['box']
    assert height > 0 and top + height <= l['height'] and width > 0 and left + width <= l['width']" probe.json
"$ldr" plan tree --rank 1 --world 3 >rank.json
same plan_rank 14 "$(wc -l <rank.json)"

# --- decode and preview -----------------------------------------------------------------------

jpeg=$(find tree -name '*.jpg' | sort | head -n 1)
png=$(find tree -name '*.png' | sort | head -n 1)
mkdir out
for file in "$jpeg" "$png"; do
    kind=${file##*.}
    "$ldr" decode "$file" out/a.ppm && "$ldr" decode "$file" out/a.png &&
        "$ldr" decode out/a.png out/b.ppm && cmp -s out/a.ppm out/b.ppm &&
        ok "decode_$kind" || fail "decode_$kind" "$file"
    same "decode_${kind}_magic" "P6" "$(head -c 2 out/a.ppm)"
done
rm -f out/*
head -c 300 "$jpeg" >cut.jpg
refused decode_cut 1 'cut.jpg' "$ldr" decode cut.jpg out/x.png
refused decode_missing 1 'missing.jpg' "$ldr" decode missing.jpg out/x.png
refused decode_no_folder 1 'nowhere/x.png' "$ldr" decode "$jpeg" nowhere/x.png
refused decode_suffix 2 'x.gif' "$ldr" decode "$jpeg" out/x.gif
refused decode_onto_directory 1 'd.png' sh -c "mkdir out/d.png; '$ldr' decode '$jpeg' out/d.png"
rmdir out/d.png
refused decode_no_room 1 'out/x.ppm' sh -c "ulimit -f 1; '$ldr' decode '$jpeg' out/x.ppm"
same decode_leaves_nothing '' "$(ls -A out)"
"$ldr" preview tree $small -o out/sheet.png >preview.txt
same preview_status 0 $?
same preview_says 'out/sheet.png: 7 images' "$(cut -d, -f1 preview.txt)"
"$ldr" decode out/sheet.png out/sheet.ppm && ok preview_is_png ||
    fail preview_is_png "cannot be decoded"
same preview_leaves_nothing_else 'sheet.png sheet.ppm' "$(ls -A out | tr '\n' ' ' | sed 's/ $//')"
refused preview_suffix 2 'sheet.jpg' "$ldr" preview tree -o out/sheet.jpg

# --- bad files --------------------------------------------------------------------------------

mkdir -p mixed/a mixed/b
i=0
for file in $(find tree -name '*.jpg' | sort | head -n 12); do
    i=$((i + 1))
    cp "$file" mixed/a/good$i.jpg
done
: >mixed/a/empty.jpg
printf x >mixed/b/one.jpg
size=$(wc -c <"$jpeg")
head -c $((size * 6 / 10)) "$jpeg" >mixed/b/cut.jpg
printf '<!DOCTYPE html>\n<html><body>404</body></html>\n' >mixed/b/page.jpg
# A byte in the middle of the pixels is changed: the chunk's checksum no longer fits.
size=$(wc -c <"$png")
cp "$png" mixed/b/crc.png
printf '\x55\xaa\x55' | dd of=mixed/b/crc.png bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
: >mixed/a/.hidden.jpg
: >mixed/a/notes.txt
bad_view="--image-size 64 --batch 5 --view squash --crop-pct 1"
expected="
bad = {b['path']: b['cause'] for b in d['bad']}
assert bad == {'a/empty.jpg': 'empty', 'b/one.jpg': 'format', 'b/cut.jpg': 'damaged',
               'b/page.jpg': 'format', 'b/crc.png': 'damaged'}, bad
assert all(b['message'] for b in d['bad'])"

"$ldr" run mixed $bad_view --on-bad replace --json >bad.json 2>bad.err
same bad_replace_status 0 $?
python bad_replace "
d = json.loads(open(sys.argv[1]).read())
assert d['images'] == 17, d['images']
assert d['skipped']['empty'] >= 1 and d['skipped']['format'] >= 2 and d['skipped']['damaged'] >= 2
$expected" bad.json
"$ldr" run mixed $bad_view --on-bad mark --json >bad.json 2>bad.err
same bad_mark_status 0 $?
python bad_mark "
d = json.loads(open(sys.argv[1]).read())
assert d['images'] == 17, d['images']
assert d['skipped'] == {'empty': 1, 'format': 2, 'damaged': 2}, d['skipped']
$expected" bad.json
"$ldr" run mixed $bad_view --on-bad stop --json >bad.json 2>bad.err
same bad_stop_status 1 $?
same bad_stop_one_line 1 "$(wc -l <bad.err)"
grep -Eq 'empty.jpg|one.jpg|cut.jpg|page.jpg|crc.png' bad.err && ok bad_stop_names_it ||
    fail bad_stop_names_it "$(cat bad.err)"
"$ldr" run mixed $bad_view >bad.txt
grep -q 'mixed: 17 samples, 2 classes' bad.txt && grep -q '^bad .*damaged' bad.txt &&
    grep -q 'b/page.jpg: format: ' bad.txt && grep -q '^passed over  1 hidden, 1 without' bad.txt &&
    ok bad_summary || fail bad_summary "$(cat bad.txt)"
reference=$("$ldr" verify mixed $bad_view --threads 1 2>verify.err)
same bad_verify "$reference" "$("$ldr" verify mixed $bad_view --threads 9 --depth 2 2>/dev/null)"
same bad_verify_notices 5 "$(grep -c '^ldr: bad: ' verify.err)"
"$ldr" plan mixed --probe >plan.json
same bad_plan 3 "$(grep -c '"bad":' plan.json)"

# A name that is not UTF-8 comes back through JSON as the same bytes.
mkdir -p "odd/c"
cp "$jpeg" "$(printf 'odd/c/caf\xe9\n.jpg')"
"$ldr" plan odd >odd.json
python odd_name "
path = json.loads(open(sys.argv[1]).read())['path']
assert path.encode('utf-8', 'surrogateescape') == b'c/caf\xe9\n.jpg', path" odd.json

# --- output that cannot be written, signals ---------------------------------------------------

for verb in plan verify run; do
    "$ldr" $verb tree $small >/dev/full 2>full.err
    same "${verb}_disk_full" "1 1" "$? $(grep -c 'standard output' full.err)"
    "$ldr" $verb tree $small >&- 2>full.err
    same "${verb}_closed" "1 1" "$? $(grep -c 'standard output' full.err)"
done
"$ldr" plan tree --epochs 0 2>pipe.err | head -n 1 >/dev/null
same plan_reader_gone "1" "${PIPESTATUS[0]}"
"$ldr" plan tree --json 2>&- >/dev/null
same stderr_closed 0 $?

for signal in INT TERM; do
    "$ldr" run tree $small --epochs 0 --json >stop.json 2>stop.err &
    pid=$!
    sleep 0.4
    start=$(date +%s%N)
    kill -$signal $pid
    wait $pid
    status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    same "stop_$signal" "$((128 + $(kill -l $signal)))" "$status"
    [ $took -lt 3000 ] && ok "stop_${signal}_soon" || fail "stop_${signal}_soon" "$took ms"
    python "stop_${signal}_json" "
d = json.loads(open(sys.argv[1]).read())
assert d['images'] > 0 and d['status'] == 'LDR_E_ABORTED', d['status']" stop.json
done

# --- the sample -------------------------------------------------------------------------------

"$BUILD/samples/embed" tree >embed.txt 2>&1
same embed "0 3" "$? $(grep -c '^batch ' embed.txt)"

exit $failed
