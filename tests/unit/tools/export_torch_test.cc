// torchtitan's TOML, DeepSpeed's JSON and accelerate's YAML of plans of every kind.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/export_run.h"

namespace trireme::tools {
namespace {

nlohmann::json exported_json(const std::string& options) {
  return nlohmann::json::parse(exported(options));
}

TEST(ExportTorchtitan, WithoutAPipelineMicroBatchesAreAccumulated) {
  const Values toml = lines_in(
      exported("--model llama-3.1-8b --cluster dgx-h100x2 --framework fsdp2 --seq 8192 --layout "
               "tp2.fsdp8.mb2.rc-op --global-batch 64 --set compile=true"));
  expect_values(toml, {{"name", "\"AdamW\""},
                       {"flavor", "\"8B\""},
                       {"local_batch_size", "2"},
                       {"global_batch_size", "64"},
                       {"seq_len", "8192"},
                       {"data_parallel_shard_degree", "8"},
                       {"data_parallel_replicate_degree", "1"},
                       {"fsdp_reshard_after_forward", "\"always\""},
                       {"tensor_parallel_degree", "2"},
                       {"mode", "\"selective\""},
                       {"selective_ac_option", "\"op\""},
                       {"enable", "true"},
                       {"components", "[\"model\", \"loss\"]"}});
}

// It was predicted with torchtitan's compiled loss, and compiled the model alone.
TEST(ExportTorchtitan, WhatIsPredictedWithACompiledLossCompilesIt) {
  expect_values(
      lines_in(exported("--model llama-3.1-8b --cluster dgx-h100x1 --framework torchtitan "
                        "--layout fsdp8.mb1 --global-batch 8 --set compile=true")),
      {{"components", "[\"model\", \"loss\"]"}});
}

TEST(ExportTorchtitan, APipelineIsFedTheWholeStep) {
  const Values toml = lines_in(exported(
      "--model llama-3.1-8b --cluster dgx-h100x2 --framework fsdp2 --layout pp4.vpp2.fsdp4.mb2 "
      "--global-batch 64"));
  expect_values(toml, {{"local_batch_size", "16"},
                       {"pipeline_parallel_microbatch_size", "2"},
                       {"pipeline_parallel_degree", "4"},
                       {"pipeline_parallel_schedule", "\"Interleaved1F1B\""},
                       {"pipeline_parallel_layers_per_stage", "4"},
                       {"pipeline_parallel_first_stage_less_layers", "0"},
                       {"pipeline_parallel_last_stage_less_layers", "0"}});
}

TEST(ExportTorchtitan, SchedulesInAVHaveItsNames) {
  const std::string base =
      "--model llama-3.1-8b --cluster dgx-h100x2 --framework fsdp2 --global-batch 64 --pp 4 --fsdp "
      "4 "
      "--schedule ";
  expect_values(lines_in(exported(base + "zb-v")),
                {{"pipeline_parallel_schedule", "\"ZBVZeroBubble\""},
                 {"pipeline_parallel_layers_per_stage", "4"}});
  expect_values(lines_in(exported(base + "dualpipe-v")),
                {{"pipeline_parallel_schedule", "\"DualPipeV\""}});
}

TEST(ExportTorchtitan, SplitsThatItsRuleGivesAreCountsAndOthersModuleLists) {
  const std::string base = "--framework fsdp2 --global-batch 128 --tp 8 --cluster dgx-h100x64 ";
  expect_values(lines_in(exported(base + "--model llama-3.1-405b --pp 8 --fsdp 8")),
                {{"pipeline_parallel_layers_per_stage", "16"},
                 {"pipeline_parallel_first_stage_less_layers", "1"},
                 {"pipeline_parallel_last_stage_less_layers", "1"}});
  const std::string uneven =
      exported(base + "--model llama-3.1-70b --pp 4 --fsdp 16 --stage-layers 19,22,21,18");
  EXPECT_NE(uneven.find("module_fqns_per_model_part = [\n  [\"tok_embeddings\", \"layers.0\","),
            std::string::npos);
  EXPECT_NE(uneven.find("\"layers.18\"],\n  [\"layers.19\","), std::string::npos);
  EXPECT_NE(uneven.find("\"layers.79\", \"norm\", \"output\"],\n]"), std::string::npos);
  EXPECT_EQ(uneven.find("layers_per_stage"), std::string::npos);
}

TEST(ExportTorchtitan, HybridShardingExpertsAndItsOwnModelNames) {
  const Values moe = lines_in(exported(
      "--model qwen3-30b-a3b --cluster dgx-h100x2 --framework fsdp2 --ep 8 --fsdp 8 --dp 2 --set "
      "reshard_after_forward=false"));
  expect_values(moe, {{"flavor", "\"30B-A3B\""},
                      {"data_parallel_replicate_degree", "2"},
                      {"data_parallel_shard_degree", "8"},
                      {"expert_parallel_degree", "8"},
                      {"expert_tensor_parallel_degree", "1"},
                      {"fsdp_reshard_after_forward", "\"never\""}});
  const std::string named = exported(
      "--model mistral-7b --cluster dgx-h100x1 --framework fsdp2 --sharding full --flavor "
      "llama3/mistral7B");
  EXPECT_NE(named.find("[model]\nname = \"llama3\"\nflavor = \"mistral7B\"\n"), std::string::npos);
}

TEST(ExportTorchtitan, TheExtraPredictionModuleIsLeftOutBeforeThePrediction) {
  const std::string text = exported(
      "--model deepseek-v3 --cluster dgx-h100x32 --framework fsdp2 --ep 32 --sharding full "
      "--global-batch 256 --flavor deepseek_v3/671B");
  EXPECT_NE(text.find("# deepseek-v3's extra prediction module is left out"), std::string::npos);
}

TEST(ExportDeepspeed, TheBatchIsMicroTimesAccumulationTimesRanks) {
  const auto json = exported_json(
      "--model llama-3.1-8b --cluster dgx-h100x2 --framework deepspeed --sharding gradients --tp 2 "
      "--no-sequence-parallel --micro-batch 2 --global-batch 64");
  EXPECT_FALSE(json.contains("train_batch_size"));  // the tensor ranks would count in it
  EXPECT_EQ(json["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(json["gradient_accumulation_steps"], 4);
  EXPECT_EQ(json["zero_optimization"]["stage"], 2);
  EXPECT_EQ(json["tensor_parallel"]["autotp_size"], 2);
  EXPECT_EQ(json["bf16"]["enabled"], true);
  EXPECT_EQ(json["communication_data_type"], "bf16");
  EXPECT_EQ(json["data_types"]["grad_accum_dtype"], "bf16");  // DeepSpeed's own where none is named
}

TEST(ExportDeepspeed, ShardingInGroupsIsMics) {
  const std::string options =
      "--model llama-3.1-8b --cluster dgx-h100x2 --framework deepspeed --fsdp 8 --dp 2";
  const auto json = exported_json(options);
  EXPECT_EQ(json["zero_optimization"]["stage"], 3);
  EXPECT_EQ(json["zero_optimization"]["mics_shard_size"], 8);
  const Exported result = run_words("export " + options);
  EXPECT_NE(result.err.find("deepspeed --num_gpus 8 --num_nodes 2 --hostfile hostfile train.py"),
            std::string::npos);
  EXPECT_NE(result.err.find("note: MiCS needs"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Predicted, as deepspeed: step "), std::string::npos);
}

TEST(ExportDeepspeed, PipelineExpertsAndUlyssesHaveTheirKeys) {
  const std::string base = "--cluster dgx-h100x2 --framework deepspeed --global-batch 64 ";
  const auto pipeline =
      exported_json(base + "--model llama-3.1-8b --pp 4 --sharding optimizer --recompute full");
  EXPECT_EQ(pipeline["pipeline"]["stages"], 4);
  EXPECT_EQ(pipeline["pipeline"]["activation_checkpoint_interval"], 1);
  EXPECT_EQ(pipeline["gradient_accumulation_steps"], 16);
  const auto experts = exported_json(base + "--model mixtral-8x7b --ep 8 --sharding full");
  EXPECT_EQ(experts["expert_parallel"]["autoep_size"], 8);
  const auto ulysses = exported_json(base + "--model llama-3.1-8b --cp 4 --sharding full");
  EXPECT_EQ(ulysses["sequence_parallel_size"], 4);
  EXPECT_EQ(ulysses["train_batch_size"], 64);
}

TEST(ExportAccelerate, SecondVersionWithAMesh) {
  const std::string text = exported(
      "--model llama-3.1-8b --cluster dgx-h100x2 --framework fsdp2 --format accelerate --fsdp 4 "
      "--dp 2 --tp 2 --no-sequence-parallel --recompute full --global-batch 32");
  expect_values(lines_in(text), {{"distributed_type", "FSDP"},
                                 {"mixed_precision", "bf16"},
                                 {"num_machines", "2"},
                                 {"num_processes", "16"},
                                 {"fsdp_version", "2"},
                                 {"fsdp_transformer_layer_cls_to_wrap", "LlamaDecoderLayer"},
                                 {"fsdp_reshard_after_forward", "true"},
                                 {"fsdp_activation_checkpointing", "true"},
                                 {"parallelism_config_dp_replicate_size", "2"},
                                 {"parallelism_config_dp_shard_size", "4"},
                                 {"parallelism_config_tp_size", "2"},
                                 {"parallelism_config_cp_size", "1"}});
  EXPECT_NE(text.find("# Predicted, as accelerate: "), std::string::npos);  // 16-bit reduction
  EXPECT_NE(text.find("--gradient_accumulation_steps 4"), std::string::npos);
  EXPECT_NE(text.find("sync_each_batch=True"), std::string::npos);
}

TEST(ExportAccelerate, FirstVersionNamesItsStrategies) {
  const std::string base = "--model llama-3.1-8b --cluster dgx-h100x2 --framework fsdp1 ";
  const std::pair<const char*, const char*> cases[] = {
      {"", "NO_SHARD"},
      {"--sharding full", "FULL_SHARD"},
      {"--sharding full --fsdp 8", "HYBRID_SHARD"},
      {"--sharding gradients", "SHARD_GRAD_OP"},
      {"--sharding gradients --fsdp 8", "HYBRID_SHARD_ZERO2"},
  };
  for (const auto& [options, strategy] : cases) {
    const Values yaml = lines_in(exported(base + options));
    expect_values(yaml, {{"fsdp_version", "1"}, {"fsdp_sharding_strategy", strategy}});
    EXPECT_EQ(yaml.count("parallelism_config_tp_size"), 0U);
  }
}

TEST(ExportAccelerate, PlainDataParallelismIsNoFsdp) {
  const std::string text =
      exported("--model llama-3.2-1b --cluster dgx-h100x1 --framework fsdp2 --format accelerate");
  expect_values(lines_in(text), {{"distributed_type", "MULTI_GPU"}, {"num_processes", "8"}});
  EXPECT_EQ(text.find("fsdp_config"), std::string::npos);
}

}  // namespace
}  // namespace trireme::tools
