// Keys of runs of transformers' Trainer: those after `--`, misspelt ones, what two files say of the
// same, and stock files that are not there.
#include "models/model_names.h"
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

constexpr const char* kH100s = "--cluster dgx-h100x1";

std::string factory_of_keys(const std::string& more) {
  return "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\ncutoff_len: 8192\n"
         "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nbf16: true\n"
         "packing: true\n" +
         more;
}

// KEY=VALUE after -- went into the JSON, where cutoff_len means nothing: 8192 tokens were judged.
TEST(TrainerKeys, ArgumentsReachARunThatNamesDeepspeed) {
  const std::string path =
      written("keys/ds.yaml", factory_of_keys("finetuning_type: full\ndeepspeed: zero3\n"));
  const Checked shorter =
      check(path, std::string(kH100s) + " -- cutoff_len=4096 --per_device_train_batch_size 2");
  ASSERT_EQ(shorter.code, 0) << shorter.err;
  EXPECT_EQ(shorter.json["estimate"]["sequence"], 4096);
  EXPECT_EQ(shorter.json["layout"]["micro_batch"], 2);
  const Checked lora = check(path, std::string(kH100s) + " -- finetuning_type=lora");
  ASSERT_EQ(lora.code, 0) << lora.err;
  const Checked second = check(path, std::string(kH100s) + " -- zero_optimization.stage=2");
  EXPECT_EQ(second.json["layout"]["sharding"], "gradients") << second.err;
  const Checked named = check(path, std::string(kH100s) + " -- deepspeed=zero2");
  EXPECT_EQ(named.json["layout"]["sharding"], "gradients") << named.err;
  const Checked word = check(path, std::string(kH100s) + " -- cutoff_len");
  EXPECT_EQ(word.code, 2);
  EXPECT_NE(word.err.find("is no KEY=VALUE"), std::string::npos) << word.err;
}

// finetuning_typ was passed over and LoRA assumed; LLaMA-Factory's parser stops on it.
TEST(TrainerKeys, ASlipOfADecisiveKeyIsNamed) {
  const Checked wrong =
      check(written("keys/slip.yaml", factory_of_keys("finetuning_typ: full\n")), kH100s);
  EXPECT_EQ(rules_in(wrong), Rules{"error keys that the trainer has"}) << wrong.err;
  EXPECT_EQ(fix_in(wrong, "keys that the trainer has"), "use finetuning_type");
  const Checked over = check(written("keys/over.yaml", axolotl("adaptr: lora\n")), kH100s);
  EXPECT_EQ(rules_in(over), Rules{"warning keys that the trainer has"}) << over.err;
  // keys that are simply not known here are nobody's slip
  const Checked other =
      check(written("keys/other.yaml", factory_of_keys("finetuning_type: lora\ntemplate: llama3\n"
                                                       "plot_loss: true\nlora_alpha: 16\n")),
            kH100s);
  EXPECT_EQ(rules_in(other), Rules{}) << other.err;
}

// trainer.py: "Using --fsdp xxx together with --deepspeed is not possible".
TEST(TrainerKeys, DeepspeedAndFsdpExcludeEachOther) {
  const std::string start =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 "
      "True --per_device_train_batch_size 1 --gradient_checkpointing True --deepspeed zero3";
  const Checked one = check(written("keys/one.sh", start + "\n"), kH100s);
  EXPECT_EQ(rules_in(one), Rules{}) << one.err;
  const Checked both =
      check(written("keys/both.sh", start + " --fsdp \"full_shard auto_wrap\"\n"), kH100s);
  EXPECT_EQ(rules_in(both), Rules{"error DeepSpeed or FSDP"}) << both.err;
}

