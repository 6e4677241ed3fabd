// Offload and adapters from `plan` to `export` and `check`, and what `check` offers instead.
#include <fmt/format.h>

#include <fstream>

#include "tests/unit/tools/planned.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

// `plan --offload optimizer` said 67 GiB where `check` of DeepSpeed's offload_optimizer said 34,
// and `export` knew no --offload.
TEST(Offload, WhatIsExportedIsCheckedAsTheSame) {
  struct Row {
    const char *framework, *offload, *layout, *file, *words;
  };
  const std::string job = "--model llama-3.1-8b --cluster dgx-h100x1 --global-batch 64 --seq 4096 ";
  for (const Row& row :
       {Row{"deepspeed", "optimizer", "fsdp8.mb1.zero2", "o.json", "--recompute none"},
        Row{"deepspeed", "optimizer=0.5,parameters", "fsdp8.mb1", "o.json", "--recompute none"},
        Row{"deepspeed", "optimizer,activations", "fsdp8.mb1.zero1.rc-full", "o.json",
            "--recompute full"},
        Row{"accelerate-fsdp1", "parameters", "fsdp8.mb1.rc-full", "o.yaml", ""},
        Row{"torchtitan", "optimizer", "fsdp8.mb1", "o.toml", ""},
        Row{"megatron", "optimizer=0.5", "fsdp8.mb1.zero1", "o.sh", "--set master_bytes=2"},
        Row{"megatron", "activations=0.5", "tp8.mb1", "o.sh", ""}}) {
    const std::string what = fmt::format("{} {}", row.framework, row.offload);
    const std::string path = testing::TempDir() + row.file;
    const std::string said = job + fmt::format("--framework {} --layout {} --offload {} ",
                                               row.framework, row.layout, row.offload);
    const Exported written = run_words("export " + said + "-o " + path);
    ASSERT_EQ(written.code, 0) << what << written.err;
    const bool master = std::string(row.words).find("master") != std::string::npos;
    const json own =
        json::parse(run_words("estimate --json " + said + (master ? row.words : "")).out);
    const Exported checked = run_words("check --json " + path +
                                       " --cluster dgx-h100x1 --model llama-3.1-8b --seq 4096 " +
                                       "--global-batch 64 " + (master ? "" : row.words));
    const json found = json::parse(checked.out, nullptr, false);
    ASSERT_TRUE(found.is_object()) << what << checked.err;
    for (const char* key : {"peak_allocated_gib", "host_gib"}) {
      EXPECT_NEAR(found["estimate"]["memory"][key].get<double>() / own["memory"][key].get<double>(),
                  1, 1e-3)
          << what << " " << key;
    }
    for (const json& violation : found["violations"]) {
      EXPECT_NE(violation["severity"], "error") << what << violation;
    }
  }
}

