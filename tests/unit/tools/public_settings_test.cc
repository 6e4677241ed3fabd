// P01 to P08 of the public cases, settings that were missing or lost without a word, each with two
// variants: other models, programs and spellings.
#include "planner/launch/read_launch.h"
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

const std::string kQwen =
    "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 "
    "--group-query-attention --num-query-groups 4 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --add-qkv-bias --position-embedding-type rope --rotary-base 1000000 "
    "--untie-embeddings-and-output-weights --vocab-size 152064 --make-vocab-size-divisible-by 1 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
    "--use-distributed-optimizer ";
const Rules kNoType = {"warning bf16 or fp16 is given"};

TEST(PublicSettings, P01PrecisionIsFp32UnlessSomebodySaysOtherwise) {
  for (const PublicCase& one :
       {PublicCase{"P01",
                   "a.txt",
                   kModel,
                   kNode,
                   kNoType,
                   {{"/estimate/throughput/peak_tflops", 67.0}},
                   {"fp32"}},
        // fp8 alone leaves parameters, gradients and messages in fp32.
        PublicCase{"another model in a script",
                   "a.sh",
                   kOne + kTorchrun + kQwen,
                   kHost,
                   kNoType,
                   {{"/estimate/model/name", "qwen2.5-7b"}},
                   {"--bf16"}},
        PublicCase{"Megatron-DeepSpeed", "b.sh",
                   "deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed " + std::string(kModel),
                   kHost, kNoType},
        PublicCase{"ms-swift sets it",
                   "c.sh",
                   "NPROC_PER_NODE=8 megatron pt --model Qwen/Qwen2.5-7B "
                   "--tensor_model_parallel_size 2 --sequence_parallel true --max_length 4096\n",
                   kHost,
                   {},
                   {{"/estimate/throughput/peak_tflops", 989.0}}},
        PublicCase{"slime sets it",
                   "d.sh",
                   kOne +
                       "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 "
                       "--rollout-batch-size 32 " +
                       kQwen,
                   kHost,
                   {},
                   {{"/estimate/throughput/peak_tflops", 989.0}}}}) {
    expect_case(one);
  }
}

TEST(PublicSettings, P02WordsOfTheScriptDecideItsBranches) {
  const std::string sized =
      "SIZE=$1; TP=$2; PR=$3\nif [ $SIZE = 7B ]; then\n M=\"--num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32\"; elif [ $SIZE = 70B ]; then\n M=\"--num-layers 80 --hidden-size "
      "8192 --num-attention-heads 64\"; fi\nif [ $PR = bf16 ]; then P=--bf16; elif [ $PR = fp8 ]; "
      "then P=\"--bf16 --fp8-format hybrid\"; fi\n" +
      kOne + kTorchrun +
      "$M $P --swiglu --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 "
      "--micro-batch-size 1 --use-distributed-optimizer --tensor-model-parallel-size $TP\n";
  const std::string cases =
      "case \"${1:?size}\" in\n 1b|1B) L=16; H=2048; A=32;;\n 8b) L=32; H=4096; A=32;;\n *) echo "
      "no; exit 1;;\nesac\nshift\nTP=${1:-1}\n" +
      kOne + kTorchrun +
      "--num-layers $L --hidden-size $H --num-attention-heads $A --bf16 --seq-length 2048 "
      "--max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 "
      "--use-distributed-optimizer --tensor-model-parallel-size $TP\n";
  const std::string loop =
      "while [ $# -gt 0 ]; do\n case $1 in\n  tp=*) TP=\"${1#*=}\";;\n  pp=*) PP=${1#pp=};;\n "
      "esac\n shift\ndone\n" +
      kOne + kTorchrun + kGpt +
      "--tensor-model-parallel-size ${TP:-1} --pipeline-model-parallel-size ${PP:-1}\n";
  for (const PublicCase& one :
       {PublicCase{"P02",
                   "r.sh",
                   sized,
                   "--cluster dgx-h100x1 7B 2 bf16",
                   {},
                   {{"/layout/tp", 2},
                    {"/estimate/model/parameters", 6.6e9},
                    {"/estimate/throughput/peak_tflops", 989.0}}},
        PublicCase{"P02, the other branch",
                   "r.sh",
                   sized,
                   "--cluster dgx-h100x8 70B 8 fp8",
                   {},
                   {{"/layout/tp", 8}, {"/estimate/throughput/peak_tflops", 1979.0}}},
        PublicCase{"case, shift and a default",
                   "c.sh",
                   cases,
                   "--cluster dgx-h100x1 8b",
                   {},
                   {{"/layout/tp", 1}, {"/estimate/model/parameters", 6.58e9}}},
        PublicCase{"case, the first branch",
                   "c.sh",
                   cases,
                   "--cluster dgx-h100x1 1B 2",
                   {},
                   {{"/layout/tp", 2}, {"/estimate/model/parameters", 0.874e9}}},
        PublicCase{"a loop over the words",
                   "l.sh",
                   loop,
                   "--cluster dgx-h100x1 pp=2 tp=4",
                   {},
                   {{"/layout/tp", 4}, {"/layout/pp", 2}}}}) {
    expect_case(one);
  }
  const Checked open = check(written("r.sh", sized), "--cluster dgx-h100x1");
  EXPECT_EQ(open.json.at("verdict"), "not_known");
  for (const std::string& rule : rules_in(open)) {
    EXPECT_TRUE(rule.starts_with("warning")) << rule;
  }
}

