// Scripts as people write them: what `check` says of each kind that it once got wrong, each with
// variants.
#include "planner/launch/read_launch.h"
#include "tests/unit/tools/check_run.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

TEST(CheckCases, WithoutAPrecisionMegatronTrainsInFp32AndAWarningSaysSo) {
  const Checked bare = check(written("bare.txt", kModel), kNode);
  EXPECT_EQ(rules_in(bare), Rules{"warning bf16 or fp16 is given"});
  const Checked told = check(written("bare.txt", kModel), std::string(kNode) + " --precision bf16");
  EXPECT_NEAR(told.json.at("estimate").at("throughput").at("peak_tflops").get<double>(), 989, 1);
  EXPECT_EQ(rules_in(check(written("half.txt", std::string(kModel) + "--fp16"), kNode)), Rules{});
}

TEST(CheckCases, LaunchersThatSetThePrecisionThemselvesAreRecognised) {
  const std::string sft = written("sft.sh", "megatron sft --load x " + std::string(kModel));
  EXPECT_EQ(rules_in(check(sft, kNode)), Rules{});
  const std::string slime =
      written("slime.sh", "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 4 " +
                              std::string(kModel));
  const Checked answer = check(slime, kNode);
  EXPECT_EQ(rules_in(answer), Rules{});
  EXPECT_EQ(answer.json.at("layout").at("fsdp"), 4);  // of the optimizer's states, which it sets
}

constexpr const char* kSized =
    "SIZE=$1; TP=$2; PR=$3\n"
    "if [ $SIZE = 7B ]; then M=\"--num-layers 32 --hidden-size 4096 --num-attention-heads 32\"; "
    "elif [ $SIZE = 70B ]; then M=\"--num-layers 80 --hidden-size 8192 --num-attention-heads 64\"; "
    "fi\n"
    "if [ $PR = bf16 ]; then P=--bf16; elif [ $PR = fp8 ]; then P=\"--bf16 --fp8-format hybrid\"; "
    "fi\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "torchrun --nproc_per_node 8 pretrain_gpt.py $M $P --swiglu --seq-length 4096 "
    "--max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 "
    "--use-distributed-optimizer --tensor-model-parallel-size $TP\n";

TEST(CheckCases, WordsAfterAScriptAreItsArguments) {
  const std::string path = written("sized.sh", kSized);
  const Checked small = check(path, "--cluster dgx-h100x1 7B 2 bf16");
  EXPECT_EQ(rules_in(small), Rules{});
  EXPECT_EQ(small.json.at("layout").at("tp"), 2);
  EXPECT_NEAR(small.json.at("estimate").at("model").at("parameters").get<double>(), 6.6e9, 2e8);
  const Checked large = check(path, "--cluster dgx-h100x2 70B 8 fp8");
  EXPECT_EQ(large.json.at("layout").at("tp"), 8);
  EXPECT_NEAR(large.json.at("estimate").at("model").at("parameters").get<double>(), 65e9, 1e9);
  // Flags after -- still override.
  EXPECT_EQ(check(path, "--cluster dgx-h100x1 7B 2 bf16 -- --tensor-model-parallel-size 4")
                .json.at("layout")
                .at("tp"),
            4);
  // shift, "$@" and a default of a missing word.
  const std::string shifted = written("shifted.sh",
                                      "TP=${1:-8}; shift\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                                      "torchrun --nproc_per_node 8 pretrain_gpt.py " +
                                          kGpt + "--tensor-model-parallel-size $TP \"$@\"\n");
  EXPECT_EQ(check(shifted, "--cluster dgx-h100x1 4").json.at("layout").at("tp"), 4);
  EXPECT_EQ(check(shifted, "--cluster dgx-h100x1").json.at("layout").at("tp"), 8);
}

TEST(CheckCases, WhatAFileLeavesOpenIsNamedAndMakesNoErrorAndNoVerdict) {
  const Checked open = check(written("sized.sh", kSized), "--cluster dgx-h100x1");
  EXPECT_EQ(open.code, 0);
  EXPECT_TRUE(remarks_have(open, "$SIZE = 70B"));
  EXPECT_EQ(open.json.at("verdict"), "not_known");  // 7B fits, 70B does not
  EXPECT_TRUE(open.json.at("estimate").at("fits").is_null());
  // tp 16 of the second branch is more than the heads divide into; the first may run.
  const std::string branch =
      written("branch.sh",
              "if [ $1 = big ]; then\n TP=8\nelse\n TP=3\nfi\n"
              "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 "
              "pretrain_gpt.py " +
                  kGpt + "--tensor-model-parallel-size $TP\n");
  for (const std::string& rule : rules_in(check(branch, "--cluster dgx-h100x1"))) {
    EXPECT_TRUE(rule.starts_with("warning")) << rule;
  }
  const Checked decided = check(branch, "--cluster dgx-h100x1 small");
  ASSERT_FALSE(rules_in(decided).empty());
  EXPECT_TRUE(rules_in(decided).front().starts_with("error"));
}

