#!/usr/bin/env bash
# faults.sh TRIREME FOLDER [BACKEND]: what goes wrong in practice, one line a case with its seconds and verdict. Each must end
# within 60 s with a clear message and an exit code that is not 0, and leave the last checkpoint whole: a further step
# resumes from it. BACKEND is cuda (two GPUs) or cpu, whose ranks are threads of one process and meet without a port.
set -u
trireme=$1
out=$2
backend=${3:-cuda}
limit=60
mkdir -p "$out"
failed=0
# Two layers and a wide vocabulary: a rank's part of a checkpoint is over 64 MiB.
cat >"$out/model.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 64000,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu",
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
common=(run --backend "$backend" --model "$out/model.json" --seq 32 --global-batch 2 --layout fsdp2.mb1 --timeout 20 -q)

now() { date +%s%N; }  # nanoseconds

children() { cat "/proc/$1/task/$1/children" 2>/dev/null || pgrep -P "$1"; }

# verdict NAME BEGIN EXIT_CODE LOG PATTERN: PATTERN is what the message must say.
verdict() {
  local tenths=$((($(now) - $2) / 100000000))
  local message
  message=$(grep -m 1 -E "$5" "$4")
  local problem=""
  [ "$3" -ne 0 ] || problem="exit code 0"
  [ -n "$message" ] || problem="${problem:+$problem, }no message with /$5/: $(tail -n 1 "$4")"
  ((tenths < 10 * limit)) || problem="${problem:+$problem, }too slow"
  if [ -z "$problem" ]; then
    printf '%-22s %4d.%d s  exit %d  ok    %s\n' "$1" $((tenths / 10)) $((tenths % 10)) "$3" "${message:0:150}"
  else
    printf '%-22s %4d.%d s  exit %d  FAIL  %s\n' "$1" $((tenths / 10)) $((tenths % 10)) "$3" "$problem"
    failed=1
  fi
}

# resumes NAME FOLDER: one more step from the last checkpoint.
resumes() {
  if timeout 120 "$trireme" "${common[@]}" --steps 1 --resume "$2" -o "$out/resumed.json" >"$out/resume.log" 2>&1; then
    printf '%-22s           resumes at step %s\n' "  its checkpoint" \
      "$(python3 -c "import json,sys; print(json.load(open(sys.argv[1]))['steps'][0]['step'])" "$out/resumed.json")"
  else
    printf '%-22s           FAIL  %s\n' "  its checkpoint" "$(tail -n 1 "$out/resume.log")"
    failed=1
  fi
}

killed_rank() {
  rm -rf "$out/killed"
  timeout -k 5 $((limit + 60)) "$trireme" "${common[@]}" --steps 100000 --save "$out/killed" --save-every 2 >"$out/killed.log" 2>&1 &
  local waiter=$!
  for _ in $(seq 600); do
    [ -n "$(find "$out/killed" -maxdepth 1 -name '*[0-9]' 2>/dev/null | head -n 1)" ] && break
    sleep 0.1
  done
  sleep 0.5
  local run victim
  run=$(children $waiter | tr ' ' '\n' | head -n 1)
  victim=$run  # on the cpu the ranks are threads of it
  [ "$backend" = cpu ] || victim=$(children "$run" | tr ' ' '\n' | grep . | tail -n 1)
  local begin
  begin=$(now)
  kill -9 "$victim"
  wait $waiter
  local code=$?
  if [ "$backend" = cpu ]; then
    echo "killed with all its ranks: nobody is left to say so" >>"$out/killed.log"
    verdict "rank killed" "$begin" $code "$out/killed.log" "killed"
  else
    verdict "rank killed" "$begin" $code "$out/killed.log" "rank [01] was ended by signal 9 .* in "
  fi
  resumes "rank killed" "$out/killed"
}

world_size() {
  local begin
  begin=$(now)
  local port=29617
  MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 \
    timeout -k 5 $((limit + 30)) "$trireme" "${common[@]}" --steps 1 >"$out/world0.log" 2>&1 &
  local first=$!
  MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=1 LOCAL_RANK=1 WORLD_SIZE=4 \
    timeout -k 5 $((limit + 30)) "$trireme" "${common[@]}" --steps 1 >"$out/world1.log" 2>&1
  local second_code=$?
  verdict "WORLD_SIZE 4, not 2" "$begin" $second_code "$out/world1.log" "WORLD_SIZE"
  wait $first
  verdict "  and its peer" "$begin" $? "$out/world0.log" "WORLD_SIZE|rank 1|did not|time-out"
}

port_in_use() {
  if [ "$backend" = cpu ]; then
    printf '%-22s skipped: the cpu backend has no port\n' "port in use"
    return
  fi
  python3 -c "
import socket, time
s = socket.socket(); s.bind(('', 29618)); s.listen(); time.sleep(90)" &
  local holder=$!
  sleep 0.5
  local begin
  begin=$(now)
  MASTER_ADDR=127.0.0.1 MASTER_PORT=29618 RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 \
    timeout -k 5 $((limit + 30)) "$trireme" "${common[@]}" --steps 1 >"$out/port.log" 2>&1
  verdict "port in use" "$begin" $? "$out/port.log" "29618.*in use|in use.*29618"
  kill $holder
  wait $holder 2>/dev/null
}

full_disk() {
  rm -rf "$out/disk"
  "$trireme" "${common[@]}" --steps 2 --save "$out/disk" >"$out/disk.log" 2>&1 || { tail -n 1 "$out/disk.log"; failed=1; }
  local begin
  begin=$(now)
  # A limit on the size of files stands for the full disk; 64 MiB leave room for what the libraries map.
  (
    trap '' XFSZ
    ulimit -f 65536
    exec timeout -k 5 $((limit + 30)) "$trireme" "${common[@]}" --steps 2 --resume "$out/disk" --save "$out/disk"
  ) >"$out/disk.log" 2>&1
  verdict "full disk in a save" "$begin" $? "$out/disk.log" "cannot write the checkpoint"
  resumes "full disk" "$out/disk"
}

killed_rank
world_size
port_in_use
full_disk
exit $failed