TEST(PublicSettings, P03SourcedFilesAreRead) {
  written("models/x.sh",
          "MODEL_ARGS=(\n  --num-layers 24\n  --hidden-size 2048\n"
          "  --num-attention-heads 16\n)\n");
  written("conf/env.conf", "export CUDA_DEVICE_MAX_CONNECTIONS=1\nTP=2\nLAYERS=24\n");
  const std::string rest =
      " --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 1 "
      "--bf16\n";
  for (const PublicCase& one :
       {PublicCase{"P03",
                   "run.sh",
                   "SCRIPT_DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nsource "
                   "\"${SCRIPT_DIR}/models/x.sh\"\n" +
                       kTorchrun + "${MODEL_ARGS[@]}" + rest,
                   kHost,
                   {},
                   {{"/estimate/model/name", "gpt3-1.3b"}}},
        PublicCase{"a dot, and exports",
                   "run2.sh",
                   "here=$(dirname $(readlink -f $0))\n. ${here}/conf/env.conf\n" + kTorchrun +
                       "--num-layers $LAYERS --hidden-size 2048 --num-attention-heads 16 "
                       "--tensor-model-parallel-size $TP" +
                       rest,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"one in a loop over two files",
                   "run3.sh",
                   "for f in models/x.sh conf/env.conf; do source $f; done\n" + kTorchrun +
                       "${MODEL_ARGS[*]} --tensor-model-parallel-size ${TP}" + rest,
                   kHost,
                   {},
                   {{"/layout/tp", 2}, {"/estimate/model/name", "gpt3-1.3b"}}}}) {
    expect_case(one);
  }
}

TEST(PublicSettings, P04VariablesOfARayJobAreTheEnvironment) {
  const std::string train = "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 " +
                            kQwen + "--tensor-model-parallel-size 2 --sequence-parallel\n";
  for (const PublicCase& one :
       {PublicCase{"P04",
                   "ray.sh",
                   "RUNTIME='{\"env_vars\": {\"CUDA_DEVICE_MAX_CONNECTIONS\": \"1\"}}'\nray job "
                   "submit --runtime-env-json=\"$RUNTIME\" -- " +
                       train,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"from a here-document",
                   "ray2.sh",
                   "RUNTIME=$(cat <<EOF\n{\"env_vars\": {\"CUDA_DEVICE_MAX_CONNECTIONS\": "
                   "\"1\", \"NCCL_NVLS_ENABLE\": \"0\"}}\nEOF\n)\nray job submit "
                   "--runtime-env-json \"${RUNTIME}\" -- " +
                       train,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"a number, with a path in a variable",
                   "ray3.sh",
                   "P=/root/Megatron-LM\nray job submit --runtime-env-json=\"{\\\"env_vars\\\": "
                   "{\\\"PYTHONPATH\\\": \\\"${P}\\\", \\\"CUDA_DEVICE_MAX_CONNECTIONS\\\": "
                   "1}}\" -- " +
                       train,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}}}) {
    expect_case(one);
  }
}

TEST(PublicSettings, P05TextOfCommandsIsWorkedOut) {
  const std::string recipe = "CMD=\"python scripts/training/run_recipe.py --recipe ";
  for (const PublicCase& one :
       {PublicCase{"P05",
                   "r.sh",
                   "OV=\" model.tensor_model_parallel_size=2 train.global_batch_size=64\"\n" +
                       recipe +
                       "llama31_8b_pretrain_config\"\nCMD=\"$CMD $(echo \"$OV\" | tr "
                       "'\\n' ' ')\"\nsrun bash -c \"$CMD\"\n",
                   kHost,
                   {},
                   {{"/layout/tp", 2}, {"/layout/micro_batches", 16}}},
        PublicCase{"sed and another recipe",
                   "r2.sh",
                   "OV=\"model.tensor_model_parallel_size=@TP@ train.global_batch_size=32\"\n" +
                       recipe +
                       "qwen3_8b_pretrain_config\"\nCMD=\"$CMD $(echo $OV | sed -e "
                       "\"s/@TP@/4/\")\"\nsrun bash -c \"$CMD\"\n",
                   kHost,
                   {},
                   {{"/layout/tp", 4}, {"/layout/micro_batches", 16}}},
        PublicCase{"read, cut and a torchrun line with $( )",
                   "r3.sh",
                   "CONFIG=2:4:64\nTP=$(echo $CONFIG | cut -d: -f1)\nIFS=: read -r _ PP GBS <<< "
                   "\"$CONFIG\"\n" +
                       kOne + "torchrun --nproc_per_node 8 --rdzv_id $(date +%s) pretrain_gpt.py " +
                       kGpt +
                       "--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP "
                       "--global-batch-size $GBS\n",
                   kHost,
                   {},
                   {{"/layout/short", "tp2.pp4.mb1.nosp"}, {"/layout/micro_batches", 64}}}}) {
    expect_case(one);
  }
}

