#!/usr/bin/env bash
# resume_equal.sh TRIREME FOLDER [BACKEND]: six steps in one run, and three with three more after a resume, with --deterministic:
# losses and gradient norms must be the same to the last bit. Says also how far they are without it.
set -u
trireme=$1
out=$2
backend=${3:-cuda}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$out"
train() {  # result options...
  local result=$1
  shift
  "$trireme" run --backend "$backend" --model "$here/models/tiny-llama.json" --seq 128 --global-batch 4 --layout fsdp2.mb2 \
    --lr 1e-3 --timeout 40 -q -o "$result" "$@" >"$out/run.log" 2>&1 || { tail -n 1 "$out/run.log"; exit 1; }
}
failed=0
for mode in --deterministic ""; do
  name=${mode:+deterministic}
  name=${name:-free}
  rm -rf "$out/$name.saved"
  train "$out/$name.whole.json" --steps 6 $mode
  train "$out/$name.first.json" --steps 3 --save "$out/$name.saved" $mode
  train "$out/$name.second.json" --steps 3 --resume "$out/$name.saved" $mode
  python3 - "$out/$name" "$name" <<'PY' || failed=1
import json, sys

def steps(part):
    with open(f"{sys.argv[1]}.{part}.json", encoding="utf-8") as file:
        return [(step["loss"], step["gradient_norm"]) for step in json.load(file)["steps"]]

whole, resumed = steps("whole"), steps("first") + steps("second")
worst = max(abs(a / b - 1) for left, right in zip(whole, resumed) for a, b in zip(left, right))
print(f"{sys.argv[2]:14} " + ("the same bits" if whole == resumed else f"up to {worst:.1e} apart"))
sys.exit(sys.argv[2] == "deterministic" and whole != resumed)
PY
done
exit $failed
