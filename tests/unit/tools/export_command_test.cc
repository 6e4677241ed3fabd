// The command around the formats: plan files, defaults, output, refusals, degrees.
#include <gtest/gtest.h>

#include <cstdlib>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/export_run.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

std::string file_text(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// A folder of its own for the test, which becomes the current one.
class ExportFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    before_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  fs::path folder_, before_;
};

constexpr const char* kPlan =
    "plan --model llama-3.2-1b --cluster dgx-h100x1 --global-batch 64 --framework megatron --tp 2 "
    "--threads 1 -q -o plan.json";

TEST_F(ExportFiles, APlanFileAndItsFlagsGiveTheSame) {
  ASSERT_EQ(run_words(kPlan).code, 0);
  const auto plan = nlohmann::json::parse(file_text("plan.json"));
  const std::string from_file = exported("plan.json");
  std::string settings;  // what plan switched on
  for (const nlohmann::json& setting : plan["job"]["settings"]) {
    settings += " --set " + setting.get<std::string>();
  }
  const std::string from_flags = exported(
      "--model llama-3.2-1b --cluster dgx-h100x1 --global-batch 64 --framework megatron "
      "--layout " +
      plan["layout"]["short"].get<std::string>() + settings);
  EXPECT_EQ(from_file, from_flags);
  EXPECT_EQ(flags_in(from_file).at("tensor-model-parallel-size"), "2");
}

// Run from Megatron-LM's own folder, which holds a folder "megatron".
TEST_F(ExportFiles, AFolderNamedLikeTheFrameworkIsNotItsPath) {
  fs::create_directory("megatron");
  ASSERT_EQ(run_words(kPlan).code, 0);
  const auto plan = nlohmann::json::parse(file_text("plan.json"));
  EXPECT_EQ(plan["job"]["framework"], "megatron");
  EXPECT_EQ(run_words("export plan.json").code, 0);
}

// The order of the plan's axes was chosen for its own degrees; with others Megatron had no such
// order.
TEST_F(ExportFiles, ADegreeOverThePlansOwnLeavesItsOrderOut) {
  ASSERT_EQ(run_words(kPlan).code, 0);
  nlohmann::json plan = nlohmann::json::parse(file_text("plan.json"));
  plan["layout"]["order"] = {"tp", "pp", "fsdp", "cp", "dp"};
  std::ofstream("plan.json") << plan.dump();
  const Exported result =
      run_words("export plan.json --tp 1 --pp 2 --fsdp 1 --dp 4 --sharding none");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(ExportFiles, TheFileIsWrittenWholeAndNamesItself) {
  const Exported result =
      run_words("export --model llama-3.2-1b --cluster dgx-h100x1 --framework megatron -o run.sh");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("start on the host: bash run.sh\n"), std::string::npos) << result.err;
  const std::string text = file_text("run.sh");
  EXPECT_TRUE(text.starts_with("#!/usr/bin/env bash\n# Start on the host: bash run.sh\n"));
  EXPECT_EQ(std::distance(fs::directory_iterator("."), fs::directory_iterator{}), 1)
      << "a temporary file was left";
}

