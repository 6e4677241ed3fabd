#!/usr/bin/env bash
# two_hosts.sh TRIREME: two hosts emulated on this machine, each a network namespace with two ranks of the CPU backend,
# started as `torchrun --nnodes 2` would. Their losses are those of one host to the bit; a host or rank that is killed,
# stopped, slow or silent ends the run within 60 s, named; checkpoints on storage that they share resume, and on storage
# that they do not share are refused. Exits 77 (skipped) where namespaces cannot be made.
set -u
trireme=$1
work=$(mktemp -d)
a=trireme-a-$$ b=trireme-b-$$
failed=0
cleanup() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
{ ip netns add "$a" && ip netns add "$b" &&
  ip link add va-$$ netns "$a" type veth peer name vb-$$ netns "$b"; } 2>/dev/null ||
  { echo "skipped: needs root and network namespaces"; exit 77; }
ip netns exec "$a" sh -c "ip addr add 10.77.0.1/24 dev va-$$; ip link set va-$$ up; ip link set lo up"
ip netns exec "$b" sh -c "ip addr add 10.77.0.2/24 dev vb-$$; ip link set vb-$$ up; ip link set lo up"

cat >"$work/model.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu",
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
common=(run --backend cpu --model "$work/model.json" --seq 32 --global-batch 4 -q)
port=29600

# start NAME ARGS...: the four ranks; their logs are NAME.RANK.log, their processes pids[RANK]. `private` is a folder that
# host b has for itself.
private=
start() {
  local name=$1 rank namespace
  shift
  port=$((port + 1))
  for rank in 0 1 2 3; do
    [ "$rank" -lt 2 ] && namespace=$a || namespace=$b
    ip netns exec "$namespace" env NCCL_HOSTID="host-${namespace:8:1}" RANK="$rank" WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=$port PRIVATE="$([ "$rank" -lt 2 ] || echo "$private")" \
      sh -c '[ -z "$PRIVATE" ] || mount -t tmpfs none "$PRIVATE"; exec "$@"' sh \
      "$trireme" "${common[@]}" "$@" >"$work/$name.$rank.log" 2>&1 &
    pids[rank]=$!
  done
}
finish() {
  code=0
  for pid in "${pids[@]}"; do
    wait "$pid" || code=$?
  done
}
report() {  # NAME PROBLEM DETAIL
  printf '%-26s %s\n' "$1" "${2:+FAIL $2 }${2:-ok  }$3"
  [ -z "$2" ] || failed=1
}
losses() { python3 -c 'import json,sys; print([s["loss"] for s in json.load(open(sys.argv[1]))["steps"]])' "$1"; }

same_losses() {
  local layout=$1
  "$trireme" "${common[@]}" --precision fp64 --layout "$layout" --steps 3 -o "$work/one.json" >"$work/one.log" 2>&1
  start equal --precision fp64 --layout "$layout" --steps 3 -o "$work/two.json"
  finish
  local problem=
  [ "$code" = 0 ] || problem="exit $code: $(tail -n 1 "$work/equal.0.log")"
  [ -n "$problem" ] || [ "$(losses "$work/one.json")" = "$(losses "$work/two.json")" ] || problem="other losses"
  report "losses of $layout" "$problem" "$(losses "$work/one.json")"
}

# fails NAME PATTERN ACTION...: the action befalls a run under way; every rank that lives ends within 60 s, and one of host
# a says what PATTERN says.
fails() {
  local name=$1 pattern=$2 began message problem=
  shift 2
  rm -rf "$work/save"
  start "$name" --layout fsdp4.mb1 --steps 1000000 --timeout "${timeout:-40}" --save "$work/save" --save-every 2
  for _ in $(seq 1200); do
    [ -d "$work/save/step-2" ] && break
    sleep 0.1
  done
  began=$SECONDS
  "$@"
  wait "${pids[0]}" && problem="exit 0"
  wait "${pids[1]}"
  local seconds=$((SECONDS - began))
  kill -9 "${pids[2]}" "${pids[3]}" 2>/dev/null
  wait
  message=$(cat "$work/$name".[01].log | grep -m 1 -E "$pattern") || problem="says $(tail -qn 1 "$work/$name".[01].log)"
  [ "$seconds" -lt 60 ] || problem="took $seconds s"
  report "$name ($seconds s)" "$problem" "$message"
}
nap() {
  kill -STOP "${pids[2]}" "${pids[3]}"
  sleep 12
  kill -CONT "${pids[2]}" "${pids[3]}"
}

same_losses fsdp4.mb1
same_losses tp2.pp2.mb1
kill_one() { kill -9 "${pids[3]}"; }
stop_one() { kill -STOP "${pids[3]}"; }
cut_wire() { ip netns exec "$b" ip link set vb-$$ down; }
fails killed 'rank 3 on host-b' kill_one
fails stopped 'rank 3 on host-b' stop_one
timeout=5 fails slow 'wait(ed|ing) .*for .*rank [23] on host-b' nap
fails silent 'rank [23] on host-b' cut_wire
ip netns exec "$b" ip link set vb-$$ up

start saved --layout fsdp4.mb1 --steps 2 --save "$work/shared"
finish
start resumed --layout fsdp4.mb1 --steps 1 --resume "$work/shared" -o "$work/resumed.json"
[ "$code" = 0 ] && finish
report "shared storage" "$([ "$code" = 0 ] || tail -qn 1 "$work"/saved.0.log "$work"/resumed.0.log)" "saves and resumes"
private=$work/apart
mkdir -p "$private"
start apart --layout fsdp4.mb1 --steps 2 --save "$work/apart"
finish
message=$(cat "$work"/apart.*.log | grep -m 1 'all hosts share')
report "storage of each host's own" "$([ "$code" != 0 ] && [ -n "$message" ] || echo "exit $code: $(tail -qn 1 "$work"/apart.*.log)")" "$message"
exit "$failed"
