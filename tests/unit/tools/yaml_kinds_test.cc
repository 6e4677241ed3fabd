// YAML of programs around Megatron: NeMo 1's and Megatron-Bridge's override files, which were
// refused ("is NeMo's YAML", "has no distributed_type"), and ms-swift's.
#include <span>

#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

// The shape of the launcher's conf/training/llama/llama2_70b.yaml.
const std::string kNemo =
    "run:\n  name: llama2_70b\ntrainer:\n  num_nodes: 16\n  devices: 8\n  precision: bf16\n"
    "model:\n  micro_batch_size: 1\n  global_batch_size: 128\n  tensor_model_parallel_size: 4\n"
    "  pipeline_model_parallel_size: 4\n  virtual_pipeline_model_parallel_size: 5\n"
    "  encoder_seq_length: 4096\n  max_position_embeddings: ${.encoder_seq_length}\n"
    "  num_layers: 80\n  hidden_size: 8192\n  ffn_hidden_size: 28672\n  num_attention_heads: 64\n"
    "  num_query_groups: 8\n  kv_channels: null\n  normalization: rmsnorm\n  bias: false\n"
    "  activation: fast-swiglu\n  position_embedding_type: rope\n"
    "  share_embeddings_and_output_weights: false\n  hidden_dropout: 0.0\n"
    "  attention_dropout: 0.0\n  sequence_parallel: true\n  fp8: false\n  fp8_hybrid: false\n";
const std::string kNoRecompute =
    "  activations_checkpoint_granularity: null\n  activations_checkpoint_method: block\n"
    "  activations_checkpoint_num_layers: 0\n";
const std::string kOptimizer =
    "  optim:\n    name: mcore_distributed_optim\n    overlap_grad_sync: true\n";

constexpr const char* kSixteen = "--cluster dgx-h100x16";

TEST(YamlKinds, NemosModelAndLayoutAreRead) {
  const Checked read = check(written("nemo/70b.yaml", kNemo + kNoRecompute + kOptimizer), kSixteen);
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["format"], "megatron-bridge");
  EXPECT_EQ(read.json["estimate"]["model"]["name"], "llama-2-70b");
  EXPECT_EQ(rules_in(read), Rules{});         // fp8: false is no word of Megatron-Bridge's fp8
  EXPECT_EQ(read.json["layout"]["fsdp"], 8);  // 16 x 8 over tp 4 and pp 4
  EXPECT_EQ(read.json["estimate"]["sequence"], 4096);
  EXPECT_EQ(read.json["layout"]["tp"], 4);
  EXPECT_EQ(read.json["layout"]["pp"], 4);
  EXPECT_EQ(read.json["layout"]["vpp"], 5);
  EXPECT_EQ(read.json["layout"]["sharding"], "optimizer");
  EXPECT_EQ(read.json["layout"]["recompute"], "none");
}

// References were resolved by their last part alone, and products not at all.
TEST(YamlKinds, NemosReferencesAndProductsAreResolved) {
  std::string text = kNemo + kNoRecompute + kOptimizer;
  const auto put = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  put("global_batch_size: 128", "global_batch_size: ${multiply:128, ${.micro_batch_size}}");
  put("pipeline_model_parallel_size: 4",
      "pipeline_model_parallel_size: ${training.model.tensor_model_parallel_size}");
  const Checked read = check(written("nemo/refs.yaml", text), kSixteen);
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["estimate"]["global_batch"], 128);
  EXPECT_EQ(read.json["layout"]["pp"], 4);
}

TEST(YamlKinds, NemosRecomputeAndPlainOptimizerAreRead) {
  const Checked read =
      check(written("nemo/full.yaml", kNemo + "  activations_checkpoint_granularity: full\n"
                                              "  activations_checkpoint_method: uniform\n"
                                              "  activations_checkpoint_num_layers: 1\n"
                                              "  optim:\n    name: fused_adam\n"),
            std::string(kSixteen) + " -- model.tensor_model_parallel_size=8");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["recompute"], "full");
  EXPECT_EQ(read.json["layout"]["sharding"], "none");
  EXPECT_EQ(read.json["layout"]["tp"], 8);
}