TEST_F(ExportFiles, WhatIsRefusedLeavesAnOldFileAsItWas) {
  std::ofstream("old.yaml") << "mine\n";
  const Exported result = run_words(
      "export --model llama-3.1-8b --cluster dgx-h100x1 --framework fsdp2 --format accelerate --pp "
      "2 "
      "--sharding full -o old.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(file_text("old.yaml"), "mine\n");
  EXPECT_EQ(run_words("export --model llama-3.2-1b --cluster dgx-h100x1 --framework megatron -o "
                      "no/such/folder.sh")
                .code,
            2);
}

TEST(Export, QuietPrintsTheFileAlone) {
  const Exported result = run_words(
      "export --model llama-3.2-1b --cluster dgx-h100x1 --framework deepspeed --sharding "
      "optimizer -q");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

// A plan for accelerate was written for torchtitan, which refused its gradients' type.
TEST(Export, APlanOfANamedProgramIsWrittenForIt) {
  const std::string job = "--model llama-3.1-8b --cluster dgx-h100x1 --sharding full ";
  EXPECT_NE(exported(job + "--framework accelerate").find("distributed_type: FSDP"),
            std::string::npos);
  EXPECT_NE(exported("--model llama-3.1-8b --cluster dgx-h100x1 --sharding optimizer "
                     "--framework megatron-bridge --set master_bytes=4")
                .find("cfg.model = GPTModelProvider()"),
            std::string::npos);
}

TEST(Export, APlanForTriremeBecomesTheFormatsOwn) {
  const std::string options = "--model llama-3.2-1b --cluster dgx-h100x1 --sharding full ";
  EXPECT_NE(exported(options + "--format megatron").find("# Predicted, as megatron-fsdp"),
            std::string::npos);
  EXPECT_NE(exported(options + "--format accelerate").find("# Predicted, as accelerate:"),
            std::string::npos);
}

TEST(Export, WhatHasNoFieldIsSaid) {
  const std::string options = "--model llama-3.2-1b --cluster dgx-h100x1 ";
  EXPECT_NE(exported(options + "--framework megatron --set prefetch_units=2")
                .find("# --set prefetch_units=2 is in the prediction only.\n"),
            std::string::npos);
  const std::string script =
      exported(options + "--framework megatron --set expandable_segments=true");
  EXPECT_NE(script.find("\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"),
            std::string::npos);
  EXPECT_NE(
      exported(options + "--framework fsdp1 --sharding full --optimizer sgd --set dropout=0.1")
          .find("# The prediction has, and your program decides: SGD, dropout 0.1.\n"),
      std::string::npos);
  const Exported json = run_words("export " + options +
                                  "--framework deepspeed --sharding optimizer --set "
                                  "cross_entropy_fusion=true --set "
                                  "expandable_segments=true");
  EXPECT_NE(json.err.find("your program decides: fused cross entropy\n"), std::string::npos);
  EXPECT_NE(
      json.err.find(": PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True deepspeed --num_gpus"),
      std::string::npos)
      << json.err;
}

struct Refusal {
  const char* options;
  const char* axis;  // the line begins with it
};

// Each names its axis, in one line, with exit code 2 and nothing on stdout.
TEST(Export, EachRefusalNamesItsAxis) {
  const std::string llama = "export --model llama-3.1-8b --cluster dgx-h100x2 --global-batch 64 ";
  const Refusal refusals[] = {
      {"", "--format"},
      {"--framework megatron --format deepspeed", "--format"},
      {"--framework megatron --format nemo", "--format"},
      {"--framework megatron --pp 4 --schedule zb-h1", "schedule"},
      {"--framework megatron --sharding full", "framework feature"},
      {"--framework megatron --pp 4 --schedule gpipe", "framework feature"},
      {"--framework megatron --recompute-modules op", "recompute-modules"},
      {"--framework megatron --layout tp2.pp2.dp4.mb1.order-pp-tp-dp", "order"},
      {"--framework megatron --set parameter_dtype=bf16", "parameter_dtype"},
      {"--framework megatron --set reduce_dtype=bf16", "reduce_dtype"},
      {"--framework megatron --optimizer adam8bit", "optimizer_dtype"},
      {"--framework megatron --tp 2 --no-sequence-parallel --set tp_comm_overlap=true",
       "tp_comm_overlap"},
      {"--framework megatron --set loss_chunks=4", "loss_chunks"},
      {"--framework megatron --sharding optimizer --set overlap_grad_reduce=false",
       "overlap_param_gather"},
      {"--framework megatron-fsdp --sharding full --set overlap_param_gather=false",
       "overlap_grad_reduce"},
      {"--framework megatron --recompute-modules mla_up_proj", "--recompute-modules"},
      {"--framework megatron --recompute-modules layernorm,moe_act", "--recompute-modules"},
      {"--framework megatron --pp 2 --vpp 2 --set p2p_overlap_interleaved=false", "vpp"},
      {"--framework fsdp1 --sharding full --set overlap_grad_reduce=false", "overlap_grad_reduce"},
      {"--framework megatron --gpus 12 --pp 3 --stage-layers 11,11,10", "--gpus"},
      {"--framework megatron-fsdp --sharding full --fsdp-unit 2", "fsdp-unit"},
      {"--framework megatron-fsdp --sharding full --set reshard_after_forward=false",
       "reshard_after_forward"},
      {"--framework megatron --format megatron-bridge --attention unfused --set "
       "implementation=local",
       "implementation"},
      {"--framework fsdp2 --format megatron --sharding full --pp 2", "pp"},
      {"--framework fsdp2 --format megatron --fsdp 8", "dp"},
      {"--framework fsdp2 --format megatron-bridge --sharding full", "--format"},
      {"--framework fsdp2 --tp 2 --dp 8", "dp"},
      {"--framework fsdp2 --tp 2 --sharding full --no-sequence-parallel", "sequence_parallel"},
      {"--framework fsdp2 --sharding full --recompute-modules mlp", "recompute-modules"},
      {"--framework fsdp2 --sharding full --recompute-layers 15", "recompute-layers"},
      {"--framework fsdp2 --sharding full --precision fp16", "--precision"},
      {"--framework fsdp2 --sharding full --optimizer sgd", "--optimizer"},
      {"--framework fsdp2 --sharding full --set reduce_dtype=bf16", "reduce_dtype"},
      {"--framework fsdp2 --sharding full --set tp_comm_overlap=true", "tp_comm_overlap"},
      {"--framework fsdp2 --sharding full --pp 4 --schedule zb-h1", "schedule"},
      {"--framework fsdp2 --cp 2", "sharding"},
      {"--framework fsdp2 --format accelerate --sharding full --pp 2", "pp"},
      {"--framework fsdp2 --format accelerate --sharding full --tp 2", "sequence_parallel"},
      {"--framework fsdp2 --format accelerate --sharding full --recompute selective", "recompute"},
      {"--framework fsdp2 --format accelerate --tp 2 --dp 8 --no-sequence-parallel", "dp"},
      {"--framework fsdp1 --sharding full --tp 2", "tp"},
      {"--framework fsdp1 --sharding full --fsdp 4", "fsdp"},
      {"--framework deepspeed --pp 4 --vpp 2", "framework feature"},
      {"--framework deepspeed --pp 4 --stage-layers 7,9,9,7", "stage-layers"},
      {"--framework deepspeed --tp 2 --pp 2 --no-sequence-parallel", "pp"},
      {"--framework deepspeed --tp 2", "sequence_parallel"},
      {"--framework deepspeed --sharding optimizer --fsdp 8", "dp"},
      {"--framework deepspeed --sharding full --recompute selective", "recompute"},
      {"--framework deepspeed --sharding full --precision fp8", "--precision"},
  };
  for (const Refusal& refusal : refusals) {
    const Exported result = run_words(llama + refusal.options);
    EXPECT_EQ(result.code, 2) << refusal.options << "\n" << result.err;
    EXPECT_EQ(result.out, "") << refusal.options;
    EXPECT_TRUE(result.err.starts_with(std::string("trireme: ") + refusal.axis + ":"))
        << refusal.options << "\n"
        << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(Export, ModelsThatAFrameworkLacksAreNamed) {
  const Refusal refusals[] = {
      {"--model bloom-176b --cluster dgx-h100x8 --framework megatron --tp 8 --pp 2", "position of"},
      {"--model gemma-2-9b --cluster dgx-h100x1 --framework megatron", "norms_per_layer of"},
      {"--model falcon-40b --cluster dgx-h100x1 --framework megatron", "parallel_block of"},
      {"--model olmo-2-7b --cluster dgx-h100x1 --framework megatron", "qk_norm_all_heads of"},
      {"--model mpt-7b --cluster dgx-h100x1 --framework megatron", "position of"},
      {"--model phi-2 --cluster dgx-h100x1 --framework megatron", "parallel_block of"},
      {"--model gpt-oss-20b --cluster dgx-h100x1 --framework megatron --tp 2", "etp"},
      {"--model mistral-7b --cluster dgx-h100x1 --framework fsdp2 --sharding full", "--model"},
      {"--model mistral-7b --cluster dgx-h100x1 --framework fsdp2 --sharding full --flavor 8B",
       "--flavor"},
      {"--model qwen3-8b --cluster dgx-h100x1 --framework fsdp2 --sharding full --pp 2", "pp"},
      {"--model deepseek-v3 --cluster dgx-h100x32 --framework fsdp2 --sharding full --cp 2 "
       "--flavor deepseek_v3/671B",
       "cp"},
      {"--model deepseek-v3 --cluster dgx-h100x32 --framework fsdp2 --sharding full", "--model"},
      {"--model gemma-2b --cluster dgx-h100x1 --framework megatron", "embedding_multiplier of"},
      {"--model qwen3-30b-a3b --cluster dgx-h100x2 --framework fsdp2 --ep 16 --fsdp 8 --dp 2",
       "ep"},
      {"--model mixtral-8x7b --cluster dgx-h100x2 --framework fsdp2 --format accelerate --sharding "
       "full --ep 8",
       "ep"},
      {"--model gpt2 --cluster dgx-h100x1 --framework megatron --format megatron-bridge --seq 512",
       "--seq"},
  };
  for (const Refusal& refusal : refusals) {
    const Exported result = run_words(std::string("export ") + refusal.options);
    EXPECT_EQ(result.code, 2) << refusal.options << "\n" << result.err;
    EXPECT_TRUE(result.err.starts_with(std::string("trireme: ") + refusal.axis))
        << refusal.options << "\n"
        << result.err;
  }
}

std::int64_t number(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? 1 : std::stoll(found->second);
}

// What the launcher starts is what the degrees multiply to, and the batch is what they share.
TEST(Export, DegreesMultiplyToTheWorldInEachFormat) {
  const auto megatron =
      flags_in(exported("--model llama-3.1-70b --cluster dgx-h100x8 --framework megatron --layout "
                        "tp4.pp2.cp2.fsdp2.dp2.mb1.zero1 --global-batch 64"));
  const std::int64_t started = number(megatron, "nproc_per_node") * number(megatron, "nnodes");
  EXPECT_EQ(started, 64);
  const std::int64_t model_ranks = number(megatron, "tensor-model-parallel-size") *
                                   number(megatron, "pipeline-model-parallel-size") *
                                   number(megatron, "context-parallel-size");
  EXPECT_EQ(started % model_ranks, 0);
  EXPECT_EQ(started / model_ranks, 4) << "fsdp 2 x dp 2";

  const auto titan =
      lines_in(exported("--model llama-3.1-70b --cluster dgx-h100x8 --framework fsdp2 --layout "
                        "tp4.pp2.cp2.fsdp2.dp2.mb1 --global-batch 64"));
  const std::int64_t replicas = number(titan, "data_parallel_replicate_degree");
  const std::int64_t shards = number(titan, "data_parallel_shard_degree");
  EXPECT_EQ(replicas * shards * number(titan, "tensor_parallel_degree") *
                number(titan, "pipeline_parallel_degree") *
                number(titan, "context_parallel_degree"),
            64);
  EXPECT_EQ(
      number(titan, "global_batch_size") % (number(titan, "local_batch_size") * replicas * shards),
      0);

  const auto yaml = lines_in(exported(
      "--model llama-3.1-70b --cluster dgx-h100x8 --framework fsdp2 --format accelerate --layout "
      "tp4.cp2.fsdp4.dp2.mb1.nosp --global-batch 64"));
  EXPECT_EQ(number(yaml, "parallelism_config_dp_replicate_size") *
                number(yaml, "parallelism_config_dp_shard_size") *
                number(yaml, "parallelism_config_tp_size") *
                number(yaml, "parallelism_config_cp_size"),
            number(yaml, "num_processes"));

  const auto json = nlohmann::json::parse(
      exported("--model llama-3.1-70b --cluster dgx-h100x8 --framework deepspeed --layout "
               "tp4.fsdp16.mb2.nosp --global-batch 64"));
  EXPECT_EQ(json["train_micro_batch_size_per_gpu"].get<std::int64_t>() *
                json["gradient_accumulation_steps"].get<std::int64_t>() * 64,
            64 * json["tensor_parallel"]["autotp_size"].get<std::int64_t>());

  const auto bridge = lines_in(exported(
      "--model llama-3.1-70b --cluster dgx-h100x8 --framework megatron --format megatron-bridge "
      "--layout tp4.pp2.cp2.fsdp4.mb1.zero1 --global-batch 64"));
  EXPECT_EQ(number(bridge, "cfg.model.tensor_model_parallel_size") *
                number(bridge, "cfg.model.pipeline_model_parallel_size") *
                number(bridge, "cfg.model.context_parallel_size") * 4,
            64);
}

TEST(ExportCommand, EveryMegatronScriptSaysWhenItEvaluates) {
  // Megatron-LM of August 2026 divides by eval-interval, whose default is None.
  const std::string job =
      "--model llama-3.1-8b --cluster dgx-h100x1 --framework megatron --seq 4096 --global-batch "
      "16 ";
  for (const char* form : {"benchmark", "training"}) {
    const Values flags = flags_in(exported(job + "--form " + form));
    EXPECT_TRUE(flags.contains("eval-interval")) << form;
    EXPECT_TRUE(flags.contains("no-create-attention-mask-in-dataloader")) << form;
  }
}

TEST(ExportCommand, TheTrainingFormStopsWhereASlotIsMissing) {
  const std::string path = testing::TempDir() + "training.sh";
  const Exported wrote = run_words(
      "export --model llama-3.1-8b --cluster dgx-h100x1 --framework megatron --seq 4096 "
      "--global-batch 16 --form training --steps 777 -o " +
      path);
  ASSERT_EQ(wrote.code, 0) << wrote.err;
  const std::string run = "DATA_PATH=/x TOKENIZER_MODEL= CHECKPOINTS=/y bash " + path +
                          " 2>&1 | grep -q 'TOKENIZER_MODEL: is a Hugging Face name'";
  EXPECT_EQ(std::system(run.c_str()), 0);
  const auto checked =
      nlohmann::json::parse(run_words("check " + path + " --cluster dgx-h100x1 --json").out);
  EXPECT_EQ(checked.at("violations"), nlohmann::json::array());
}

TEST(ExportCommand, ASlurmScriptSaysItsHostsInItsHeader) {
  const std::string path = testing::TempDir() + "job.sh";
  const Exported wrote = run_words(
      "export --model llama-3.1-8b --cluster dgx-h100x4 --framework megatron --seq 4096 "
      "--global-batch 64 --tp 2 --sharding optimizer --launcher slurm -o " +
      path);
  ASSERT_EQ(wrote.code, 0) << wrote.err;
  EXPECT_NE(wrote.err.find("sbatch " + path), std::string::npos) << wrote.err;
  const auto checked =
      nlohmann::json::parse(run_words("check " + path + " --cluster dgx-h100x8 --json").out);
  EXPECT_EQ(checked.at("layout").at("fsdp"), 16);  // 4 hosts of 8 GPUs over tp 2
  EXPECT_EQ(checked.at("violations"), nlohmann::json::array());
  EXPECT_EQ(
      run_words("export --model llama-3.1-8b --cluster dgx-h100x1 --framework fsdp2 --sharding "
                "full --launcher slurm")
          .code,
      2);
}

TEST(ExportCommand, TheHeadingSpeaksInTheLogsOwnUnits) {
  const std::string job =
      " --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --global-batch 16 --sharding ";
  EXPECT_NE(exported("--framework megatron" + job + "optimizer")
                .find("elapsed time per iteration (ms): "),
            std::string::npos);
  EXPECT_NE(exported("--framework fsdp2" + job + "full").find("GiB (reserved), tps: "),
            std::string::npos);
}

// torchtitan up to v0.2.2 sets the type of computation by fully_shard alone.
TEST(ExportCommand, TorchtitanWithoutShardingIsRefusedInMixedPrecision) {
  const std::string job =
      "export --model llama-3.1-8b --cluster hgx-h200x1 --gpus 2 --framework torchtitan --seq 2048 "
      "--global-batch 8 --tp 2 ";
  const Exported mixed = run_words(job);
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.err.find("fp32 where tp or pp run without sharding"), std::string::npos)
      << mixed.err;
  const std::string path = testing::TempDir() + "unsharded.toml";
  for (const char* mended :
       {"--precision fp32",
        "--set parameter_dtype=bf16 --set optimizer_dtype=bf16 --set reduce_dtype=fp32"}) {
    const Exported wrote = run_words(job + mended + " -o " + path);
    ASSERT_EQ(wrote.code, 0) << wrote.err;
    const auto checked = nlohmann::json::parse(
        run_words("check " + path + " --cluster hgx-h200x1 --gpus 2 --json").out);
    const auto estimated =
        nlohmann::json::parse(run_words("estimate" + job.substr(6) + mended + " --json").out);
    EXPECT_EQ(checked.at("violations"), nlohmann::json::array()) << mended;
    EXPECT_EQ(checked.at("estimate").at("time"), estimated.at("time")) << mended;
    EXPECT_EQ(checked.at("estimate").at("memory"), estimated.at("memory")) << mended;
  }
}

}  // namespace
}  // namespace trireme::tools