TEST(CheckCases, SourcedFilesAreReadBelowTheScriptsFolder) {
  written("models/x.sh",
          "MODEL_ARGS=\"--num-layers 24 --hidden-size 2048 --num-attention-heads 16\"\n");
  const std::string rest =
      "torchrun --nproc_per_node 8 pretrain_gpt.py $MODEL_ARGS --seq-length 2048 "
      "--max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 1 --bf16\n";
  for (const char* first :
       {"SCRIPT_DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nsource "
        "\"${SCRIPT_DIR}/models/x.sh\"\n",
        "SCRIPT_DIR=\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\"\n"
        "source \"${SCRIPT_DIR}/models/x.sh\"\n",
        "D=\"$( cd \"$( dirname \"$0\" )\" >/dev/null 2>&1 && pwd )\"\n. $D/models/x.sh\n",
        "source $(pwd)/models/x.sh\n", "cd $(dirname $0)\n. ./models/x.sh\n",
        "source ${0%/*}/models/x.sh\n"}) {
    const Checked answer = check(written("sourcing.sh", first + rest), "--cluster dgx-h100x1");
    EXPECT_EQ(answer.code, 0) << first << answer.err;
    EXPECT_EQ(answer.json["estimate"]["model"]["name"], "gpt3-1.3b") << first;
  }
  const Checked outside =
      check(written("outside.sh", "source ../../elsewhere.sh\n" +
                                      std::string("MODEL_ARGS=\"--num-layers 2 --hidden-size 2048 "
                                                  "--num-attention-heads 16\"\n") +
                                      rest),
            "--cluster dgx-h100x1");
  EXPECT_TRUE(remarks_have(outside, "cannot be read below the script's folder"));
}

TEST(CheckCases, VariablesOfARayJobAreTheEnvironment) {
  const std::string train = "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 " +
                            std::string(kModel) + "--tensor-model-parallel-size 2\n";
  const std::string quoted =
      written("ray.sh",
              "ENV=\"{\n \\\"env_vars\\\": {\n \\\"CUDA_DEVICE_MAX_CONNECTIONS\\\": \\\"1\\\"\n "
              "}\n}\"\nray job submit --runtime-env-json=\"${ENV}\" -- " +
                  train);
  EXPECT_EQ(rules_in(check(quoted, "--cluster dgx-h100x1")), Rules{});
  const std::string inline_json = written("ray2.sh",
                                          "ray job submit --runtime-env-json='{\"env_vars\": "
                                          "{\"CUDA_DEVICE_MAX_CONNECTIONS\": 1}}' -- " +
                                              train);
  EXPECT_EQ(rules_in(check(inline_json, "--cluster dgx-h100x1")), Rules{});
  const std::string without = written("ray3.sh", "ray job submit -- " + train);
  EXPECT_EQ(rules_in(check(without, "--cluster dgx-h100x1")).front(),
            "error CUDA_DEVICE_MAX_CONNECTIONS == 1");
}

