// Command lines of programs around Megatron-LM, and what `check` says beside the rules.
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

// megatron sft … shards the optimizer, recomputes and sets its variable unless told; adapters were
// taken for the whole weights, and 235B on one node for a job that does not fit.
TEST(CheckPrograms, SwiftSetsItsOwnDefaults) {
  const std::string start = "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B ";
  const Checked plain =
      check(written("swift_defaults.sh", start + "--tensor_model_parallel_size 2 --max_length 4096 "
                                                 "--recompute_granularity none\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(plain), Rules{}) << plain.err;
  EXPECT_EQ(plain.json.at("layout").at("sharding"), "optimizer");
  const Checked adapters =
      check(written("swift_lora.sh",
                    start + "--tuner_type lora --lora_rank 16 --tensor_model_parallel_size 4 "
                            "--sequence_parallel true --max_length 2048 --micro_batch_size 8\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(adapters), Rules{});
  // 3.4 GiB of it: three bytes of each input behind dropout where two were kept
  EXPECT_LT(adapters.json.at("estimate").at("memory").at("peak_allocated_gib").get<double>(), 36);
  const Checked other =
      check(written("swift_unknown.sh",
                    "megatron sft --model Some/New-9B --tensor_model_parallel_size 2"),
            "--cluster dgx-h100x1");
  EXPECT_NE(other.err.find("Some/New-9B"), std::string::npos) << other.err;
}

// Megatron-DeepSpeed's own flags were errors, its Ulysses was lost and its experts stood in every
// layer.
TEST(CheckPrograms, MegatronDeepspeedsOwnFlagsAreRead) {
  const std::string start = "deepspeed --num_gpus 8 pretrain_gpt.py " + kGpt + "--deepspeed ";
  const Checked grouped =
      check(written("mds_groups.sh", start + "--num-key-value-heads 4\n"), "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(grouped), Rules{}) << grouped.err;
  // 1.3e9 less 24 layers x 2 x 2048 x (2048 - 4 x 128)
  EXPECT_NEAR(grouped.json["estimate"]["model"]["parameters"].get<double>(), 1.17e9, 0.03e9);
  const Checked ulysses =
      check(written("mds_ulysses.sh", start + "--ds-sequence-parallel-size 8 --global-batch-size 2 "
                                              "--use-flash-attn-v2\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(ulysses.json.at("layout").at("cp"), 8);
  const Checked experts =
      check(written("mds_experts.sh", start + "--num-experts 8 --topk 1 --moe-loss-coeff 0.01 "
                                              "--moe-expert-parallel-size 8 --mlp-type standard\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(experts), Rules{}) << experts.err;
  // 12 of 24 layers: 1.3e9 + 12 layers x 7 experts x 8 x 2048^2 = 4.1e9
  EXPECT_NEAR(experts.json["estimate"]["model"]["parameters"].get<double>(), 4.13e9, 0.1e9);
  const Checked dense =
      check(written("mds_dense.sh", start + "--num-experts 1\n"), "--cluster dgx-h100x1");
  EXPECT_EQ(dense.json["estimate"]["model"]["name"], "gpt3-1.3b");
}

// Programs of Megatron-LM that train no decoder were answered as GPT-2.
TEST(CheckPrograms, OtherModelsThanDecodersAreRefusedByName) {
  for (const char* program : {"pretrain_t5.py", "pretrain_retro.py", "examples/pretrain_ict.py"}) {
    const Checked answer =
        check(written("other.sh", std::string("torchrun ") + program + " " + kGpt + "\n"),
              "--cluster dgx-h100x1");
    EXPECT_EQ(answer.code, 2) << program;
    EXPECT_NE(answer.err.find("does not describe"), std::string::npos) << answer.err;
  }
}

// Layers of linear attention were counted as the softmax's, and fitted.
TEST(CheckPrograms, SettingsThatMakeAnotherModelWithholdTheVerdict) {
  const std::string start = "torchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt;
  for (const char* flags :
       {"--experimental-attention-variant gated_delta_net", "--attention-output-gate",
        "--heterogeneous-layers-config-path blocks.json", "--moe-latent-size 1024"}) {
    const Checked answer =
        check(written("foreign.sh", start + flags + "\n"), "--cluster dgx-h100x1");
    EXPECT_EQ(answer.json.at("verdict"), "not_known") << flags << answer.err;
    EXPECT_NE(answer.json.value("verdict_reason", "").find(flags), std::string::npos);
  }
  const Checked none =
      check(written("foreign.sh", start + "--moe-latent-size None\n"), "--cluster dgx-h100x1");
  EXPECT_EQ(none.json.at("verdict"), "fits");
}

// 32 layers of 4096 at 16384 tokens: 32 that recompute as one unit keep what all of them keep.
TEST(CheckPrograms, LayersThatRecomputeTogetherAreOneUnit) {
  const auto script = [](const std::string& layers) {
    return written("uniform.sh",
                   "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 "
                   "pretrain_gpt.py --bf16 --num-layers 32 --hidden-size 4096 "
                   "--num-attention-heads 32 --seq-length 16384 --max-position-embeddings "
                   "16384 --micro-batch-size 2 --global-batch-size 64 --swiglu "
                   "--disable-bias-linear --vocab-size 32000 --use-distributed-optimizer "
                   "--untie-embeddings-and-output-weights --tensor-model-parallel-size 2 "
                   "--sequence-parallel --recompute-granularity full --recompute-method "
                   "uniform --recompute-num-layers " +
                       layers + "\n");
  };
  EXPECT_EQ(check(script("1"), "--cluster dgx-h100x1").json.at("verdict"), "fits");
  EXPECT_EQ(check(script("32"), "--cluster dgx-h100x1").json.at("verdict"), "not_known");
  // The band of single layers lies below the card: no risk is said of it.
  const std::string text = run_words("check " + script("32") + " --cluster dgx-h100x1").out;
  EXPECT_NE(text.find("not known whether it fits"), std::string::npos) << text;
  EXPECT_EQ(text.find("at risk:"), std::string::npos) << text;
}

// "fits" was said of 4-bit weights trained whole, of DPO's two models, of frozen layers and of
// context parallelism, all as if the weights of one model were trained.
TEST(CheckPrograms, WhatATrainerTrainsOtherwiseWithholdsTheVerdict) {
  written("tuned/.git/HEAD", "ref: refs/heads/main\n");
  written("tuned/z3.json",
          R"({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
              "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})");
  const auto verdict = [](const char* name, const std::string& start, const std::string& more) {
    return check(written(std::string("tuned/") + name, start + more), "--cluster dgx-h100x1")
        .json.value("verdict", "");
  };
  const std::string factory =
      "model_name_or_path: meta-llama/Llama-3.1-8B\ndo_train: true\ndeepspeed: z3.json\n"
      "cutoff_len: 4096\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
      "bf16: true\n";
  const std::string axolotl =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\n"
      "gradient_accumulation_steps: 8\nbf16: auto\ndeepspeed: z3.json\n";
  EXPECT_EQ(verdict("sft.yaml", factory, "stage: sft\nfinetuning_type: lora\n"), "fits");
  EXPECT_EQ(verdict("plain.yaml", axolotl, "adapter: lora\nload_in_4bit: false\n"), "fits");
  EXPECT_EQ(
      verdict("four.yaml", factory, "stage: sft\nfinetuning_type: lora\nquantization_bit: 4\n"),
      "fits");
  for (const char* more :
       {"stage: ppo\nfinetuning_type: full\n", "stage: sft\nfinetuning_type: freeze\n"}) {
    EXPECT_EQ(verdict("other.yaml", factory, more), "not_known") << more;
  }
  EXPECT_EQ(verdict("q.yaml", axolotl, "adapter: qlora\nload_in_4bit: true\n"), "fits");
  for (const char* more : {"load_in_4bit: true\n", "rl: grpo\n", "adapter: dora\n",
                           "context_parallel_size: 2\n", "tensor_parallel_size: 2\n"}) {
    EXPECT_EQ(verdict("another.yaml", axolotl, more), "not_known") << more;
  }
}

// LLaMA-Factory's and axolotl's files and command lines were refused, although they say the model,
// the lengths and the DeepSpeed file.
TEST(CheckPrograms, RunsOfTheTrainerThatNameADeepspeedFile) {
  written("trainer/.git/HEAD", "ref: refs/heads/main\n");
  written("trainer/ds_z3.json",
          R"({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
              "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})");
  const Checked script = check(
      written("trainer/scripts/run.sh",
              "deepspeed --num_gpus 8 src/train.py --deepspeed ds_z3.json --model_name_or_path "
              "Qwen/Qwen2.5-7B --finetuning_type full --cutoff_len 4096 "
              "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16\n"),
      "--cluster dgx-a100-80gbx2");
  ASSERT_EQ(script.code, 0) << script.err;
  EXPECT_EQ(script.json.at("layout").at("micro_batch"), 2);
  EXPECT_EQ(script.json.at("layout").at("fsdp"), 8);
  EXPECT_EQ(script.json["estimate"]["model"]["name"], "qwen2.5-7b");
  EXPECT_EQ(script.json["layout"]["recompute"], "full");  // LLaMA-Factory's own default
  const Checked yaml =
      check(written("trainer/axolotl.yaml",
                    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 2048\nadapter: lora\n"
                    "lora_r: 16\nmicro_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: auto\n"
                    "gradient_checkpointing: true\ndeepspeed: ds_z3.json\n"),
            "--cluster dgx-a100-80gbx1");
  ASSERT_EQ(yaml.code, 0) << yaml.err;
  EXPECT_EQ(yaml.json.at("layout").at("micro_batch"), 4);
  EXPECT_EQ(yaml.json["estimate"]["model"]["name"], "llama-2-7b");
  const Checked missing =
      check(written("trainer/none.yaml", "finetuning_type: lora\ndeepspeed: examples/ds_z9.json\n"),
            "--cluster dgx-a100-80gbx1");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("none.yaml:2: examples/ds_z9.json of LLaMA-Factory"),
            std::string::npos)
      << missing.err;
}

TEST(CheckPrograms, FilesOfOtherProgramsAreNamedAsTheirs) {
  const std::pair<const char*, std::pair<const char*, const char*>> files[] = {
      {"registry.py",
       {"def f():\n  return Trainer.Config(parallelism=ParallelismConfig())\n",
        "torchtitan's configuration in Python"}},
      {"primus.yaml",
       {"modules:\n  pre_trainer:\n    framework: megatron_bridge\n    overrides:\n"
        "      tensor_model_parallel_size: 1\n",
        "Primus"}},
      {"automodel.yaml",
       {"model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM\n"
        "distributed:\n  strategy: fsdp2\n",
        "NeMo Automodel"}},
      {"recipe.yaml",
       {"model_name_or_path: Qwen/Qwen2.5-7B\nlearning_rate: 1e-5\n",
        "a recipe of transformers' Trainer"}},
      {"neox.yml", {"{\"pipe_parallel_size\": 1, \"model_parallel_size\": 1}\n", "GPT-NeoX"}},
      {"verl.sh",
       {"python3 -m verl.trainer.main_ppo "
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4\n",
        "verl"}},
      {"fsdp.sh", {"torchrun train.py --fsdp \"full_shard auto_wrap\"\n", "its --fsdp"}}};
  for (const auto& [name, file] : files) {
    const Checked answer = check(written(name, file.first), "--cluster dgx-h100x1");
    EXPECT_EQ(answer.code, 2) << name;
    EXPECT_NE(answer.err.find(file.second), std::string::npos) << name << ": " << answer.err;
  }
}

// A program that has flags of its own beside Megatron-LM's was told that its parser refuses them.
TEST(CheckPrograms, FlagsOfOtherProgramsAreNoErrors) {
  const Checked answer = check(
      written("own.sh", "torchrun --nproc_per_node 8 train_llava.py " + kGpt + "--patch-size 14\n"),
      "--cluster dgx-h100x1");
  for (const std::string& rule : rules_in(answer)) {
    EXPECT_TRUE(rule.starts_with("warning")) << rule;
  }
  const Checked megatrons =
      check(written("megatrons.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt +
                                        "--tensor-parallel-size 2\n"),
            "--cluster dgx-h100x1");
  ASSERT_FALSE(rules_in(megatrons).empty());
  EXPECT_EQ(rules_in(megatrons).front(), "error flags that Megatron-LM knows");
}

// Values that stand in other lines than their flags were put before them.
TEST(CheckPrograms, GroupsOfArgumentsThatAreNeverStartedStayTogether) {
  const Checked answer =
      check(written("group.sh",
                    "MB=${MB:-2}\nMODEL_ARGS=(\n --micro-batch-size $MB\n --num-layers 24\n"
                    " --hidden-size 2048 --num-attention-heads 16 --seq-length 2048\n"
                    " --max-position-embeddings 2048 --vocab-size 51200 --bf16\n)\n"),
            "--format megatron --cluster dgx-h100x1");
  EXPECT_EQ(rules_in(answer), Rules{}) << answer.err;
  EXPECT_EQ(answer.json.at("layout").at("micro_batch"), 2);
}

// A sibling of the script's folder is read where both lie in one repository, and named else.
TEST(CheckPrograms, FilesOfTheRepositoryAreRead) {
  written("repository/.git/HEAD", "ref: refs/heads/main\n");
  written("repository/models/y.sh",
          "MODEL_ARGS=(--num-layers 24 --hidden-size 2048 "
          "--num-attention-heads 16)\n");
  const std::string text =
      "source \"$(dirname $0)/../models/y.sh\"\ntorchrun --nproc_per_node 8 pretrain_gpt.py "
      "${MODEL_ARGS[@]} --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 "
      "--bf16\n";
  const Checked inside = check(written("repository/runs/run.sh", text), "--cluster dgx-h100x1");
  EXPECT_EQ(inside.json["estimate"]["model"]["name"], "gpt3-1.3b") << inside.err;
  std::string elsewhere = text;
  elsewhere.replace(elsewhere.find("$(dirname $0)/.."), 16, "/workspace/project");
  const Checked moved =
      check(written("repository/runs/moved.sh", elsewhere), "--cluster dgx-h100x1");
  EXPECT_EQ(moved.json["estimate"]["model"]["name"], "gpt3-1.3b") << moved.err;
  const Checked outside = check(written("runs/run.sh", text), "--cluster dgx-h100x1");
  EXPECT_EQ(outside.code, 2);
  EXPECT_NE(outside.err.find("models/y.sh"), std::string::npos) << outside.err;
}

TEST(CheckPrograms, ListsOfLayersAreWorkedOutAsPythonWould) {
  for (const char* list : {"'([1]*1+[0]*1)*12'", "'([0]+[1])*12'", "2"}) {
    const Checked answer = check(
        written("list.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt +
                               "--num-experts 8 --moe-ffn-hidden-size 8192 --moe-layer-freq " +
                               list + "\n"),
        "--cluster dgx-h100x1");
    EXPECT_NEAR(answer.json["estimate"]["model"]["parameters"].get<double>(), 4.13e9, 0.1e9)
        << list << answer.err;
  }
}

// What only costs time was never named: recompute where all fits without, offload likewise.
TEST(CheckPrograms, WhatIsNotNeededIsNamed) {
  const Checked recomputes =
      check(written("recomputes.sh",
                    "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 "
                    "pretrain_gpt.py " +
                        kGpt +
                        "--use-distributed-optimizer --recompute-granularity full "
                        "--recompute-method uniform --recompute-num-layers 1\n"),
            "--cluster dgx-h100x1");
  EXPECT_NE(recomputes.json.at("switches").dump().find("without --recompute-granularity"),
            std::string::npos);
  const Checked offloads = check(
      written("offloads.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})"),
      "--cluster dgx-h100x1 --model llama-3.2-1b");
  EXPECT_NE(offloads.json.at("switches").dump().find("offload_optimizer"), std::string::npos);
  const Checked misspelt = check(
      written("misspelt.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "zero_optimisation": {"stage": 2}})"),
      "--cluster dgx-h100x1 --model llama-3.2-1b");
  EXPECT_EQ(rules_in(misspelt).front(), "error keys that DeepSpeed has");
}

// Megatron's fused loss was taken for Transformer Engine's, on the 16-bit logits: ten scripts of
// ms-swift, whose default is the native one, took 5 to 20 GiB more than they were told. Without
// pipelines and with one vocabulary's share, logits are 16384 x 151936.
TEST(CheckPrograms, TheFusedLossIsMegatronsOwnUnlessTransformerEnginesIsSaid) {
  const std::string start =
      "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B "
      "--max_length 16384 --recompute_granularity full "
      "--recompute_method uniform --recompute_num_layers 1 ";
  const auto logits = [&](const std::string& loss) {
    return check(written("swift_loss.sh", start + loss + "\n"), "--cluster dgx-h100x1")
        .json.at("estimate")
        .at("memory")
        .at("breakdown_gib")
        .at("logits")
        .get<double>();
  };
  const double elements = 16384.0 * 152064 / (1024.0 * 1024 * 1024);
  EXPECT_NEAR(logits(""), 12 * elements, 0.5);
  EXPECT_NEAR(logits("--cross_entropy_fusion_impl native"), 12 * elements, 0.5);
  const std::string engine = "--cross_entropy_fusion_impl te";
  EXPECT_LT(logits(engine), 3 * elements);
}

// TRL's million tokens ran in 56 GB: its loss never has all logits, which accelerate's file does
// not say, and 275 GiB of logits were a "no".
TEST(CheckPrograms, ALossThatATrainerMayComputeInPartsDecides) {
  const std::string file = written("cp8.yaml",
                                   "distributed_type: FSDP\nmixed_precision: bf16\n"
                                   "num_machines: 1\nnum_processes: 8\nfsdp_config:\n"
                                   "  fsdp_version: 2\n  fsdp_activation_checkpointing: true\n"
                                   "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                                   "  fsdp_reshard_after_forward: true\n"
                                   "parallelism_config:\n"
                                   "  parallelism_config_dp_shard_size: 1\n"
                                   "  parallelism_config_cp_size: 8\n");
  const std::string job =
      "--cluster dgx-h100x1 --model qwen3-8b --seq 1048576 --micro-batch 1 "
      "--global-batch 1";
  const Checked open = check(file, job);
  EXPECT_EQ(open.json.at("verdict"), "not_known") << open.err;
  EXPECT_NE(open.json.at("verdict_reason").get<std::string>().find("loss_chunks"),
            std::string::npos);
  EXPECT_NE(check(file, job + " --set loss_chunks=64").json.at("verdict"), "no");
  // Without room for the states no loss helps.
  EXPECT_EQ(check(file,
                  "--cluster dgx-h100x1 --model llama-3.1-405b --seq 8192 --micro-batch 1 "
                  "--global-batch 1")
                .json.at("verdict"),
            "no");
}

// ZeRO-2 of a 14B model ran in what was taken for 0.4 GiB too little, and was told that it would
// not.
TEST(CheckPrograms, NearTheEdgeARecomputeThatIsOpenDecides) {
  const std::string file =
      written("edge.json", R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true},
        "train_micro_batch_size_per_gpu": 1})");
  const Checked open = check(file, "--cluster dgx-h100x1 --model qwen2.5-14b --seq 8192");
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_EQ(open.json.at("verdict"), "not_known");
  const Checked none =
      check(file, "--cluster dgx-h100x1 --model qwen2.5-14b --seq 8192 --recompute none");
  EXPECT_EQ(none.code, 1);
}

TEST(CheckPrograms, AModelOfASizeOnlyIsTakenByItsSize) {
  const Checked debug =
      check(written("debug.toml",
                    "[model]\nname = \"deepseek_v3\"\nflavor = \"debugmodel\"\n[training]\n"
                    "local_batch_size = 1\n[parallelism]\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(debug.code, 2);  // it was read as the model of 671B
  EXPECT_NE(debug.err.find("deepseek_v3 debugmodel"), std::string::npos) << debug.err;
}

TEST(CheckPrograms, ASequenceBeyondTheModelsLongestIsNamed) {
  const Checked longer = check(written("longer.toml",
                                       "[model]\nname = \"qwen3\"\nflavor = \"1.7B\"\n[training]\n"
                                       "local_batch_size = 1\nseq_len = 131072\n[parallelism]\n"),
                               "--cluster dgx-h100x1");
  EXPECT_TRUE(remarks_have(longer, "more than the longest sequence"));
}

TEST(CheckPrograms, ConfigurationsOfTrainersAreNamed) {
  const Checked axolotl = check(written("axolotl.yaml",
                                        "base_model: meta-llama/Llama-3.1-8B\nfsdp_config:\n"
                                        "  fsdp_version: 2\nlearning_rate: 2e-5\n"),
                                "--cluster dgx-h100x1");
  EXPECT_EQ(axolotl.code, 2);  // neither its lengths nor its batch stand there
  EXPECT_NE(axolotl.err.find("axolotl"), std::string::npos) << axolotl.err;
  EXPECT_NE(axolotl.err.find("--model meta-llama/Llama-3.1-8B"), std::string::npos);
  struct Other {
    const char *name, *text, *said;
  };
  for (const Other& other :
       {Other{"sft.yaml",
              "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: full\n"
              "deepspeed: ds_z3.json\nper_device_train_batch_size: 1\n",
              "LLaMA-Factory"},
        Other{"nemo.yaml", "model:\n  tensor_model_parallel_size: 4\n",
              "does not say which model it trains"},  // read, without the recipe
        Other{"nemo.py",
              "import nemo_run\nrecipe.trainer.strategy.tensor_model_parallel_size = 4\n",
              "NeMo 2's"},
        Other{"train.py",
              "from transformers import TrainingArguments\n"
              "args = TrainingArguments(output_dir='o', bf16=True, fsdp='full_shard')\n",
              "transformers' Trainer"},
        Other{"launch.sh", "accelerate launch --config_file fsdp.yaml train.py --bf16 True\n",
              "the YAML after its --config_file"},
        Other{"zero.sh", "deepspeed --num_gpus 8 train.py --deepspeed ds.json\n",
              "the JSON after its --deepspeed"},
        Other{"titan.sh", "NGPU=8 CONFIG_FILE=./llama3_8b.toml ./run_train.sh\n",
              "the TOML of its CONFIG_FILE"}}) {
    const Checked answer = check(written(other.name, other.text), "--cluster dgx-h100x1");
    EXPECT_EQ(answer.code, 2);
    EXPECT_NE(answer.err.find(other.said), std::string::npos) << answer.err;
  }
}

// The text behind `<<EOF` was passed over: the script had no arguments at all.
TEST(CheckPrograms, HereDocumentsAreReadIntoVariables) {
  const std::string model =
      "--num-layers 24 --hidden-size 2048 --num-attention-heads 16\n--seq-length 2048 "
      "--max-position-embeddings 2048 --vocab-size 51200\n--micro-batch-size 1 --bf16\n"
      "--tensor-model-parallel-size ";
  const std::string start = "export CUDA_DEVICE_MAX_CONNECTIONS=1\nTP=2\n";
  const std::string run = "torchrun --nproc_per_node 8 pretrain_gpt.py ";
  for (const std::string& script :
       {"read -r -d '' ARGS <<'EOF'\n" + model + "2\nEOF\n" + run + "$ARGS\n",
        "IFS= read -rd '' ARGS <<EOF\n" + model + "$TP\nEOF\n" + run + "$ARGS\n",
        "mapfile -t MORE <<EOF\n--tensor-model-parallel-size=$TP\n--bf16\nEOF\n" + run + kModel +
            "\"${MORE[@]}\"\n",
        "read -r TP PP <<EOF\n2 1\n8 1\nEOF\n" + run + kGpt + "--tensor-model-parallel-size $TP\n",
        "srun sh -c \"" + run + "$(cat <<EOF | tr '\\n' ' '\n" + model + "2\nEOF\n)\"\n"}) {
    const Checked answer = check(written("here.sh", start + script), "--cluster dgx-h100x1");
    EXPECT_EQ(answer.json["layout"]["tp"], 2) << script << answer.err;
    EXPECT_EQ(rules_in(answer), Rules{}) << script;
  }
  // Text that goes elsewhere is no command.
  const Checked other =
      check(written("documents.sh",
                    start + "cat > x.txt <<EOF\n" + run + "--num-layers 99 it's $1\nEOF\n" +
                        "while read -r LINE; do echo $LINE; done <<EOF\n--num-layers 98\n"
                        "EOF\n" +
                        run + kGpt + "\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(other.json["layout"]["tp"], 1) << other.err;
  EXPECT_FALSE(remarks_have(other, "does not decide")) << other.json["remarks"];
}

// "Megatron-LM trains in fp32" was said although --bf16 may stand in what the function prints.
TEST(CheckPrograms, AFlagMayStandInWhatCouldNotBeWorkedOut) {
  const Checked answer =
      check(written("function.sh",
                    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                    "torchrun --nproc_per_node 8 pretrain_gpt.py $(./flags.py) " +
                        std::string(kModel) + "\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(answer), Rules{});
  EXPECT_TRUE(answer.json["estimate"].is_null());
}

// Fixes said "virtual_pipeline_model_parallel_size=true of 1, 2" and repeated the rule.
TEST(CheckPrograms, FixesSayWhatToWrite) {
  const Checked bridge = check(written("recipe.py",
                                       "from megatron.bridge.recipes.llama import x\n"
                                       "cfg = llama3_70b_pretrain_config()\n"
                                       "cfg.model.pipeline_model_parallel_size = 4\n"
                                       "cfg.model.virtual_pipeline_model_parallel_size = 6\n"),
                               "--cluster dgx-h100x4");
  EXPECT_EQ(fix_in(bridge, "stage layers % virtual stages"),
            "use model.virtual_pipeline_model_parallel_size=1, 2, 4, 5, 10, 20");
  const Checked pipeline =
      check(written("pipe.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                "zero_optimization": {"stage": 2}, "pipeline": {"stages": 4}})"),
            "--model llama-3.1-8b --seq 4096 --cluster dgx-h100x2");
  EXPECT_EQ(fix_in(pipeline, "framework feature"), "use zero_optimization.stage 1");
  const Checked titan = check(written("slips.toml",
                                      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                      "[paralelism]\ntensor_paralel_degree = 2\n"),
                              "--cluster dgx-h100x1");
  EXPECT_EQ(fix_in(titan, "keys that torchtitan has"), "use parallelism.tensor_parallel_degree");
}

// P02, P04 and P05 in scripts of other forms.
TEST(CheckPrograms, ScriptsOfOtherFormsAreReadAsTheShellWould) {
  const std::string batch =
      "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nCONFIGS=(\"2,2\" \"4,1\")\n"
      "IFS=, read -r TP PP <<< \"${CONFIGS[0]}\"\nset -- --num-layers 24 --hidden-size 2048\n"
      "MODEL=(\"$@\" --num-attention-heads 16 --seq-length 2048 --vocab-size 51200)\n"
      "case \"${PRECISION:-bf16}\" in\n bf16) P=--bf16 ;;\n fp8) P=\"--bf16 --fp8-format hybrid\" "
      ";;\nesac\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\nsrun --container-image=x.sqsh bash -c "
      "\"torchrun --nnodes $SLURM_JOB_NUM_NODES --nproc_per_node 8 pretrain_gpt.py ${MODEL[*]} "
      "--max-position-embeddings 2048 --micro-batch-size 1 $P --tensor-model-parallel-size $TP "
      "--pipeline-model-parallel-size $PP\"\n";
  const Checked slurm = check(written("batch.sh", "#!/bin/bash\n" + batch), "--cluster dgx-h100x2");
  EXPECT_EQ(slurm.json["layout"]["short"], "tp2.pp2.dp4.mb1.nosp") << slurm.err;
  const Checked ray =
      check(written("ray.sh",
                    "ray job submit --runtime-env-json='{\"env_vars\": "
                    "{\"CUDA_DEVICE_MAX_CONNECTIONS\": \"1\"}}' -- python3 train.py " +
                        kGpt + "--tensor-model-parallel-size 2\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(ray), Rules{});
  const Checked recipe =
      check(written("flat.sh",
                    "OV=\"model.tensor_model_parallel_size=4\ntrain.global_batch_size=128\"\n"
                    "FLAT=$(printf '%s\\n' \"$OV\" | sed 's/#.*//' | tr '\\n' ' ')\n"
                    "CMD=\"torchrun $(echo --nproc_per_node 8) run_recipe.py --recipe "
                    "llama31_8b_pretrain_config $FLAT\"\nsrun --mpi=pmix bash -c \"${CMD}\"\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(recipe.json["layout"]["tp"], 4) << recipe.err;
  EXPECT_EQ(recipe.json["layout"]["micro_batches"], 64);
}

// The one flag that saves 33 GiB a GPU was to be guessed from another layout.
TEST(CheckPrograms, StatesThatCouldBeShardedAreNamed) {
  const Checked whole =
      check(written("whole.sh",
                    "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 "
                    "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads "
                    "32 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 51200 "
                    "--micro-batch-size 1 --bf16 "
                    "--attention-dropout 0 --hidden-dropout 0\n"),
            "--cluster dgx-h100x1");
  EXPECT_NE(whole.json.at("verdict"), "fits");
  EXPECT_NE(whole.json.at("switches").dump().find("--use-distributed-optimizer"), std::string::npos)
      << whole.json.at("verdict");
}

}  // namespace
}  // namespace trireme::tools