TEST(PublicSettings, P06UlyssesOfAccelerateIsSequenceParallelism) {
  if (!planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  const auto yaml = [](const std::string& stage, int ranks, int shards, int sequence) {
    return "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: " +
           stage + "\nnum_processes: " + std::to_string(ranks) +
           "\nparallelism_config:\n  parallelism_config_dp_shard_size: " + std::to_string(shards) +
           "\n  parallelism_config_sp_size: " + std::to_string(sequence) + "\n";
  };
  const std::string job = " --seq 8192 --recompute full --cluster ";
  for (const PublicCase& one :
       {PublicCase{"P06",
                   "u.yaml",
                   yaml("3", 8, 4, 2),
                   "--model llama-3.1-8b" + job + "dgx-h100x1",
                   {},
                   {{"/layout/cp", 2}, {"/layout/fsdp", 4}}},
        PublicCase{"over two hosts",
                   "u2.yaml",
                   yaml("3", 16, 2, 8),
                   "--model qwen2.5-14b" + job + "dgx-h100x2",
                   {},
                   {{"/layout/cp", 8}, {"/layout/fsdp", 2}}},
        PublicCase{"ZeRO-2",
                   "u3.yaml",
                   yaml("2", 8, 2, 4),
                   "--model llama-3.2-3b" + job + "hgx-h200x1",
                   {},
                   {{"/layout/cp", 4}, {"/layout/fsdp", 2}, {"/layout/sharding", "gradients"}}}}) {
    expect_case(one);
  }
}

TEST(PublicSettings, P07AFlagWithoutItsValueIsAnError) {
  const std::string path = written("gpt.txt", kGpt);
  for (const char* flag : {"--tensor-model-parallel-size", "--seq-length", "--num-experts"}) {
    const Checked answer = check(path, std::string(kNode) + " -- " + flag);
    EXPECT_EQ(answer.code, 2) << flag;
    EXPECT_NE(answer.err.find(std::string(flag) + " has no value"), std::string::npos)
        << answer.err;
  }
  expect_case({"in the middle of a script",
               "n.sh",
               kOne + kTorchrun + "--micro-batch-size --global-batch-size 64 " + kGpt,
               kHost,
               {"error flags have values"}});
}

TEST(PublicSettings, P08UnknownFlagsNameTheirNearOne) {
  const std::string path = written("gpt.txt", kGpt);
  for (const auto& [wrong, right] : {std::pair{"--tp 4", "--tensor-model-parallel-size"},
                                     {"--vpp 2", "--num-virtual-stages-per-pipeline-rank"},
                                     {"--global-batchsize 64", "--global-batch-size"},
                                     {"--use-flash-atn", "--use-flash-attn"}}) {
    const Checked answer = check(path, std::string(kNode) + " -- " + wrong);
    EXPECT_EQ(rules_in(answer), Rules{"error flags that Megatron-LM knows"}) << wrong;
    EXPECT_NE(fix_in(answer, "flags that Megatron-LM knows").find(right), std::string::npos)
        << wrong << fix_in(answer, "flags that Megatron-LM knows");
  }
}

// An error said "is no flag of Megatron-LM, whose parser refuses it" of two that it has with an
// underscore (training/arguments.py), in llm-jp's scripts of a decay phase among others.
TEST(PublicSettings, UnderscoresOfMegatronsOwnParserAreNoSlips) {
  const std::string start =
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 "
      "pretrain_gpt.py " +
      kGpt;
  const Checked own = check(written("underscored.sh", start + "--override-opt_param-scheduler\n"),
                            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(own), Rules{}) << own.err;
  const Checked slip =
      check(written("slipped.sh", start + "--use_distributed-optimizer\n"), "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(slip), Rules{"error flags that Megatron-LM knows"});
}

}  // namespace
}  // namespace trireme::tools
