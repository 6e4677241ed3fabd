// A grid of plans, written by export and read back by check: the same layout, no broken rule, the
// same time and memory. What a format refuses is skipped; how many pass is held. TRIREME_CASES sets
// with how many of the models each layout is tried in each format (label slow: with all).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/property/random_plans.h"
#include "tests/unit/tools/export_run.h"

namespace trireme::tools {
namespace {

struct Format {
  const char* name;
  const char* ending;
  const char* framework;
  bool names_model;   // the file says what is trained
  std::size_t least;  // plans that must make the round, a model
};

constexpr const char* kModels[] = {"llama-3.1-8b", "mixtral-8x7b", "qwen3-30b-a3b", "gpt3-13b",
                                   "deepseek-v2-lite"};
constexpr const char* kLayouts[] = {
    "fsdp16.mb1.zero1",
    "fsdp16.mb1",
    "fsdp16.mb1.rc-full",
    "fsdp8.dp2.mb1",
    "dp16.mb1",
    "tp2.fsdp8.mb1.zero1",
    "tp2.fsdp8.mb1",
    "tp2.fsdp8.mb1.nosp",
    "tp2.pp2.fsdp4.mb1.zero1",
    "pp4.dp4.mb1",
    "tp2.pp2.vpp2.dp4.mb1",
    "ep8.fsdp16.mb1.zero1",
    "ep8.fsdp16.mb1",
    "cp2.fsdp8.mb1",
    "tp2.ep4.etp1.fsdp8.mb1.zero1",
    "fsdp16.mb1.rc-op",
    "fsdp16.mb1.zero2",
    "tp2.pp2.fsdp4.mb1.zero1.rc-core_attn+layernorm",
};

nlohmann::json parsed(const std::string& line) {
  const Exported result = run_words(line);
  return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

void expect_same_plan(const nlohmann::json& checked, const nlohmann::json& estimated,
                      const std::string& what) {
  ASSERT_TRUE(checked.is_object()) << what;
  for (const char* key : {"tp", "pp", "vpp", "cp", "ep", "dp", "fsdp", "micro_batch",
                          "micro_batches", "recompute", "schedule", "sequence_parallel"}) {
    EXPECT_EQ(checked["layout"][key], estimated["layout"][key]) << what << ": " << key;
  }
  for (const auto& violation : checked["violations"]) {
    EXPECT_NE(violation["severity"], "error") << what << "\n" << violation;
  }
}

// The file's own prediction where export settled the job, else estimate's.
void expect_same_numbers(const nlohmann::json& checked, double step, double peak,
                         const std::string& what) {
  const nlohmann::json& estimate = checked["estimate"];
  EXPECT_NEAR(estimate["time"]["step_seconds"].get<double>() / step, 1, 1e-3) << what;
  EXPECT_NEAR(estimate["memory"]["peak_allocated_gib"].get<double>() / peak, 1, 1e-3) << what;
}

// `turn`: of the format, so that formats try a layout with other models.
std::size_t rounds_of(const Format& format, std::size_t turn, std::size_t models) {
  const std::string path = testing::TempDir() + "round_trip." + format.ending;
  std::size_t rounds = 0;
  for (std::size_t l = 0; l < std::size(kLayouts); ++l) {
    const char* layout = kLayouts[l];
    for (std::size_t m = 0; m < models; ++m) {
      const char* model = kModels[(l + turn + m) % std::size(kModels)];
      // DeepSpeed's JSON does not say that a program recomputes, a remark does.
      if (std::string(format.name) == "deepspeed" &&
          std::string(layout).find("rc-") != std::string::npos) {
        continue;
      }
      const std::string job = std::string("--model ") + model +
                              " --cluster dgx-h100x2 --seq 2048 --global-batch 64 --framework " +
                              format.framework;
      const std::string plan = job + " --layout " + layout;
      if (run_words("export --format " + std::string(format.name) + " " + plan + " -q -o " + path)
              .code != 0) {
        continue;
      }
      const std::string what = std::string(format.name) + " " + plan;
      const std::string missing =
          format.names_model ? "" : " --seq 2048 --global-batch 64 --model " + std::string(model);
      const auto checked = parsed("check " + path + " --format " + format.name +
                                  " --cluster dgx-h100x2 --json" + missing);
      // accelerate's FSDP reduces in 16 bits, which export settles before its prediction.
      const bool plain = std::string(format.framework) == "accelerate" &&
                         std::string(layout).find("fsdp") == std::string::npos;
      const bool settled = std::string(format.name) == "accelerate" && !plain;
      const auto estimated =
          parsed("estimate " + plan + " --json" + (settled ? " --set reduce_dtype=bf16" : ""));
      expect_same_plan(checked, estimated, what);
      expect_same_numbers(checked, estimated["time"]["step_seconds"].get<double>(),
                          estimated["memory"]["peak_allocated_gib"].get<double>(), what);
      ++rounds;
    }
  }
  return rounds;
}

TEST(ExportRoundTrip, CheckReadsBackWhatExportWrote) {
  const Format formats[] = {
      {"megatron", "sh", "megatron", true, 5},
      {"megatron", "sh", "megatron-fsdp", true, 5},
      {"megatron-bridge", "py", "megatron", true, 5},
      // A file of a megatron-bridge plan was checked as megatron's: 57.2 GiB of 63.2.
      {"megatron-bridge", "py", "megatron-bridge", true, 4},
      {"torchtitan", "toml", "torchtitan", true, 2},
      {"accelerate", "yaml", "accelerate", false, 2},
      {"accelerate", "yaml", "accelerate-fsdp1", false, 1},
      {"deepspeed", "json", "deepspeed", false, 2},
  };
  const std::size_t models =
      std::min<std::size_t>(tests::from_environment("TRIREME_CASES", 1), std::size(kModels));
  std::size_t turn = 0;
  for (const Format& format : formats) {
    EXPECT_GE(rounds_of(format, turn++, models), format.least * models)
        << format.name << " " << format.framework;
  }
}

struct PlannedJob {
  std::string words;      // of plan
  std::string framework;  // as --framework takes it
  std::string model, batch, cluster, sequence;
};

PlannedJob random_job(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<const char*> choices) {
    return std::string(*(choices.begin() + random() % choices.size()));
  };
  PlannedJob job;
  job.model = pick({"llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-32b",
                    "llama-3.2-1b", "deepseek-v2-lite"});
  job.framework = pick(
      {"megatron", "megatron-bridge", "megatron-fsdp", "torchtitan", "deepspeed", "accelerate"});
  job.cluster = pick({"dgx-h100x2", "dgx-h100x8", "hgx-h200x1", "dgx-b200x4"});
  job.sequence = pick({"4096", "8192"});
  job.batch = pick({"128", "256", "512"});
  job.words = "--model " + job.model + " --cluster " + job.cluster + " --seq " + job.sequence +
              " --global-batch " + job.batch + " --framework " + job.framework;
  return job;
}

// `plan` proposed sequence parallelism under DeepSpeed's tensor parallelism, switches of torchtitan
// under accelerate and 16-bit masters under Megatron-Bridge, all of which `export` refused.
TEST(ExportRoundTrip, WhatAFrameworkPlansIsExportedHoldsItsRulesAndComesBack) {
  std::mt19937 random(20261129);
  std::size_t rounds = 0;
  for (int i = 0; i < 24; ++i) {
    const PlannedJob job = random_job(random);
    const std::string plan = testing::TempDir() + "planned.json";
    const Answer planned = run_words("plan " + job.words + " -o " + plan + " --json");
    if (planned.code != 0 || planned.out.find("and every other:") != std::string::npos) {
      continue;  // nothing fits, or the format has no such model
    }
    const std::string file = testing::TempDir() + "planned.launch";
    const Answer written = run_words("export " + plan + " -q -o " + file);
    ASSERT_EQ(written.code, 0) << job.words << "\n" << written.err;
    const auto proposed = nlohmann::json::parse(planned.out).at("best");
    const bool names_model = job.framework != "deepspeed" && job.framework != "accelerate";
    const std::string format = job.framework == "torchtitan"        ? "torchtitan"
                               : job.framework == "deepspeed"       ? "deepspeed"
                               : job.framework == "accelerate"      ? "accelerate"
                               : job.framework == "megatron-bridge" ? "megatron-bridge"
                                                                    : "megatron";
    const auto checked =
        parsed("check " + file + " --format " + format + " --cluster " + job.cluster + " --json" +
               (names_model ? ""
                            : " --model " + job.model + " --seq " + job.sequence +
                                  " --global-batch " + job.batch));
    if (names_model) {
      expect_same_plan(checked, proposed, job.words);
    } else {  // their programs decide micro-batch and recompute
      for (const auto& violation : checked["violations"]) {
        EXPECT_NE(violation["severity"], "error") << job.words << "\n" << violation;
      }
      EXPECT_EQ(checked["layout"]["fsdp"], proposed["layout"]["fsdp"]) << job.words;
      EXPECT_EQ(checked["layout"]["tp"], proposed["layout"]["tp"]) << job.words;
    }
    ++rounds;
  }
  EXPECT_GE(rounds, 12U);
}

}  // namespace
}  // namespace trireme::tools