TEST(CheckCases, CommandsOverKnownTextAreWorkedOut) {
  const std::string recipe =
      "CMD=\"python scripts/training/run_recipe.py --recipe llama31_8b_pretrain_config\"\n";
  for (const char* overrides :
       {"OV=\" model.tensor_model_parallel_size=2 train.global_batch_size=64\"\n"
        "CMD=\"$CMD $(echo \"$OV\" | tr '\\n' ' ')\"\n",
        "OV=\"model.tensor_model_parallel_size=X\n train.global_batch_size=64\"\n"
        "CMD=\"$CMD $(echo \"$OV\" | sed 's/X/2/g' | xargs)\"\n",
        "CMD=\"$CMD $(printf 'model.%s=2 ' tensor_model_parallel_size) "
        "train.global_batch_size=64\"\n"}) {
    const Checked answer =
        check(written("recipe.sh", recipe + overrides + "srun bash -c \"$CMD\"\n"),
              "--cluster dgx-h100x1");
    EXPECT_EQ(answer.json["layout"]["tp"], 2) << overrides << answer.err;
    EXPECT_EQ(answer.json["layout"]["micro_batches"], 16) << overrides;
  }
  const std::string config =
      "CONFIG=2,4\nIFS=, read -r TP PP <<< \"$CONFIG\"\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  const std::string launch =
      "torchrun --nproc_per_node 8 --master_port $(shuf -i 2000-3000 -n 1) "
      "pretrain_gpt.py " +
      kGpt;
  const Checked read = check(written("read.sh", config + launch +
                                                    "--tensor-model-parallel-size $TP "
                                                    "--pipeline-model-parallel-size $PP\n"),
                             "--cluster dgx-h100x2");
  EXPECT_EQ(read.json["layout"]["short"], "tp2.pp4.mb1.nosp");
  const Checked set = check(
      written("set.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\nset -- 4 2\n" + launch +
                            "--tensor-model-parallel-size $1 --pipeline-model-parallel-size $2\n"),
      "--cluster dgx-h100x1");
  EXPECT_EQ(set.json["layout"]["tp"], 4);
  EXPECT_EQ(set.json["layout"]["pp"], 2);
}

TEST(CheckCases, ArgumentsThatOnlyARunWouldTellGiveNoVerdict) {
  const std::string recipe =
      "CMD=\"python scripts/training/run_recipe.py --recipe llama31_8b_pretrain_config\"\n"
      "CMD=\"$CMD $(python make_overrides.py)\"\nsrun bash -c \"$CMD\"\n";
  for (const std::string& path :
       {written("unread.sh", recipe),
        written("unread2.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt +
                                  "$(cat more_arguments.txt)\n")}) {
    const Checked answer = check(path, "--cluster dgx-h100x1");
    EXPECT_EQ(answer.code, 0) << path;
    EXPECT_TRUE(answer.json.at("estimate").is_null()) << path;
    EXPECT_EQ(answer.json.at("verdict"), "not_known");
  }
}

