#!/usr/bin/env bash
# trained_on_text.sh TRIREME FOLDER [BACKEND] [STEPS]: a small model with experts learns the licences that ship with the operating system, a byte a token,
# under expert parallelism and under fully sharded data parallelism. The second half is trained once more by each from the other's checkpoint. Noise is how far
# the same sharding with smaller micro-batches goes, which sums in another order; fails when curves differ by more than twice that, or when a last loss is
# not well below the entropy of single bytes.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
backend=${3:-cuda}
steps=${4:-400}
half=$((steps / 2))
mkdir -p "$out"
cat /usr/share/common-licenses/* >"$out/text"
python3 -c 'import sys, array; array.array("H", list(open(sys.argv[1], "rb").read())).tofile(open(sys.argv[2], "wb"))' "$out/text" "$out/text.u16"
train() {  # name layout options...
  local name=$1 layout=$2
  shift 2
  timeout 280 "$trireme" run --backend "$backend" --model "$here/models/byte-experts.json" --seq 256 --global-batch 16 --lr 2e-3 --warmup 20 --seed 5 \
    --data "$out/text.u16" --timeout 60 -q --layout "$layout" -o "$out/$name.json" "$@" >"$out/$name.log" 2>&1 || {
    echo "$name: $(tail -n 1 "$out/$name.log")"; exit 1; }
}
rm -rf "$out"/*.saved
train ep ep2.fsdp2.mb4 --steps $half --save "$out/ep.saved"
train fsdp fsdp2.mb4 --steps $half --save "$out/fsdp.saved"
train ep.ep ep2.fsdp2.mb4 --steps $((steps - half)) --resume "$out/ep.saved"
train fsdp.fsdp fsdp2.mb4 --steps $((steps - half)) --resume "$out/fsdp.saved"
train ep.fsdp fsdp2.mb4 --steps $((steps - half)) --resume "$out/ep.saved"
train fsdp.ep ep2.fsdp2.mb4 --steps $((steps - half)) --resume "$out/fsdp.saved"
train small fsdp2.mb2 --steps $half --save "$out/small.saved"
train small.small fsdp2.mb2 --steps $((steps - half)) --resume "$out/small.saved"
python3 - "$out" <<'PY'
import collections, json, math, sys

WELL_BELOW = 0.75  # of the entropy of single bytes


def losses(name):
    with open(f"{sys.argv[1]}/{name}.json", encoding="utf-8") as file:
        return [step["loss"] for step in json.load(file)["steps"]]


def smooth(curve):
    return [sum(curve[at:at + 10]) / 10 for at in range(0, len(curve) - 9, 10)]


text = open(f"{sys.argv[1]}/text", "rb").read()
entropy = -sum(count / len(text) * math.log(count / len(text)) for count in collections.Counter(text).values())
print(f"{len(text)} bytes, entropy of single bytes {entropy:.3f} nats")
failed = False
noise = {}
for first, second, what in (("small", "fsdp", "first half"), ("small.small", "fsdp.fsdp", "second half"), ("ep", "fsdp", "first half"),
                            ("ep.ep", "fsdp.fsdp", "second half"), ("ep.fsdp", "fsdp.fsdp", "second half"), ("fsdp.ep", "fsdp.fsdp", "second half")):
    a, b = losses(first), losses(second)
    worst = max(abs(x / y - 1) for x, y in zip(smooth(a), smooth(b)))
    noise.setdefault(what, worst)
    print(f"{what}: {first} {a[0]:.4f} to {smooth(a)[-1]:.4f}, {second} {b[0]:.4f} to {smooth(b)[-1]:.4f}, means of ten at most {worst:.1e} apart")
    failed |= worst > 2 * noise[what] or what == "second half" and smooth(a)[-1] > WELL_BELOW * entropy
sys.exit(failed)
PY