TEST(Offload, WhatAFormatCannotSayIsRefusedWithItsReason) {
  const std::string job = "export --model llama-3.1-8b --cluster dgx-h100x1 --layout ";
  for (const auto& [words, reason] :
       {std::pair{"fsdp8.mb1 --lora-rank 16", "adapters, frozen layers"},
        {"fsdp8.mb1 --framework torchtitan --offload activations", "in the program's code"},
        {"fsdp8.mb1.zero1 --framework megatron --offload gradients", "optimizer states and"},
        {"tp8.mb1 --framework megatron --offload optimizer", "--sharding optimizer"},
        {"fsdp8.mb1 --framework deepspeed --offload optimizer=nvme", "path of your drives"},
        {"fsdp8.mb1.zero2 --framework deepspeed --offload parameters",
         "--layout fsdp8.mb1 would"}}) {
    const Exported result = run_words(job + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_NE(result.err.find(reason), std::string::npos) << words << result.err;
    EXPECT_EQ(result.err.find("--format"), std::string::npos) << result.err;
  }
}

// "--sharding optimizer would be right" stood where that is refused too.
TEST(Offload, AFixThatIsNamedIsTaken) {
  struct Row {
    const char *framework, *layout, *offload;
  };
  for (const Row& row :
       {Row{"megatron", "tp2.dp4.mb1", "optimizer"}, Row{"megatron", "tp8.mb1", "optimizer=0.5"},
        Row{"megatron-fsdp", "fsdp8.mb1", "optimizer"}, Row{"deepspeed", "dp8.mb1", "optimizer"},
        Row{"deepspeed", "tp8.mb1.nosp", "optimizer"},
        Row{"deepspeed", "fsdp4.dp2.mb1.zero2", "optimizer,parameters"},
        Row{"torchtitan", "dp8.mb1", "optimizer"},
        Row{"accelerate-fsdp1", "fsdp8.mb1.zero2", "parameters"}}) {
    const std::string job =
        "export --model llama-3.1-8b --cluster dgx-h100x1 --global-batch 64 -o " +
        testing::TempDir() + "fixed";
    const std::string offload = fmt::format(" --offload {}", row.offload);
    const std::string framework = fmt::format(" --framework {}", row.framework);
    const Exported refused =
        run_words(job + offload + framework + fmt::format(" --layout {}", row.layout));
    ASSERT_EQ(refused.code, 2) << row.framework << row.layout;
    const std::string end = " would be right";
    const auto last = refused.err.find(end);
    const auto first = refused.err.rfind("; ", last) + 2;
    ASSERT_NE(last, std::string::npos) << refused.err;
    std::string fix = " " + refused.err.substr(first, last - first);
    if (const auto with = fix.find(" with "); with != std::string::npos) {
      fix.replace(with, 6, " ");
    }
    const bool names_layout = fix.find("--layout") != std::string::npos;
    const bool names_framework = fix.find("--framework") != std::string::npos;
    const Exported taken =
        run_words(job + offload + (names_framework ? "" : framework) +
                  (names_layout ? "" : fmt::format(" --layout {}", row.layout)) + fix);
    EXPECT_EQ(taken.code, 0) << row.framework << " " << row.layout << fix << "\n" << taken.err;
  }
}

// For accelerate it named rc-full8, which its configuration cannot say, and counted no switches.
TEST(CheckBetter, WhatIsOfferedIsWrittenByTheCommandBesideIt) {
  struct Row {
    const char *framework, *layout, *file;
  };
  const std::string job = "--model llama-3.1-8b --cluster dgx-h100x1 --global-batch 64 --seq 8192";
  for (const Row& row : {Row{"accelerate-fsdp1", "fsdp8.mb1.rc-full", "b.yaml"},
                         Row{"megatron", "tp8.mb1.rc-full", "b.sh"},
                         Row{"torchtitan", "tp2.fsdp4.mb1.rc-full", "b.toml"}}) {
    const std::string path = testing::TempDir() + row.file;
    ASSERT_EQ(run_words("export " + job + " --framework " + row.framework + " --layout " +
                        row.layout + " -o " + path)
                  .code,
              0);
    const json first =
        json::parse(run_words("check --json " + path + " " + job).out, nullptr, false);
    ASSERT_TRUE(first.is_object() && first["better"].is_object()) << row.framework << first;
    std::string command = first["better_command"];
    const std::string better = testing::TempDir() + "better_" + row.file;
    command = command.substr(std::string("trireme ").size(),
                             command.rfind(" -o ") - std::string("trireme ").size()) +
              " -o " + better;
    const Exported written = run_words(command);
    ASSERT_EQ(written.code, 0) << command << written.err;
    const json second = json::parse(run_words("check --json " + better + " " + job).out);
    EXPECT_TRUE(second["better"].is_null()) << row.framework << second["better_command"];
    EXPECT_NEAR(second["estimate"]["time"]["step_seconds"].get<double>() /
                    first["better"]["time"]["step_seconds"].get<double>(),
                1, 1e-3)
        << command;
    const json planned = plan_of(job + " --framework " + row.framework);
    EXPECT_NEAR(first["better"]["time"]["step_seconds"].get<double>() /
                    planned["best"]["time"]["step_seconds"].get<double>(),
                1, 0.01)
        << row.framework;
  }
}

// Recompute, which DeepSpeed's file leaves to the training script, was what made it fit, and was
// not said; what was written instead recommended itself.
TEST(CheckBetter, WhatTheTrainingScriptDecidesIsSaid) {
  const std::string job = " --model llama-3.1-8b --cluster dgx-h100x1 --seq 8192 --global-batch 64";
  const std::string path = testing::TempDir() + "ds.json";
  std::ofstream(path) << R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
                          "offload_param": {"device": "cpu"}}})";
  const Exported words = run_words("check " + path + job);
  EXPECT_NE(words.out.find("with (--recompute full)"), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("fits by gradient_checkpointing_enable()"), std::string::npos)
      << words.out;
  std::string file = path;
  for (int round = 0; round < 3; ++round) {
    const json found = json::parse(run_words("check --json " + file + job).out);
    if (found["better"].is_null() || found["better_command"].is_null()) {
      const Exported last = run_words("check " + file + job);
      EXPECT_TRUE(found["better"].is_null() ||
                  last.out.find("the file stays as it is") != std::string::npos)
          << last.out;
      return;
    }
    std::string command = found["better_command"];
    const std::string better = testing::TempDir() + fmt::format("ds{}.json", round);
    const std::string begin = "trireme ";
    command = command.substr(begin.size(), command.rfind(" -o ") - begin.size());
    ASSERT_EQ(run_words(command + " -o " + better).code, 0) << command;
    file = better;
  }
  FAIL() << "each better file has a better one";
}

// "--model: is missing" was the answer to a script without --num-layers.
TEST(CheckMissing, TheFlagThatIsMissingIsNamed) {
  const std::string path = testing::TempDir() + "missing.sh";
  std::ofstream(path) << "torchrun --nproc-per-node 8 pretrain_gpt.py --hidden-size 4096 "
                         "--num-attention-heads 32 --seq-length 4096 --micro-batch-size 1\n";
  const Exported result = run_words("check " + path + " --cluster dgx-h100x1");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("lacks --num-layers"), std::string::npos) << result.err;
}

// The interval of jobs with offload and adapters was that of dense training, which their rows
// leave.
TEST(EstimateInterval, IsAsWideAsOffloadAndAdaptersWereOff) {
  const std::string job =
      "estimate --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --layout fsdp8.mb1 --json";
  const auto ends = [&](const std::string& more) {
    const auto time = nlohmann::json::parse(run_words(job + more).out).at("time");
    const double step = time.at("step_seconds");
    return std::pair{time.at("low_seconds").get<double>() / step,
                     time.at("high_seconds").get<double>() / step};
  };
  EXPECT_GT(ends("").first, 0.75);
  EXPECT_LT(ends("").second, 1.6);
  EXPECT_LT(ends(" --lora-rank 16").first, 0.6);
  EXPECT_GT(ends(" --offload optimizer").second, 2.19);
  EXPECT_LT(ends(" --lora-rank 16 --offload optimizer").first, 0.6);
}

}  // namespace
}  // namespace trireme::tools