TEST(YamlKinds, NemosEncodersAreRefusedByName) {
  const Checked both = check(written("nemo/t5.yaml",
                                     "trainer:\n  devices: 8\n  num_nodes: 1\nmodel:\n"
                                     "  tensor_model_parallel_size: 1\n  encoder:\n"
                                     "    num_layers: 12\n"),
                             kSixteen);
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("an encoder and a decoder"), std::string::npos) << both.err;
}

TEST(YamlKinds, OverridesOfBridgeTakeTheirModelBeside) {
  const std::string path = written("bridge/over.yaml",
                                   "dataset:\n  seq_length: 8192\ntrain:\n  global_batch_size: 64\n"
                                   "  micro_batch_size: 1\nmodel:\n  seq_length: 8192\n"
                                   "  tensor_model_parallel_size: 2\n  context_parallel_size: 2\n");
  const Checked read = check(path, "--cluster dgx-h100x1 --model llama-3.1-8b");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["tp"], 2);
  EXPECT_EQ(read.json["layout"]["cp"], 2);
  EXPECT_EQ(read.json["estimate"]["global_batch"], 64);
}

TEST(YamlKinds, SwiftsYamlOfMegatronIsItsFlags) {
  const std::string yaml =
      "ENV:\n  NPROC_PER_NODE: 8\nmodel: Qwen/Qwen3-30B-A3B\ntuner_type: full\ndataset:\n"
      "  - 'a/b#500'\nmax_length: 2048\npacking: true\nmicro_batch_size: 1\n"
      "global_batch_size: 16\nexpert_model_parallel_size: 8\nmoe_grouped_gemm: true\n"
      "recompute_granularity: full\nrecompute_method: uniform\nrecompute_num_layers: 1\n";
  const Checked alone = check(written("swift/sft.yaml", yaml), "--cluster dgx-h100x1");
  ASSERT_TRUE(alone.json.is_object()) << alone.err;
  EXPECT_EQ(alone.json["format"], "megatron");
  EXPECT_EQ(alone.json["layout"]["ep"], 8);
  EXPECT_EQ(alone.json["estimate"]["model"]["name"], "qwen3-30b-a3b");
  const Checked started = check(written("swift/run.sh", "NPROC_PER_NODE=8 megatron sft sft.yaml\n"),
                                "--cluster dgx-h100x1");
  ASSERT_TRUE(started.json.is_object()) << started.err;
  EXPECT_EQ(started.json["layout"], alone.json["layout"]);
}

TEST(YamlKinds, SwiftsYamlIsItsRun) {
  const std::string yaml =
      "model: Qwen/Qwen2.5-7B-Instruct\ntuner_type: lora\nlora_rank: 8\ndataset: a/b\n"
      "max_length: 2048\nper_device_train_batch_size: 1\ntorch_dtype: bfloat16\n"
      "deepspeed: zero2\n";
  const Checked alone = check(written("swift/ds.yaml", yaml), "--cluster dgx-h100x1");
  ASSERT_TRUE(alone.json.is_object()) << alone.err;
  EXPECT_EQ(alone.json["layout"]["sharding"], "gradients");
  const Checked started = check(written("swift/ds.sh", "NPROC_PER_NODE=8 \\\nswift sft ds.yaml\n"),
                                "--cluster dgx-h100x1");
  ASSERT_TRUE(started.json.is_object()) << started.err;
  EXPECT_EQ(started.json["layout"]["sharding"], "gradients");
}

// It was "not modelled"; the batch is that of the groups.
TEST(YamlKinds, SwiftsSequenceParallelIsUlysses) {
  const Checked read = check(
      written("swift/sp.sh",
              "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type full "
              "--torch_dtype bfloat16 --per_device_train_batch_size 1 "
              "--gradient_accumulation_steps 8 --max_length 32768 --packing true --deepspeed zero3 "
              "--sequence_parallel_size 4 --dataset a/b\n"),
      "--cluster dgx-h100x1");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["cp"], 4);
  EXPECT_EQ(read.json["estimate"]["global_batch"], 16);
  EXPECT_NE(read.json["verdict"], "not_known") << read.json["verdict_reason"];
}

