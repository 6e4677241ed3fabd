// Launch files of the kinds that people write, invented here, each with the answer that the
// framework's own code gives: what it would run, or what it raises.
#include "planner/launch/read_launch.h"
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

const std::string kLlama =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights "
    "--seq-length 4096 --max-position-embeddings 4096 --vocab-size 128256 --bf16 "
    "--use-distributed-optimizer --micro-batch-size 1 ";

TEST(InventedLaunches, ScriptsOfMegatron) {
  written("all.env", "TP=2\nCUDA_DEVICE_MAX_CONNECTIONS=1\n");
  written("env.sh", kOne + "export GPUS_PER_NODE=8\n: ${TP:=4}\nPP=2\n");
  for (const PublicCase& one :
       {PublicCase{"a batch job, a sourced file, arrays with remarks",
                   "l01.sh",
                   "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nset -euo pipefail\n"
                   "source \"$(dirname \"${BASH_SOURCE[0]}\")/env.sh\"\nMODEL_ARGS=(\n  " +
                       kLlama +
                       "\n)\nTRAIN_ARGS=( # sizes\n  --global-batch-size 256  # of the step\n"
                       "  --tensor-model-parallel-size ${TP}\n  --pipeline-model-parallel-size "
                       "${PP}\n  --sequence-parallel\n)\nsrun torchrun --nnodes ${SLURM_NNODES} "
                       "--nproc_per_node ${GPUS_PER_NODE} pretrain_gpt.py \\\n  "
                       "\"${MODEL_ARGS[@]}\" \"${TRAIN_ARGS[@]}\"\n",
                   "--cluster dgx-h100x4",
                   {},
                   {{"/layout/short", "tp4.pp2.fsdp4.mb1.zero1"}, {"/layout/micro_batches", 64}}},
        // The file was not known, and no argument was left.
        PublicCase{"arguments that a here-document writes",
                   "l02.sh",
                   kOne + "cat > /tmp/args.txt <<EOF\n" + kLlama +
                       "\n--tensor-model-parallel-size 2 --sequence-parallel\nEOF\n" + kTorchrun +
                       "$(cat /tmp/args.txt)\n",
                   kHost,
                   {},
                   {{"/layout/tp", 2}, {"/layout/fsdp", 4}}},
        PublicCase{"the same, read by <",
                   "l03.sh",
                   "cat <<'EOF' > args\n--tensor-model-parallel-size 4 --sequence-parallel\nEOF\n" +
                       kOne + kTorchrun + kLlama + "$(<args)\n",
                   kHost,
                   {},
                   {{"/layout/tp", 4}}},
        PublicCase{"a written file that is sourced",
                   "l04.sh",
                   kOne + "cat > ./run.env << EOF\nexport PP=4\nEOF\n. ./run.env\n" + kTorchrun +
                       kLlama + "--pipeline-model-parallel-size $PP\n",
                   kHost,
                   {},
                   {{"/layout/pp", 4}}},
        // MoELayer.forward raises without sequence parallelism in training.
        PublicCase{"experts under tensor parallelism",
                   "l05.sh",
                   "read -r -d '' ARGS <<-EOT\n\t" + kLlama +
                       "\n\t--tensor-model-parallel-size 2 --num-experts 8 "
                       "--expert-model-parallel-size 4 --moe-grouped-gemm\nEOT\n" +
                       kOne + kTorchrun + "$ARGS\n",
                   kHost,
                   {"error sequence_parallel needs tp"}},
        PublicCase{"mxfp8 before Blackwell",
                   "l06.sh",
                   kTorchrun + kLlama + "--fp8-format hybrid --fp8-recipe mxfp8\n",
                   kHost,
                   {"error mxfp8 needs Blackwell"}},
        PublicCase{"mxfp8 on Blackwell", "l06.sh",
                   kTorchrun + kLlama + "--fp8-format hybrid --fp8-recipe mxfp8\n",
                   "--cluster dgx-b200x1"},
        PublicCase{"both ends given",
                   "l07.sh",
                   kTorchrun + kLlama +
                       "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 7 "
                       "--decoder-last-pipeline-num-layers 7\n",
                   kHost,
                   {},
                   {{"/layout/stage_layers", {7, 9, 9, 7}}}},
        PublicCase{
            "mpirun, sums and a condition",
            "l08.sh",
            "NUM=16\nDP=$((NUM / 2 / 4))\nOPTS=\"\"\n[[ \"$DP\" -gt 1 ]] && OPTS+=\" "
            "--overlap-grad-reduce --overlap-param-gather\"\nOPTS=\"$OPTS "
            "--global-batch-size $((DP * 8))\"\n" +
                kOne + "mpirun -np ${NUM} -x CUDA_DEVICE_MAX_CONNECTIONS python pretrain_gpt.py " +
                kLlama +
                "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
                "--num-virtual-stages-per-pipeline-rank 2 --sequence-parallel $OPTS\n",
            "--cluster dgx-h100x2",
            {},
            {{"/layout/short", "tp2.pp4.vpp2.fsdp2.mb1.zero1"}, {"/layout/micro_batches", 8}}},
        // It was said not to be set.
        PublicCase{"everything is exported",
                   "l10.sh",
                   "set -a\nsource ./all.env\nset +a\n" + kTorchrun + kLlama +
                       "--tensor-model-parallel-size $TP --sequence-parallel\n",
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"and no longer",
                   "l11.sh",
                   "set -a\nTP=2\nset +a\nCUDA_DEVICE_MAX_CONNECTIONS=1\n" + kTorchrun + kLlama +
                       "--tensor-model-parallel-size $TP --sequence-parallel\n",
                   kHost,
                   {"error CUDA_DEVICE_MAX_CONNECTIONS == 1"},
                   {{"/layout/tp", 2}}},
        // validate_args: 60 sequences over 8 ranks.
        PublicCase{"a default decides a branch",
                   "l09.sh",
                   kOne +
                       "if [ \"${NNODES:-1}\" -gt 1 ]; then PP=4; else PP=1; fi\ntorchrun "
                       "--nnodes ${NNODES:-1} --nproc_per_node 8 pretrain_gpt.py " +
                       kLlama + "--pipeline-model-parallel-size $PP --global-batch-size 60\n",
                   kHost,
                   {"error global_batch % (dp * micro_batch)"},
                   {{"/layout/pp", 1}}}}) {
    expect_case(one);
  }
}