// integrations/deepspeed.py: "Please correct the following DeepSpeed config values that mismatch".
TEST(TrainerKeys, TheJsonsBatchMustBeTheRuns) {
  written("keys/fixed/ds.json",
          R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
              "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const std::string run = factory_of_keys("finetuning_type: full\ndeepspeed: ds.json\n");
  const Checked differs = check(written("keys/fixed/run.yaml", run), kH100s);
  EXPECT_EQ(rules_in(differs), Rules{"error the JSON's batch is the run's"}) << differs.err;
  const Checked same = check(written("keys/fixed/run.yaml", run),
                             std::string(kH100s) + " -- per_device_train_batch_size=4");
  EXPECT_EQ(rules_in(same), Rules{}) << same.err;
}

// "cannot be read" was all that a run with its program's own file got where that lies elsewhere.
TEST(TrainerKeys, StockFilesAreKnownByTheirNames) {
  const Checked third =
      check(written("keys/z3.yaml",
                    factory_of_keys("finetuning_type: full\n"
                                    "deepspeed: examples/deepspeed/ds_z3_offload_config.json\n")),
            kH100s);
  ASSERT_TRUE(third.json.is_object()) << third.err;
  EXPECT_EQ(third.json["layout"]["sharding"], "full");
  EXPECT_TRUE(remarks_have(third, "is not there"));
  const Checked first =
      check(written("keys/z1.yaml", axolotl("deepspeed: deepspeed_configs/zero1.json\n")), kH100s);
  EXPECT_EQ(first.json["layout"]["sharding"], "optimizer") << first.err;
  const Checked own =
      check(written("keys/own.yaml", factory_of_keys("deepspeed: configs/mine.json\n")), kH100s);
  EXPECT_EQ(own.code, 2);
  EXPECT_NE(own.err.find("deepspeed=zero3"), std::string::npos) << own.err;
}

// `bash scripts/sft.sh` from a folder between the script's and the repository's: its names are that
// folder's (Qwen3-VL's qwen-vl-finetune/scripts/zero3.json could not be read).
TEST(TrainerKeys, FilesAreFoundFromAFolderAboveTheScript) {
  written("above/.git/HEAD", "ref: refs/heads/main\n");
  written("above/finetune/scripts/z3.json",
          R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  const Checked read = check(
      written("above/finetune/scripts/sft.sh",
              "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-4B --bf16 "
              "--per_device_train_batch_size 1 --deepspeed ./scripts/z3.json\n"),
      kH100s);
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["sharding"], "full");
}

// Advice named PyTorch's calls and accelerate's keys.
TEST(TrainerKeys, AdviceIsInTheProgramsOwnWords) {
  const Checked kept =
      check(written("keys/advice.yaml", axolotl("gradient_checkpointing: true\nadapter: lora\n")),
            kH100s);
  ASSERT_EQ(kept.code, 0) << kept.err;
  std::string flags;
  for (const nlohmann::json& each : kept.json.at("switches")) {
    flags += each.at("flag").get<std::string>() + "; ";
  }
  EXPECT_NE(flags.find("gradient_checkpointing: false"), std::string::npos) << flags;
  EXPECT_EQ(flags.find("fsdp_activation_checkpointing"), std::string::npos) << flags;
  EXPECT_EQ(flags.find("dynamo_config"), std::string::npos) << flags;
}

// Recipes of TRL and the alignment handbook were refused as "a recipe of transformers' Trainer".
TEST(TrainerKeys, RecipesOfTrlAreRunsWhoseShardingAnotherFileSays) {
  const std::string recipe =
      "model_name_or_path: mistralai/Mistral-7B-v0.1\ntorch_dtype: bfloat16\nbf16: true\n"
      "max_seq_length: 2048\nper_device_train_batch_size: 16\ngradient_accumulation_steps: 1\n"
      "gradient_checkpointing: true\npacking: true\nlearning_rate: 2.0e-05\n";
  const Checked alone = check(written("keys/recipe.yaml", recipe), kH100s);
  EXPECT_EQ(alone.json.value("verdict", ""), "not_known") << alone.err;
  EXPECT_NE(alone.json.value("verdict_reason", "").find("accelerate"), std::string::npos);
  written("keys/zero3.yaml",
          "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nmixed_precision: bf16\n"
          "num_machines: 1\nnum_processes: 8\n");
  const Checked sharded = check(written("keys/recipe.yaml", recipe),
                                std::string(kH100s) + " -- --config_file zero3.yaml");
  ASSERT_TRUE(sharded.json.is_object()) << sharded.err;
  EXPECT_EQ(sharded.json["layout"]["sharding"], "full");
  EXPECT_EQ(sharded.json["layout"]["micro_batch"], 16);
}

// What follows the YAML in a command overrides it, as OmegaConf and click do.
TEST(TrainerKeys, TheCommandOverridesTheYamlThatItNames) {
  written("keys/named/run.yaml", factory_of_keys("finetuning_type: lora\n"));
  const Checked over =
      check(written("keys/named/run.sh",
                    "CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train run.yaml cutoff_len=1024\n"),
            kH100s);
  ASSERT_EQ(over.code, 0) << over.err;
  EXPECT_EQ(over.json["estimate"]["sequence"], 1024);
  EXPECT_EQ(over.json["layout"]["dp"], 2);
}

// Names whose decoder has a preset's dimensions were "no preset here"; a family's other sizes and
// layers that are not described must not become one.
TEST(TrainerKeys, OtherNamesOfAPresetsDimensions) {
  const std::pair<const char*, const char*> names[] = {
      {"Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-7b"},
      {"Qwen/Qwen2-1.5B-Instruct", "qwen2.5-1.5b"},
      {"Qwen/Qwen2-57B-A14B", "qwen2-57b-a14b"},
      {"Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3-30b-a3b"},
      {"Qwen/Qwen3-VL-2B-Instruct", "qwen3-1.7b"},
      {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"},
      {"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
      {"allenai/OLMo-2-1124-13B-SFT", "olmo-2-13b"},
      {"lmsys/vicuna-7b-v1.5", "llama-2-7b"},
      {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"},
      {"moonshotai/Moonlight-16B-A3B-Instruct", "moonlight-16b-a3b"},
      {"Qwen/Qwen3-Next-80B-A3B-Instruct", ""},
      {"Qwen/Qwen3.5-4B", ""},
      {"deepseek-ai/DeepSeek-V3.2", ""}};
  for (const auto& [name, preset] : names) {
    EXPECT_EQ(models::preset_in(name), preset) << name;
  }
}

// The decoder's numbers are told, and no verdict on what the images' part adds.
TEST(TrainerKeys, AModelOfImagesIsItsDecoderWithoutAVerdict) {
  const Checked seen =
      check(written("keys/vl.yaml",
                    "model_name_or_path: Qwen/Qwen2.5-VL-7B-Instruct\nstage: sft\nfinetuning_type: "
                    "lora\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n"),
            kH100s);
  ASSERT_TRUE(seen.json.is_object()) << seen.err;
  EXPECT_EQ(seen.json["estimate"]["model"]["name"], "qwen2.5-7b");
  EXPECT_EQ(seen.json["verdict"], "not_known");
}

}  // namespace
}  // namespace trireme::tools