// axolotl's N-d parallelism is accelerate's parallelism_config; it was "not modelled".
TEST(YamlKinds, AxolotlsAxesAreAccelerates) {
  const std::string run =
      "base_model: Qwen/Qwen3-8B\nsequence_len: 8192\nmicro_batch_size: 1\nsample_packing: true\n"
      "gradient_accumulation_steps: 1\nbf16: true\ngradient_checkpointing: true\nfsdp_version: 2\n"
      "fsdp_config:\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  transformer_layer_cls_to_wrap: Qwen3DecoderLayer\n  reshard_after_forward: true\n";
  const Checked all = check(written("axes/all.yaml", run + "dp_shard_size: 2\n"
                                                           "context_parallel_size: 2\n"
                                                           "tensor_parallel_size: 2\n"),
                            "--cluster dgx-h100x1");
  ASSERT_TRUE(all.json.is_object()) << all.err;
  EXPECT_EQ(all.json["layout"]["tp"], 2);
  EXPECT_EQ(all.json["layout"]["cp"], 2);
  EXPECT_EQ(all.json["layout"]["fsdp"], 2);
  const Checked rest =
      check(written("axes/rest.yaml", run + "context_parallel_size: 2\n"), "--cluster dgx-h100x1");
  ASSERT_TRUE(rest.json.is_object()) << rest.err;
  EXPECT_EQ(rest.json["layout"]["cp"], 2);
  EXPECT_EQ(rest.json["layout"]["fsdp"], 4);
}

struct OtherFile {
  std::string text;
  const char* program;
};

// Each is refused in words that name its program.
void expect_named(std::span<const OtherFile> files, const std::string& file) {
  for (const auto& [text, program] : files) {
    const Checked other = check(written(file, text), "--cluster dgx-h100x1");
    EXPECT_EQ(other.code, 2);
    EXPECT_NE(other.err.find(program), std::string::npos) << other.err;
  }
}

// "has no distributed_type; accelerate's YAML would be right" was said of them.
TEST(YamlKinds, OtherProgramsFilesAreNamed) {
  const OtherFile files[] = {
      {"parallelism:\n  dp: 2\n  pp: 1\n  pp_engine: 1f1b\n  tp: 2\n", "nanotron"},
      {"max_seq_len: 2048\ntrain_loader:\n  name: text\nfsdp_config:\n  sharding_strategy: "
       "FULL_SHARD\n",
       "llm-foundry"},
      {"model:\n  d_model: 4096\nfsdp:\n  precision: mixed\ndevice_train_microbatch_size: 2\n",
       "OLMo"},
      {"model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\nbatch_size: 2\n",
       "torchtune"},
      {"actor_train:\n  strategy_args:\n    strategy_name: megatron_train\n", "ROLL"},
      {"model:\n  model_path: google/gemma-3-270m\ntrain:\n  dyn_bsz: false\n  accelerator:\n"
       "    fsdp_config:\n      fsdp_mode: fsdp2\n",
       "VeOmni"},
      {"trainer:\n  devices: 8\nexp_manager:\n  name: dpo\npretrained_checkpoint:\n"
       "  restore_from_path: null\n",
       "NeMo's"},
      // it was told about Megatron-Bridge
      {"model:\n  path: Qwen/Qwen2-7B-Instruct\nrollout:\n  name: vllm\n"
       "  gpu_memory_utilization: 0.5\n  tensor_model_parallel_size: 2\n",
       "verl's rollouts"},
      {"# job\napiVersion: batch/v1\nkind: Job\n", "Kubernetes"}};
  expect_named(files, "other/run.yaml");
}

// "none of the formats" was said of them.
TEST(YamlKinds, OtherProgramsScriptsAreNamed) {
  const OtherFile files[] = {
      {"python -m skyrl.train.main_sft strategy=fsdp model.path=Qwen/Qwen2.5-7B "
       "micro_train_batch_size_per_gpu=2 fsdp_config.cpu_offload=false\n",
       "SkyRL's SFT"},
      {"torchrun --nproc_per_node=8 -m scripts.generate.test_generate --config=llama3_8b.toml "
       "--prompt=Hi\n",
       "generates from a checkpoint"}};
  expect_named(files, "other/run.sh");
}

// "does not say which model it trains" was said of their TOML.
TEST(YamlKinds, OtherProgramsTomlIsNamed) {
  const OtherFile files[] = {
      {"[model]\nname = \"Qwen/Qwen3-0.6B\"\n\n[orchestrator]\nbatch_size = 128\n", "prime-rl"},
      {"[policy]\nmodel_name_or_path = \"Qwen/Qwen2.5-7B\"\n\n[policy.parallelism]\ntp_size = 2\n",
       "Cosmos-RL"},
      {"[model]\ndim = 8192\n\n[distributed]\ntp = 4\n", "none of torchtitan's"}};
  expect_named(files, "other/run.toml");
}