TEST(CheckCases, UlyssesUnderDeepspeedIsSequenceParallelism) {
  if (!planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  for (const int ranks : {2, 4}) {
    const std::string path = written(
        "ulysses.yaml",
        "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n"
        "num_processes: 8\nparallelism_config:\n  parallelism_config_dp_shard_size: " +
            std::to_string(8 / ranks) + "\n  parallelism_config_sp_size: " + std::to_string(ranks) +
            "\n");
    const Checked answer =
        check(path, "--cluster dgx-h100x1 --model llama-3.1-8b --seq 8192 --recompute full");
    EXPECT_EQ(answer.json["layout"]["cp"], ranks) << answer.err;
    EXPECT_EQ(answer.json["layout"]["fsdp"], 8 / ranks);
  }
}

TEST(CheckCases, AFlagWithoutItsValueIsAnError) {
  const std::string path = written("gpt.txt", kGpt);
  for (const char* flag : {"--tensor-model-parallel-size", "--global-batch-size"}) {
    const Checked answer = check(path, std::string(kNode) + " -- " + flag);
    EXPECT_EQ(answer.code, 2);
    EXPECT_NE(answer.err.find(std::string(flag) + " has no value"), std::string::npos)
        << answer.err;
  }
  const std::string file = written("novalue.txt", "--tensor-model-parallel-size " + kGpt);
  EXPECT_EQ(rules_in(check(file, kNode)), Rules{"error flags have values"});
}

TEST(CheckCases, UnknownFlagsNearAKnownOneAreErrorsWithItsName) {
  const std::string path = written("gpt.txt", kGpt);
  constexpr const char* kNear[][2] = {
      {"--tp", "--tensor-model-parallel-size"},
      {"--tensor-parallel-size", "--tensor-model-parallel-size"},
      {"--mbs", "--micro-batch-size"},
      {"--global-batch", "--global-batch-size"},
      {"--num-atention-heads", "--num-attention-heads"},
      {"--use-distributed-optimiser", "--use-distributed-optimizer"}};
  for (const auto& [wrong, right] : kNear) {
    const Checked answer = check(path, std::string(kNode) + " -- " + wrong + " 4");
    EXPECT_EQ(rules_in(answer), Rules{"error flags that Megatron-LM knows"}) << wrong;
    EXPECT_NE(fix_in(answer, "flags that Megatron-LM knows").find(right), std::string::npos)
        << wrong << ": " << fix_in(answer, "flags that Megatron-LM knows");
  }
  // Flags of Megatron-LM that this program does not read, and ones of nobody.
  for (const char* real : {"--fp4-format e2m1", "--decoder-seq-length 8",
                           "--moe-pad-expert-input 1", "--my-own-switch"}) {
    EXPECT_EQ(rules_in(check(path, std::string(kNode) + " -- " + real)), Rules{}) << real;
  }
}

TEST(CheckCases, NoVerdictRestsOnAnUnmodelledSetting) {
  const std::string big = "--num-layers 96 --hidden-size 8192 --num-attention-heads 64 ";
  for (const char* offload : {"--optimizer-cpu-offload --use-precision-aware-optimizer",
                              "--cpu-offloading --cpu-offloading-num-layers 8"}) {
    const Checked answer =
        check(written("gpt.txt", kGpt), std::string(kNode) + " -- " + big + offload);
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_EQ(answer.json.at("verdict"), "not_known");
    EXPECT_NE(answer.json.at("verdict_reason").get<std::string>().find("offload"),
              std::string::npos);
  }
  const Checked fits =
      check(written("gpt.txt", kGpt),
            std::string(kNode) + " -- --optimizer-cpu-offload --use-precision-aware-optimizer");
  EXPECT_NE(fits.json.at("verdict"), "not_known");  // it fits without, so it fits with it
}

TEST(CheckCases, RecomputeAndTheJobsOptionsAreTakenBesideAnyFile) {
  const std::string zero = written(
      "zero.json",
      R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  const std::string job = "--model qwen2.5-14b --seq 16384 --cluster dgx-h100x1";
  const Checked open = check(zero, job);
  EXPECT_EQ(open.json.at("verdict"), "not_known") << open.json["estimate"]["memory"];
  EXPECT_NE(open.json.at("verdict_reason").get<std::string>().find("--recompute"),
            std::string::npos);
  const Checked full = check(zero, job + " --recompute full");
  EXPECT_EQ(full.json.at("layout").at("recompute"), "full");
  EXPECT_NE(full.json.at("verdict"), "not_known");
  EXPECT_EQ(check(zero, job + " --recompute none").json.at("verdict"), "no");
  const std::string gpt = written("gpt.txt", kGpt);
  EXPECT_EQ(check(gpt, std::string(kNode) + " --micro-batch 4 --recompute-modules mlp,core_attn")
                .json.at("layout")
                .at("micro_batch"),
            4);
}

TEST(CheckCases, ExpertsInALoopAreNamed) {
  const std::string zero = written(
      "zero.json",
      R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  for (const char* model : {"qwen3-30b-a3b", "mixtral-8x7b"}) {
    EXPECT_EQ(
        rules_in(check(zero, std::string("--seq 4096 --cluster hgx-a800x2 --model ") + model)),
        Rules{"warning experts in transformers' loop"});
  }
  EXPECT_EQ(rules_in(check(zero, "--seq 4096 --cluster hgx-a800x2 --model llama-3.1-8b")), Rules{});
  // The warning called the prediction one of grouped products where it was one of the loop.
  EXPECT_EQ(rules_in(check(zero,
                           "--seq 4096 --cluster hgx-a800x2 --model qwen3-30b-a3b --set "
                           "experts_in_loop=true")),
            Rules{});
}

TEST(CheckCases, FixesLeadSomewhere) {
  const std::string twenty =
      "--num-layers 20 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
      "--max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 1 --bf16 ";
  const std::string virtual_stages =
      twenty +
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5 "
      "--global-batch-size 64 ";
  const Checked unlapped =
      check(written("p2p.txt", virtual_stages + "--no-overlap-p2p-communication"), kNode);
  const std::string fix = fix_in(unlapped, "virtual stages need pp");
  EXPECT_EQ(fix.find(" 3"), std::string::npos) << fix;  // 20 layers do not split over 3
  EXPECT_NE(fix.find("leave out --no-overlap-p2p-communication"), std::string::npos) << fix;
  EXPECT_EQ(rules_in(check(written("p2p.txt", virtual_stages), kNode)), Rules{});
  for (const char* end :
       {"--decoder-last-pipeline-num-layers", "--decoder-first-pipeline-num-layers"}) {
    const Checked one = check(written("end.txt", twenty + end + " 1"), kNode);
    EXPECT_EQ(fix_in(one, "first and last stage's layers"), std::string("leave out ") + end);
  }
}

TEST(CheckCases, LocalAttentionNeedsTheLocalSpec) {
  EXPECT_EQ(rules_in(check(written("a.txt", kGpt + "--attention-backend local"), kNode)),
            Rules{"error attention-backend local needs spec local"});
  EXPECT_EQ(
      rules_in(check(written("b.txt", kGpt + "--attention-backend local --spec local"), kNode)),
      Rules{});
  EXPECT_EQ(rules_in(check(written("c.txt", kGpt + "--attention-backend fused"), kNode)), Rules{});
}

TEST(CheckCases, TorchtitansDtypeIsThatOfTheMomentsToo) {
  if (!planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const auto optimizer_gib = [](const char* type) {
    const std::string path =
        written("dtype.toml",
                "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
                "seq_len = 4096\ndtype = \"" +
                    std::string(type) + "\"\n[parallelism]\n");
    return check(path, "--cluster dgx-h100x1")
        .json.at("estimate")
        .at("memory")
        .at("breakdown_gib")
        .at("optimizer")
        .get<double>();
  };
  // 8.03e9 parameters / 8 ranks x 2 moments x 2 bytes
  EXPECT_NEAR(optimizer_gib("bfloat16"), 3.74, 0.01);
  EXPECT_NEAR(optimizer_gib("float32"), 7.48, 0.01);
}

TEST(CheckCases, EvidenceOfTheVocabularyIsUsedBeforeADefault) {
  const std::string seventy =
      "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
      "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
      "--untie-embeddings-and-output-weights --disable-bias-linear --position-embedding-type rope "
      "--seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --bf16 "
      "--use-distributed-optimizer ";
  const auto parameters = [&](const std::string& more) {
    return check(written("seventy.txt", seventy + more), "--format megatron --cluster dgx-h100x8")
        .json["estimate"]["model"]["parameters"];
  };
  constexpr std::int64_t kThird = 70'553'706'496;  // 128256 rows
  EXPECT_EQ(parameters("--tokenizer-type Llama3Tokenizer"), kThird);
  EXPECT_EQ(parameters("--rotary-base 500000 --use-rope-scaling"), kThird);
  EXPECT_EQ(parameters("--rotary-base 500000"), kThird);
  EXPECT_EQ(parameters("--tokenizer-type Llama2Tokenizer"), 68'976'648'192);
}

TEST(CheckCases, SwitchesThatTheFileLeavesOffAreNamed) {
  const std::string run =
      "torchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt + "--use-distributed-optimizer ";
  const auto names = [](const Checked& answer, const char* flag) {
    for (const auto& one : answer.json["switches"]) {
      if (one["flag"] == flag) {
        return one["gain_seconds"] > 0;
      }
    }
    return false;
  };
  const Checked off = check(written("off.sh", run + "\n"), "--cluster dgx-h100x1");
  EXPECT_TRUE(names(off, "--overlap-grad-reduce")) << off.json["switches"] << off.err;
  const Checked on =
      check(written("on.sh", run + "--overlap-grad-reduce\n"), "--cluster dgx-h100x1");
  EXPECT_FALSE(names(on, "--overlap-grad-reduce")) << on.json["switches"];
}

TEST(CheckCases, RecomputeThatIsSaidIsNotCalledOpen) {
  const std::string file =
      written("said.json", R"({"train_micro_batch_size_per_gpu":1,"bf16":{"enabled":true},)"
                           R"("zero_optimization":{"stage":3}})");
  const std::string words = "--cluster dgx-h100x1 --model llama-3.1-8b --seq 4096";
  EXPECT_TRUE(remarks_have(check(file, words), "none is assumed"));
  EXPECT_FALSE(remarks_have(check(file, words + " --recompute full"), "none is assumed"));
}

TEST(CheckCases, MoreThanThereIsIsNotSaidToFit) {
  planner::MemoryEstimate memory;
  memory.fit = planner::Fit::kAtRisk;
  memory.allocated_gib = 76.9;
  memory.capacity_gib = 75.5;
  memory.reserved_low_gib = 73.4;
  memory.reserved_high_gib = 83.3;
  EXPECT_EQ(verdict(memory), "at risk: 73.4 to 83.3 GiB are expected and 75.5 can be had");
  memory.allocated_gib = 74.0;  // one definition, whatever is allocated
  EXPECT_EQ(verdict(memory), "at risk: 73.4 to 83.3 GiB are expected and 75.5 can be had");
}

}  // namespace
}  // namespace trireme::tools
