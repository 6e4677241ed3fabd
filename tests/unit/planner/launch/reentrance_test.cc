// Whether checkpoints are reentrant, under each trainer's own words and defaults.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

class Reentrance : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kAccelerate)) {
      GTEST_SKIP() << "built without yaml-cpp";
    }
  }
  // "true", "false", or "open": the library's release decides.
  static std::string of(const std::string& text, const std::string& source = "run.yaml") {
    const auto config = read_trainer(text, source, {}, {});
    if (!config) {
      return "no run";
    }
    for (const char* value : {"true", "false"}) {
      if (std::count(config->choices.begin(), config->choices.end(),
                     std::string("frozen_graph_stays=") + value) > 0) {
        return value;
      }
    }
    return "open";
  }
};

const std::string kFsdp = "fsdp: full_shard auto_wrap\n";
const std::string kFactoryRun =
    "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\ntemplate: qwen3\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 1\n";
const std::string kAxolotlRun =
    "base_model: Qwen/Qwen3-8B\nadapter: lora\nlora_r: 16\nlora_target_linear: true\n"
    "sequence_len: 2048\nmicro_batch_size: 1\ngradient_checkpointing: true\n";
const std::string kTrlRun =
    "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nlora_r: 16\nmax_length: 2048\n"
    "per_device_train_batch_size: 1\ngradient_checkpointing: true\n";

// All of them were predicted as the release of transformers has it.
TEST_F(Reentrance, LlamaFactoryIsUnlessItSaysNot) {
  EXPECT_EQ(of(kFactoryRun + kFsdp), "true");
  EXPECT_EQ(of(kFactoryRun + kFsdp + "use_reentrant_gc: false\n"), "false");
  EXPECT_EQ(of(kFactoryRun + "fsdp: full_shard auto_wrap\nfsdp_config:\n  fsdp_version: 2\n"),
            "open");  // FSDP2 holds none of it
}

TEST_F(Reentrance, AxolotlIsOutsideOfReinforcementLearning) {
  const std::string wrap =
      "fsdp:\n  - full_shard\n  - auto_wrap\nfsdp_config:\n  fsdp_version: 1\n";
  EXPECT_EQ(of(kAxolotlRun + wrap), "true");
  EXPECT_EQ(of(kAxolotlRun + wrap + "rl: dpo\n"), "false");
  const std::string arguments = "gradient_checkpointing_kwargs:\n  ";
  EXPECT_EQ(of(kAxolotlRun + wrap + arguments + "use_reentrant: false\n"), "false");
  EXPECT_EQ(of(kAxolotlRun + wrap + arguments + "preserve_rng_state: false\n"), "open");
  EXPECT_EQ(of(kAxolotlRun + wrap + "  fsdp_activation_checkpointing: true\n"), "false");
}

TEST_F(Reentrance, TransformersLeavesItToItsRelease) {
  EXPECT_EQ(of(kTrlRun + kFsdp), "open");
  const std::string arguments = "gradient_checkpointing_kwargs:\n  use_reentrant: ";
  EXPECT_EQ(of(kTrlRun + kFsdp + arguments + "true\n"), "true");
  EXPECT_EQ(of(kTrlRun + kFsdp + arguments + "False\n"), "false");
  // all weights trained: nothing is frozen
  EXPECT_EQ(of("model_name_or_path: Qwen/Qwen3-8B\nmax_length: 2048\n"
               "per_device_train_batch_size: 1\n" +
               kFsdp + arguments + "true\n"),
            "open");
}

TEST_F(Reentrance, SwiftIsUnderFsdpAndTakesJson) {
  const std::string run =
      "swift sft --model Qwen/Qwen3-8B --train_type lora --max_length 2048 "
      "--fsdp 'full_shard auto_wrap' ";
  EXPECT_EQ(of(run, "run.sh"), "true");
  EXPECT_EQ(of(run + "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'", "run.sh"),
            "false");
  EXPECT_THROW(of(run + "--gradient_checkpointing_kwargs '{\"use_reentrant\": '", "run.sh"), Error);
}

}  // namespace
}  // namespace trireme::planner