// It was "none of torchtitan's": 70B of its own multiples on 32 GPUs.
TEST(YamlKinds, KempnerForgesTomlDescribesItsModel) {
  const std::string toml =
      "[model]\ndim = 5120\nn_layers = 40\nn_heads = 40\nn_kv_heads = 8\nvocab_size = 128256\n"
      "ffn_dim_multiplier = 1.3\nmax_seq_len = 4096\n\n[train]\nbatch_size = 2\nseq_len = 4096\n"
      "grad_accum_steps = 4\ncompile_model = false\nactivation_checkpointing = \"full\"\n\n"
      "[distributed]\ndp_shard = 8\ntp = 4\n";
  const Checked read = check(written("forge/13b.toml", toml), "--cluster dgx-h200x4");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(rules_in(read), Rules{});
  EXPECT_EQ(read.json["layout"]["tp"], 4);
  EXPECT_EQ(read.json["layout"]["fsdp"], 8);
  EXPECT_EQ(read.json["layout"]["micro_batches"], 4);
  EXPECT_EQ(read.json["layout"]["recompute"], "full");
  // 13.9 B by the program's own count (num_params_estimate)
  const double width = 17920;
  const double layer = 2.0 * 5120 * 5120 + 2.0 * 5120 * 1024 + 3 * 5120 * width + 2 * 5120;
  EXPECT_NEAR(read.json["estimate"]["model"]["parameters"].get<double>(),
              40 * layer + 2.0 * 128256 * 5120 + 5120, 1);
  // its experts are no loop of transformers'
  const Checked own = check(
      written("forge/moe.toml", "[model]\nnum_experts = 8\n" + toml.substr(toml.find('\n') + 1)),
      "--cluster dgx-h200x4");
  EXPECT_EQ(rules_in(own), Rules{}) << own.err;
  const Checked experts =
      check(written("forge/ep.toml", toml + "ep = 2\n"), "--cluster dgx-h200x4 --gpus 32");
  EXPECT_EQ(experts.json["verdict"], "not_known") << experts.err;
}

// Primus' YAML was refused although its overrides are Megatron-LM's arguments: false and null say
// nothing, or are a flag that begins with no_.
TEST(YamlKinds, PrimusOverridesAreMegatronsArguments) {
  const std::string primus =
      "work_group: ${PRIMUS_TEAM:amd}\nmodules:\n  pre_trainer:\n    framework: megatron\n"
      "    config: pre_trainer.yaml\n    model: llama3.1_8B.yaml\n    overrides:\n"
      "      micro_batch_size: ${PRIMUS_MBS:2}\n      global_batch_size: 128\n"
      "      seq_length: 8192\n      lr_decay_iters: null\n      tensor_model_parallel_size: 2\n"
      "      pipeline_model_parallel_size: 1\n      overlap_grad_reduce: true\n"
      "      gradient_accumulation_fusion: false\n      mock_data: true\n";
  const Checked read = check(written("primus/8b.yaml", primus), "--cluster mi300xx1");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["format"], "megatron");
  EXPECT_EQ(read.json["estimate"]["model"]["name"], "llama-3.1-8b");
  EXPECT_EQ(read.json["layout"]["tp"], 2);
  EXPECT_EQ(read.json["layout"]["fsdp"], 4);
  EXPECT_EQ(read.json["layout"]["micro_batch"], 2);
  EXPECT_EQ(read.json["layout"]["sharding"], "optimizer");  // pre_trainer.yaml's own
  EXPECT_EQ(read.json["estimate"]["global_batch"], 128);
  EXPECT_EQ(rules_in(read), Rules{});
  // with the repository around it the model is its file's
  written("primus/whole/.git/HEAD", "ref: refs/heads/main\n");
  written("primus/whole/primus/configs/models/megatron/base.yaml",
          "swiglu: true\nadd_bias_linear: false\nuntie_embeddings_and_output_weights: true\n"
          "position_embedding_type: rope\nnormalization: RMSNorm\nnum_query_groups: null\n");
  written("primus/whole/primus/configs/models/megatron/llama3.1_8B.yaml",
          "extends:\n  - base.yaml\nnum_layers: 4\nhidden_size: 4096\nffn_hidden_size: 14336\n"
          "num_attention_heads: 32\n");
  const Checked own = check(written("primus/whole/examples/8b.yaml", primus), "--cluster mi300xx1");
  ASSERT_TRUE(own.json.is_object()) << own.err;
  EXPECT_LT(own.json["estimate"]["model"]["parameters"].get<double>(), 3e9);
}