TEST(InventedLaunches, FilesOfTorchtitan) {
  if (!planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const auto titan = [](const std::string& name, const std::string& flavor,
                        const std::string& parallelism) {
    return "[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
           "\"\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n[parallelism]\n" + parallelism;
  };
  for (const PublicCase& one :
       {PublicCase{"a model without stages",
                   "a.toml",
                   titan("qwen3", "8B", "pipeline_parallel_degree = 2\n"),
                   kHost,
                   {"error models that torchtitan cuts into stages"}},
        PublicCase{"a model with stages",
                   "b.toml",
                   titan("llama3", "8B", "pipeline_parallel_degree = 2\n"),
                   kHost,
                   {},
                   {{"/layout/pp", 2}}},
        PublicCase{"attention without context parallelism",
                   "c.toml",
                   titan("gpt_oss", "20b", "context_parallel_degree = 2\n"),
                   kHost,
                   {"error attention with context parallelism"}},
        PublicCase{"a flavor without it",
                   "d.toml",
                   titan("llama3", "8B_flex", "context_parallel_degree = 2\n"),
                   kHost,
                   {"error attention with context parallelism"}},
        PublicCase{"a flavor with it",
                   "e.toml",
                   titan("llama3", "8B", "context_parallel_degree = 2\n"),
                   kHost,
                   {},
                   {{"/layout/cp", 2}, {"/layout/fsdp", 4}}},
        PublicCase{"async tensor parallelism alone",
                   "f.toml",
                   titan("llama3", "70B",
                         "tensor_parallel_degree = 8\nenable_async_tensor_parallel = true\n"),
                   "--cluster dgx-h100x8",
                   {"error async tensor parallelism needs compile"}}}) {
    expect_case(one);
  }
}

TEST(InventedLaunches, FilesOfDeepspeedAndAccelerate) {
  const std::string job = " --model llama-3.1-8b --seq 4096";
  // runtime/config.py: 2 x 4 x 16 is not 64.
  expect_case({"three numbers of a batch",
               "a.json",
               R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
                   "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
                   "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})",
               "--cluster dgx-h100x2" + job,
               {"error train_batch = micro * accumulation * dp"}});
  expect_case({"everything is left to the Trainer",
               "b.json",
               R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
                   "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3,
                   "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}})",
               "--cluster dgx-h100x2" + job,
               {},
               {{"/layout/fsdp", 16}},
               {"count as missing"}});
  if (!planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  const std::string fsdp =
      "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n";
  expect_case({"loads on one rank and never tells the others",
               "c.yaml",
               fsdp + "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false\n",
               std::string(kHost) + job,
               {"error efficient loading needs synchronised states"}});
  expect_case({"a policy of another name",
               "d.yaml",
               fsdp + "  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_WRAP\n",
               std::string(kHost) + job,
               {"error values that FSDP's plugin takes"}});
  expect_case({"a mesh of half the ranks",
               "e.yaml",
               "distributed_type: FSDP\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config:\n  "
               "fsdp_version: 2\nparallelism_config:\n  parallelism_config_dp_shard_size: 4\n  "
               "parallelism_config_tp_size: 2\n",
               "--cluster dgx-h100x2" + job,
               {"error gpus = tp * pp * cp * fsdp * dp"}});
}

TEST(InventedLaunches, RecipesOfMegatronBridge) {
  const std::string moe =
      "from megatron.bridge.recipes.qwen import qwen3_30b_a3b_pretrain_config\n";
  const std::string sizes =
      "cfg = qwen3_30b_a3b_pretrain_config()\ncfg.model.tensor_model_parallel_size = TP\n"
      "cfg.model.expert_model_parallel_size = EP\ncfg.model.expert_tensor_parallel_size = 1\n"
      "cfg.model.sequence_parallel = True\ncfg.train.global_batch_size = 32 * 8\n"
      "cfg.train.micro_batch_size = 1\n";
  for (const PublicCase& one :
       {// They were left to the program, and the plan without them was refused.
        PublicCase{"names of numbers",
                   "a.py",
                   moe + "TP, EP = 4, 8  # one host each\n" + sizes,
                   "--cluster dgx-h100x4",
                   {},
                   {{"/layout/tp", 4}, {"/layout/ep", 8}}},
        PublicCase{"one by one",
                   "b.py",
                   moe + "TP = 2\nEP = 4\n" + sizes,
                   "--cluster dgx-h100x4",
                   {},
                   {{"/layout/tp", 2}, {"/layout/ep", 4}}},
        PublicCase{"of the command line",
                   "c.py",
                   moe +
                       "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
                       "TP = args.tp\nEP = 8\n" +
                       sizes,
                   "--cluster dgx-h100x4",
                   {"warning sequence_parallel needs tp > 1"},
                   {{"/verdict", "not_known"}},
                   {"model.tensor_model_parallel_size"}},
        // It was no word for a switch.
        PublicCase{"a comparison",
                   "f.py",
                   moe + "import os\nTP = int(os.environ.get('TP', '2'))\nEP = 8\n" + sizes +
                       "cfg.model.sequence_parallel = TP > 1\n",
                   "--cluster dgx-h100x4",
                   {"warning sequence_parallel needs tp > 1"},
                   {{"/verdict", "not_known"}},
                   {"left to the program"}},
        // core/pipeline_parallel: virtual stages of one stage.
        PublicCase{"virtual stages without a pipeline",
                   "d.py",
                   "from megatron.bridge.recipes.llama import llama3_70b_pretrain_config\ndef "
                   "main():\n    cfg = llama3_70b_pretrain_config()\n    "
                   "cfg.model.tensor_model_parallel_size = 4\n    "
                   "cfg.model.virtual_pipeline_model_parallel_size = 5\n    "
                   "cfg.model.sequence_parallel = True\n",
                   "--cluster dgx-h100x4",
                   {"error virtual stages need pp"}},
        PublicCase{
            "a table of recipes and a list of overrides",
            "e.sh",
            "TP=2; CP=${CP:-2}\ndeclare -A RECIPE=( [8b]=llama3_8b_pretrain_config )\n"
            "OVERRIDES=(\n  \"model.tensor_model_parallel_size=$TP\"\n  "
            "\"model.context_parallel_size=$CP\"\n  \"model.sequence_parallel=true\"\n  "
            "\"train.global_batch_size=128\" \"train.micro_batch_size=1\"\n)\ntorchrun "
            "--nproc_per_node=8 scripts/training/run_recipe.py --recipe ${RECIPE[8b]} "
            "\"${OVERRIDES[@]}\"\n",
            kHost,
            {},
            {{"/layout/short", "tp2.cp2.fsdp2.mb1.zero1"}, {"/layout/micro_batches", 64}}}}) {
    expect_case(one);
  }
}

// TP= and nothing behind it was TP 1; so was ${TP:?} and any element of an array that Slurm's task
// picks.
TEST(InventedLaunches, VariablesWithoutAValueDecideNothing) {
  const std::string flag =
      kOne + kTorchrun + kLlama + "--tensor-model-parallel-size $TP --seed 1\n";
  for (const PublicCase& one :
       {PublicCase{"set to nothing", "v1.sh", "TP=\n" + flag, kHost, {"error flags have values"}},
        PublicCase{"asked for",
                   "v2.sh",
                   "TP=${TP:?which}\n" + flag,
                   kHost,
                   {},
                   {{"/verdict", "not_known"}}},
        PublicCase{"empty by default",
                   "v3.sh",
                   "TP=${TP:-}\n" + flag,
                   kHost,
                   {},
                   {{"/verdict", "not_known"}}},
        PublicCase{"picked by the task of an array",
                   "v4.sh",
                   "TPS=(2 4)\nTP=${TPS[$SLURM_ARRAY_TASK_ID]}\n" + flag,
                   kHost,
                   {},
                   {{"/verdict", "not_known"}}},
        PublicCase{"a default of the first word",
                   "v5.sh",
                   "SIZE=${1:-big}\ncase $SIZE in\n big) TP=2;;\n small) TP=1;;\nesac\n" + flag,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"a choice of arithmetic",
                   "v7.sh",
                   "H=5120\nTP=$((H > 4096 ? 2 : 1))\n" + flag,
                   kHost,
                   {},
                   {{"/layout/tp", 2}}},
        PublicCase{"no arguments by default",
                   "v6.sh",
                   "TP=2\nEXTRA=${EXTRA:-}\n" + kOne + kTorchrun + kLlama +
                       "--tensor-model-parallel-size $TP $EXTRA --bf16\n",
                   kHost,
                   {},
                   {{"/layout/tp", 2}}}}) {
    expect_case(one);
  }
}

TEST(InventedLaunches, OlderKeysOfAccelerateAreKnown) {
  const Checked answer =
      check(written("old_dynamo.yaml",
                    "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n"
                    "dynamo_backend: 'NO'\nmixed_precision: bf16\nnum_processes: 8\n"),
            "--cluster dgx-h100x1 --model llama-3.2-1b --seq 4096 --micro-batch 1");
  EXPECT_TRUE(answer.json["unknown"].empty()) << answer.json["unknown"];
  EXPECT_TRUE(rules_in(answer).empty()) << answer.json["violations"];
}

}  // namespace
}  // namespace trireme::tools