// What Primus' own files set was kept where the run says false: its FSDP2 runs were refused for the
// distributed optimizer and for one connection, which Primus raises to 8 (env_patches.py).
TEST(YamlKinds, TheLastOfPrimusArgumentsHolds) {
  const std::string primus =
      "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
      "    model: llama2_70B.yaml\n    overrides:\n      micro_batch_size: 7\n"
      "      global_batch_size: 56\n      seq_length: 4096\n      use_torch_fsdp2: true\n"
      "      use_distributed_optimizer: false\n      gradient_accumulation_fusion: false\n"
      "      eval_iters: 10\n      recompute_granularity: full\n      recompute_method: block\n"
      "      recompute_num_layers: 80\n      cross_entropy_fusion_impl: \"te\"\n"
      "      cross_entropy_loss_fusion: true\n";
  const Checked read = check(written("primus/fsdp2.yaml", primus), "--cluster mi300xx1");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["sharding"], "full");
  // a warning: Primus comes with a Megatron-LM of its own
  EXPECT_EQ(rules_in(read), Rules{"warning cross-entropy fusion of TE"});
  EXPECT_EQ(read.code, 0);
}

// With the repository around it a file of Mamba's dimensions was a transformer that fits, and lists
// of a number for each layer were no whole number.
TEST(YamlKinds, PrimusListsAndOtherModelsAreWhatTheyAre) {
  written("primus/kinds/.git/HEAD", "ref: refs/heads/main\n");
  const std::string model =
      "num_layers: 4\nhidden_size: 1024\nnum_attention_heads: 16\nffn_hidden_size: 4096\n"
      "swiglu: true\nvocab_size: 32000\nposition_embedding_type: rope\n";
  written("primus/kinds/primus/configs/models/megatron/mamba.yaml", "model_type: mamba\n" + model);
  written("primus/kinds/primus/configs/models/megatron/windows.yaml",
          "model_type: gpt\nwindow_size: [127, 0]\nwindow_attn_skip_freq: [0, 1, 0, 1]\n" + model);
  const auto run = [](const std::string& name) {
    return check(written("primus/kinds/examples/" + name,
                         "modules:\n  pre_trainer:\n    framework: megatron\n    model: " + name +
                             "\n    overrides:\n      seq_length: 4096\n"
                             "      global_batch_size: 8\n"),
                 "--cluster mi300xx1");
  };
  const Checked mamba = run("mamba.yaml");
  EXPECT_EQ(mamba.code, 2);
  EXPECT_NE(mamba.err.find("Mamba"), std::string::npos) << mamba.err;
  const Checked windows = run("windows.yaml");
  ASSERT_TRUE(windows.json.is_object()) << windows.err;
  EXPECT_EQ(rules_in(windows), Rules{});
}

// The first 0 layers of each stage: "a whole number from 1" was asked for.
TEST(YamlKinds, BlocksOfNoLayersRecomputeNothing) {
  const std::string primus =
      "modules:\n  pre_trainer:\n    framework: megatron\n    model: llama3.1_8B.yaml\n"
      "    overrides:\n      seq_length: 4096\n      global_batch_size: 64\n"
      "      recompute_granularity: full\n      recompute_method: block\n"
      "      recompute_num_layers: 0\n";
  const Checked read = check(written("primus/block.yaml", primus), "--cluster mi300xx1");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["recompute"], "none");
  EXPECT_EQ(rules_in(read), Rules{});
}

// It was refused with a hint to write torchtitan's TOML; Primus recomputes nothing and compiles
// unless the run says otherwise.
TEST(YamlKinds, PrimusOverridesAreTorchtitansSettings) {
  const std::string primus =
      "work_group: amd\nmodules:\n  pre_trainer:\n    framework: torchtitan\n"
      "    config: pre_trainer.yaml\n    model: llama3.1_8B.yaml\n    overrides:\n"
      "      training:\n        local_batch_size: ${PRIMUS_MBS:2}\n        seq_len: 8192\n"
      "        mock_data: false\n      parallelism:\n        tensor_parallel_degree: 2\n"
      "      primus_turbo:\n        enable_primus_turbo: true\n";
  const std::string host = "--cluster mi300xx1";
  const Checked read = check(written("primus/titan.yaml", primus), host);
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["format"], "torchtitan");
  EXPECT_EQ(read.json["estimate"]["model"]["name"], "llama-3.1-8b");
  EXPECT_EQ(read.json["layout"]["tp"], 2);
  EXPECT_EQ(read.json["layout"]["fsdp"], 4);
  EXPECT_EQ(read.json["layout"]["micro_batch"], 2);
  EXPECT_EQ(read.json["layout"]["recompute"], "none");
  EXPECT_EQ(rules_in(read), Rules{});
  const Checked more = check(written("primus/titan_full.yaml",
                                     primus + "      activation_checkpoint:\n        mode: full\n"),
                             host);
  EXPECT_EQ(more.json["layout"]["recompute"], "full") << more.err;
  // with the repository around it the model is its file's
  written("primus/titans/.git/HEAD", "ref: refs/heads/main\n");
  written("primus/titans/primus/configs/models/torchtitan/llama3.1_8B.yaml",
          "model:\n  name: llama3\n  flavor: 70B\n  converters:\n    - primus_turbo\n");
  const Checked own = check(written("primus/titans/examples/a.yaml", primus), host);
  ASSERT_TRUE(own.json.is_object()) << own.err;
  EXPECT_EQ(own.json["violations"].dump().find("primus_turbo"), std::string::npos);
  EXPECT_EQ(own.json["estimate"]["model"]["name"], "llama-3.1-70b");
}

// FlagScale's train configurations were "NeMo's YAML".
TEST(YamlKinds, FlagScalesSectionsAreMegatronsArguments) {
  const Checked read =
      check(written("flagscale/7b.yaml",
                    "system:\n  tensor_model_parallel_size: 2\n  disable_bias_linear: True\n"
                    "  use_distributed_optimizer: True\n  precision:\n    bf16: True\n"
                    "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
                    "  seq_length: 2048\n  max_position_embeddings: 2048\n"
                    "  use_rotary_position_embeddings: true\n  swiglu: true\n"
                    "  normalization: RMSNorm\n  untie_embeddings_and_output_weights: true\n"
                    "  micro_batch_size: 2\n  global_batch_size: 64\ndata:\n"
                    "  data_path: ${data_path:??}\n  tokenizer:\n    vocab_size: 32000\n"),
            "--cluster dgx-a100-80gbx1");
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_GT(read.json["estimate"]["model"]["parameters"].get<double>(), 6e9);
  EXPECT_EQ(read.json["layout"]["tp"], 2);
  EXPECT_EQ(read.json["layout"]["fsdp"], 4);
  EXPECT_EQ(read.json["layout"]["micro_batches"], 8);
}

// A preset or its config.json was asked for, which would have been refused: what such models have
// is named at once.
TEST(YamlKinds, FamiliesThatCannotBeDescribedAreNamed) {
  const std::pair<const char*, const char*> models[] = {
      {"Qwen/Qwen3.5-9B", "linear attention"},
      {"Qwen/Qwen3-Next-80B-A3B-Instruct", "linear attention"},
      {"google/gemma-4-31B-it", "another width"},
      {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Mamba"},
      {"zai-org/GLM-5", "sparse attention"}};
  for (const auto& [model, part] : models) {
    const Checked refused = check(
        written("families/run.yaml", std::string("model_name_or_path: ") + model +
                                         "\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\n"),
        "--cluster dgx-h100x1");
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
  }
  const Checked glm = check(written("families/glm.yaml",
                                    "model_name_or_path: zai-org/GLM-4.6\nstage: "
                                    "sft\nfinetuning_type: lora\ncutoff_len: 64\n"),
                            "--cluster dgx-h100x1");
  EXPECT_EQ(glm.json["estimate"]["model"]["name"], "glm-4.5") << glm.err;
}

}  // namespace
}  // namespace trireme::tools
