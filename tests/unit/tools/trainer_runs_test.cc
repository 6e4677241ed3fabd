// Runs of LLaMA-Factory, axolotl, ms-swift and scripts around transformers' Trainer that name no
// DeepSpeed file: all of them were refused ("the DeepSpeed JSON that its `deepspeed:` names … would
// be right").
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

constexpr const char* kA100s = "--cluster dgx-a100-80gbx1";

std::string factory(const std::string& more) {
  return "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\ndo_train: true\n"
         "cutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
         "bf16: true\n" +
         more;
}

std::string swift(const std::string& before, const std::string& more) {
  return before +
         " swift sft --model Qwen/Qwen2.5-7B-Instruct --torch_dtype bfloat16 "
         "--per_device_train_batch_size 1 --max_length 2048 --model_name swift-robot " +
         more + "\n";
}

TEST(TrainerRuns, FactoryWithoutDeepspeedHoldsAllOnEveryGpu) {
  const Checked lora =
      check(written("runs/lora.yaml", factory("finetuning_type: lora\nlora_rank: 8\n")), kA100s);
  ASSERT_EQ(lora.code, 0) << lora.err;
  EXPECT_EQ(lora.json["layout"]["dp"], 8);
  EXPECT_EQ(lora.json["layout"]["micro_batches"], 8);
  EXPECT_EQ(lora.json["layout"]["recompute"], "full");  // LLaMA-Factory's own default
  EXPECT_EQ(lora.json["estimate"]["model"]["name"], "qwen2.5-7b");
  EXPECT_GT(memory_of(lora), 15);  // 7.6e9 weights of 2 bytes: 14.2 GiB
  EXPECT_LT(memory_of(lora), 30);
  const Checked four = check(
      written("runs/qlora.yaml", factory("finetuning_type: lora\nquantization_bit: 4\n")), kA100s);
  ASSERT_EQ(four.code, 0) << four.err;
  EXPECT_EQ(four.json.at("verdict"), "fits") << four.json.value("verdict_reason", "");
  // 6.5e9 linear weights at half a byte instead of two: 9.1 GiB less
  EXPECT_NEAR(memory_of(lora) - memory_of(four), 9, 2.5);
}

TEST(TrainerRuns, AxolotlsFsdpIsAxolotlsRunAndNotABareFileOfAccelerate) {
  const Checked sharded =
      check(written("runs/fsdp.yaml",
                    axolotl("gradient_checkpointing: true\nfsdp_version: 2\nfsdp_config:\n"
                            "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                            "  transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
                            "  reshard_after_forward: true\n")),
            kA100s);
  ASSERT_EQ(sharded.code, 0) << sharded.err;
  EXPECT_EQ(sharded.json["layout"]["fsdp"], 8);
  EXPECT_EQ(sharded.json["layout"]["recompute"], "full");
  EXPECT_EQ(sharded.json["estimate"]["model"]["name"], "llama-3.1-8b");
  const Checked words =
      check(written("runs/words.yaml",
                    axolotl("adapter: qlora\nlora_r: 16\nload_in_4bit: true\nfsdp:\n- full_shard\n"
                            "- auto_wrap\nfsdp_config:\n  fsdp_offload_params: true\n")),
            kA100s);
  ASSERT_EQ(words.code, 0) << words.err;
  EXPECT_EQ(words.json["layout"]["fsdp"], 8);
}

// 76 GiB with all weights, moments and gradients in 16 bits; 22, 18 and 16 GiB with adapters on one
// GPU, two under ZeRO-2 and two under ZeRO-3; 10 GiB over a 4-bit base: ms-swift's own examples
// (examples/train, comments of the scripts).
TEST(TrainerRuns, SwiftsNamesForDeepspeedsFilesAndItsDefaults) {
  const Checked whole =
      check(written("runs/full.sh", swift("CUDA_VISIBLE_DEVICES=0", "--tuner_type full")), kA100s);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.json["layout"]["micro_batches"], 16);
  EXPECT_NEAR(memory_of(whole), 70, 8);
  const Checked one =
      check(written("runs/one.sh", swift("CUDA_VISIBLE_DEVICES=0", "--lora_rank 8")), kA100s);
  EXPECT_NEAR(memory_of(one), 19, 4);
  const std::string two = "NPROC_PER_NODE=2 CUDA_VISIBLE_DEVICES=0,1";
  const Checked second =
      check(written("runs/z2.sh", swift(two, "--lora_rank 8 --deepspeed zero2")), kA100s);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.json["layout"]["sharding"], "gradients");
  const Checked third = check(
      written("runs/z3.sh", swift(two, "--tuner_type full --deepspeed zero3_offload")), kA100s);
  EXPECT_EQ(third.json["layout"]["sharding"], "full") << third.err;
  EXPECT_EQ(third.json["layout"]["fsdp"], 2);
  const Checked spread =
      check(written("runs/map.sh", swift("CUDA_VISIBLE_DEVICES=0,1", "--lora_rank 8")), kA100s);
  EXPECT_EQ(spread.json.value("verdict", ""), "not_known") << spread.err;
}

// "does not say which model it trains": plugin.py was the program, and all before it its
// launcher's.
TEST(TrainerRuns, APythonFileBehindAFlagIsNoProgram) {
  const Checked run =
      check(written("runs/plugin.sh",
                    "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-3B-Instruct "
                    "--external_plugins examples/plugin.py --per_device_train_batch_size 2 "
                    "--gradient_accumulation_steps 4 --deepspeed zero2 --max_length 2048\n"),
            kA100s);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json["estimate"]["model"]["name"], "qwen2.5-3b");
  EXPECT_EQ(run.json["layout"]["fsdp"], 8);
}

// A map where the file's name would stand was passed over: the run was taken for DDP.
TEST(TrainerRuns, DeepspeedsSettingsWithinTheRunAreThoseOfAFile) {
  const std::string full = factory("finetuning_type: full\n");
  const Checked file =
      check(written("runs/file.yaml", full + "deepspeed: ds_z3_offload_config.json\n"), kA100s);
  const Checked map = check(written("runs/map.yaml", full + "deepspeed:\n  zero_optimization: "
                                                            "{stage: 3, offload_optimizer: "
                                                            "{device: cpu}, offload_param: "
                                                            "{device: cpu}}\n"),
                            kA100s);
  const Checked words = check(
      written("runs/words.sh",
              swift("NPROC_PER_NODE=8", "--deepspeed '{\"zero_optimization\": {\"stage\": 3}}'")),
      kA100s);
  ASSERT_EQ(file.code, 0) << file.err;
  ASSERT_EQ(map.code, 0) << map.err;
  ASSERT_EQ(words.code, 0) << words.err;
  EXPECT_EQ(map.json["layout"], file.json["layout"]);
  EXPECT_EQ(memory_of(map), memory_of(file));
  EXPECT_EQ(words.json["layout"]["sharding"], "full");
}

// 32B whole at 32k tokens under FSDP: out of memory on 8 H100, as issue 13 of simplescaling/s1
// says, and run on 16.
TEST(TrainerRuns, FsdpOfTrainingArgumentsWithItsFile) {
  written("s1/.git/HEAD", "ref: refs/heads/main\n");
  written("s1/train/qwen.json", R"({"transformer_layer_cls_to_wrap": "Qwen2DecoderLayer"})");
  const std::string script =
      written("s1/train/sft.sh",
              "torchrun --nproc-per-node ${count} train/sft.py --block_size=32768 "
              "--per_device_train_batch_size=1 --gradient_accumulation_steps=1 "
              "--model_name=Qwen/Qwen2.5-32B-Instruct --fsdp=\"full_shard auto_wrap\" "
              "--fsdp_config=\"train/qwen.json\" --bf16=True --gradient_checkpointing=True\n");
  const Checked eight = check(script, "--cluster dgx-h100x1 --gpus 8");
  ASSERT_TRUE(eight.json.is_object()) << eight.err;
  EXPECT_EQ(eight.json["layout"]["fsdp"], 8);
  EXPECT_EQ(eight.json["estimate"]["model"]["name"], "qwen2.5-32b");
  EXPECT_GT(memory_of(eight), 80);
}

TEST(TrainerRuns, ScriptsThatStartAYamlAreThatYaml) {
  written("named/.git/HEAD", "ref: refs/heads/main\n");
  written("named/examples/lora.yaml", factory("finetuning_type: lora\nlora_rank: 8\n"));
  const Checked four =
      check(written("named/run.sh",
                    "CUDA_VISIBLE_DEVICES=0,1,2,3 llamafactory-cli train examples/lora.yaml\n"),
            kA100s);
  ASSERT_EQ(four.code, 0) << four.err;
  EXPECT_EQ(four.json["layout"]["dp"], 4);
}

TEST(TrainerRuns, ArgumentsOverrideWhatTheRunSays) {
  const std::string path = written("runs/over.yaml", factory("finetuning_type: lora\n"));
  const Checked usual = check(path, kA100s);
  const Checked longer =
      check(path, std::string(kA100s) + " -- cutoff_len=8192 per_device_train_batch_size=2");
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(longer.json["layout"]["micro_batch"], 2);
  EXPECT_GT(memory_of(longer), memory_of(usual) + 4);
}

// "Does not fit" was said of ms-swift's own example (examples/megatron/sft.sh: two GPUs of 80 GiB):
// --max_length is the longest sample's, and nothing is packed.
TEST(TrainerRuns, UnpackedSamplesAreNotRefusedForTheLongestOne) {
  const std::string start =
      "NPROC_PER_NODE=2 megatron sft --model Qwen/Qwen2.5-7B-Instruct "
      "--tensor_model_parallel_size 2 --sequence_parallel true --micro_batch_size 16 "
      "--global_batch_size 16 --max_length 2048 --recompute_granularity full "
      "--recompute_method uniform --recompute_num_layers 1";
  const Checked open = check(written("runs/mega.sh", start + "\n"), kA100s);
  EXPECT_EQ(open.json.value("verdict", ""), "not_known") << open.err;
  EXPECT_NE(open.json.value("verdict_reason", "").find("packed"), std::string::npos);
  const Checked packed = check(written("runs/packed.sh", start + " --packing true\n"), kA100s);
  EXPECT_EQ(packed.json.value("verdict", ""), "no") << packed.err;
  EXPECT_FALSE(remarks_have(packed, "samples are not packed"));
}

// ms-swift's and TRL's adapters have dropout unless told, LLaMA-Factory's and axolotl's none: it
// was none in all.
TEST(TrainerRuns, DropoutBeforeAdaptersIsTheProgramsOwn) {
  const auto seconds = [](const std::string& name, const std::string& text) {
    const Checked answer = check(written("dropout/" + name, text), kA100s);
    EXPECT_EQ(answer.code, 0) << answer.err;
    return answer.json.at("estimate").at("time").at("step_seconds").get<double>();
  };
  const std::string swift =
      "NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora "
      "--max_length 2048 --deepspeed zero2 --packing true";
  EXPECT_EQ(seconds("a.sh", swift + "\n"), seconds("b.sh", swift + " --lora_dropout 0.05\n"));
  EXPECT_GT(seconds("a.sh", swift + "\n"), seconds("b.sh", swift + " --lora_dropout 0\n"));
  const std::string one = "finetuning_type: lora\npacking: true\n";
  EXPECT_EQ(seconds("a.yaml", factory(one)), seconds("b.yaml", factory(one + "lora_dropout: 0\n")));
}

// LLaMA-Factory's second syntax was "has no distributed_type; accelerate's YAML would be right".
TEST(TrainerRuns, TheSecondSyntaxOfLlamaFactoryIsReadWithItsDefaults) {
  const auto run = [](const std::string& more) {
    return check(written("v1/run.yaml",
                         "model: Qwen/Qwen3-4B\nmodel_class: llm\ntrain_dataset: data/demo.yaml\n"
                         "output_dir: out\nlearning_rate: 1.0e-4\n" +
                             more),
                 kA100s);
  };
  const Checked full = run("dist_config:\n  name: fsdp2\n  dcp_path: null\nmicro_batch_size: 2\n");
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_EQ(full.json["layout"]["sharding"], "full");
  EXPECT_EQ(full.json["layout"]["fsdp"], 8);
  EXPECT_EQ(full.json["layout"]["micro_batch"], 2);
  EXPECT_EQ(full.json["layout"]["recompute"], "full");
  const Checked told =
      run("dist_config:\n  name: fsdp2\nmicro_batch_size: 2\ncutoff_len: 2048\nbf16: true\n");
  EXPECT_EQ(memory_of(full), memory_of(told));
  const Checked batch = run("dist_config:\n  name: fsdp2\nglobal_batch_size: 64\n");
  EXPECT_EQ(batch.json["layout"]["micro_batches"], 8) << batch.err;
  const Checked lora =
      run("peft_config:\n  name: lora\n  r: 16\n  target_modules: all\nquant_config:\n  name: bnb\n"
          "  quantization_bit: 4\n");
  ASSERT_EQ(lora.code, 0) << lora.err;
  EXPECT_LT(memory_of(lora), 12);
  for (const auto& [more, reason] :
       {std::pair{"cp_size: 2\ncp_mode: ring\n", "cp_size 2"},
        {"dist_config:\n  name: fsdpturbo\n  ep_size: 16\n", "dist_config.name fsdpturbo"},
        {"peft_config:\n  name: freeze\n", "peft_config.name freeze"}}) {
    const Checked open = run(more);
    EXPECT_EQ(open.json.at("verdict"), "not_known") << more;
    EXPECT_NE(open.json.value("verdict_reason", "").find(reason), std::string::npos)
        << open.json.value("verdict_reason", "");
  }
}

// cp_size was left out of the layout, with the verdict open.
TEST(TrainerRuns, TheSecondSyntaxSharesSequencesByHeads) {
  const Checked read =
      check(written("v1/cp.yaml",
                    "model: Qwen/Qwen3-4B\nmodel_class: llm\ntrain_dataset: data/demo.yaml\n"
                    "output_dir: out\nlearning_rate: 1.0e-4\ncp_size: 2\n"
                    "dist_config:\n  name: fsdp2\n"),
            kA100s);
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.json["layout"]["cp"], 2);
  EXPECT_EQ(read.json["layout"]["fsdp"], 4);
  EXPECT_EQ(read.json["verdict"], "fits");
}

// The path of ms-swift's --fsdp was taken for a sharding strategy ('./EXAMPLES/…/FSDP2.JSON').
TEST(TrainerRuns, TheFileOfSwiftsFsdpIsRead) {
  written("swift/fsdp2.json",
          R"({"_note": "text", "fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2,
              "reshard_after_forward": true, "activation_checkpointing": false,
              "activation_cpu_offload": true}})");
  const std::string command =
      "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --tuner_type full --torch_dtype bfloat16 "
      "--gradient_checkpointing false --max_length 2048 --fsdp ./";
  const Checked read = check(written("swift/fsdp.sh", command + "fsdp2.json\n"), kA100s);
  ASSERT_TRUE(read.json.is_object()) << read.err;
  EXPECT_EQ(read.json["layout"]["sharding"], "full");
  EXPECT_EQ(read.json["layout"]["fsdp"], 8);
  EXPECT_EQ(read.json["layout"]["recompute"], "none");
  EXPECT_EQ(rules_in(read), Rules{});
  const Checked lost = check(written("swift/lost.sh", command + "elsewhere.json\n"), kA100s);
  EXPECT_EQ(lost.code, 2);
  EXPECT_NE(lost.err.find("elsewhere.json cannot be read"), std::string::npos) << lost.err;
}

// PyYAML takes the last of two; open-instruct's own files have some.
TEST(TrainerRuns, AKeyThatStandsTwiceIsTheLastOne) {
  const Checked read =
      check(written("twice.yaml", axolotl("micro_batch_size: 2\ngradient_checkpointing: true\n")),
            kA100s);
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.json["layout"]["micro_batch"], 2);
  EXPECT_NE(read.json["remarks"].dump().find("micro_batch_size stands a second time"),
            std::string::npos);
}

// A run in JSON, as transformers' HfArgumentParser and Firefly take it, was "fp16 is true; an
// object of its keys would be right".
TEST(TrainerRuns, ARunMayBeJson) {
  const auto json = [](const std::string& more) {
    return R"({"output_dir": "out", "model_name_or_path": "Qwen/Qwen2.5-7B-Instruct",
      "per_device_train_batch_size": 1, "gradient_accumulation_steps": 16, "max_seq_length": 1024,
      "gradient_checkpointing": true, "fp16": true, "lora_rank": 64)" +
           more + "}";
  };
  const std::string one = std::string(kA100s) + " --gpus 1";
  const Checked full = check(written("json/full.json", json(R"(, "train_mode": "full")")), one);
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_EQ(full.json["format"], "accelerate");
  EXPECT_EQ(full.json["layout"]["micro_batches"], 16);
  const Checked four = check(written("json/q.json", json(R"(, "train_mode": "qlora")")), one);
  EXPECT_EQ(four.code, 0) << four.err;
  EXPECT_LT(memory_of(four), 16);
  const Checked open = check(written("json/open.json", json("")), one);
  EXPECT_EQ(open.json.at("verdict"), "not_known");
  EXPECT_NE(open.json.value("verdict_reason", "").find("lora_rank"), std::string::npos);
  const Checked dpo =
      check(written("json/d.json", json(R"(, "train_mode": "qlora", "task_type": "dpo")")), one);
  EXPECT_TRUE(remarks_have(dpo, "judges the same answers")) << dpo.err;
  const Checked named = check(
      written("json/run.sh", "deepspeed --num_gpus=8 train.py --train_args_file q.json\n"), kA100s);
  EXPECT_EQ(named.json["layout"]["dp"], 8) << named.err;
}

// Degrees of Megatron in LLaMA-Factory's YAML were passed over: 30B was DDP of 612 GiB.
TEST(TrainerRuns, AMegatronBackEndIsNamed) {
  const Checked run = check(written("mca.yaml", factory("finetuning_type: full\n"
                                                        "pipeline_model_parallel_size: 4\n")),
                            kA100s);
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.err.find("mca.yaml:"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("Megatron-LM's flags"), std::string::npos) << run.err;
}

// "fsdp 2 x dp 1 = 2 ranks, but 4 GPUs are given": what is no expert is replicated over the axis.
TEST(TrainerRuns, AxolotlsExpertAxisTakesRanks) {
  const Checked run = check(
      written("ep.yaml", axolotl("expert_parallel_size: 2\ndp_shard_size: 2\nfsdp_version: 2\n"
                                 "fsdp_config:\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n")),
      std::string(kA100s) + " --gpus 4");
  ASSERT_EQ(run.code, 0) << run.err << run.json.value("violations", nlohmann::json()).dump();
  EXPECT_EQ(run.json["layout"]["fsdp"], 2);
  EXPECT_EQ(run.json["layout"]["dp"], 2);
  EXPECT_EQ(run.json.at("verdict"), "not_known");
}

// Experts over axolotl's axis had no verdict, and were those of every GPU.
TEST(TrainerRuns, AxolotlsExpertsAreSpread) {
  const std::string run =
      "base_model: Qwen/Qwen3-30B-A3B\nsequence_len: 2048\nsample_packing: true\n"
      "micro_batch_size: 1\ngradient_accumulation_steps: 1\noptimizer: adamw_torch_8bit\nbf16: "
      "true\ngradient_checkpointing: true\nexperts_implementation: grouped_mm\n";
  const Checked alone = check(written("ep4.yaml", run + "expert_parallel_size: 4\n"),
                              "--cluster dgx-h100x1 --gpus 4");
  EXPECT_EQ(alone.json["layout"]["ep"], 4) << alone.err;
  EXPECT_EQ(alone.json.at("verdict"), "at_risk");
  EXPECT_EQ(rules_in(alone), Rules{});
  const Checked sharded =
      check(written("ep2.yaml", run + "expert_parallel_size: 2\ndp_shard_size: 8\nfsdp_config:\n  "
                                      "fsdp_version: 2\n  auto_wrap_policy: "
                                      "TRANSFORMER_BASED_WRAP\n"),
            "--cluster dgx-h100x2");
  EXPECT_EQ(sharded.json["layout"]["ep"], 2) << sharded.err;
  EXPECT_EQ(sharded.json["layout"]["fsdp"], 16);
  EXPECT_EQ(sharded.json.at("verdict"), "fits");
  // 1.5 billion parameters beside the experts, 10 bytes each, over 8 ranks and not over 16
  EXPECT_TRUE(remarks_have(sharded, "0.9 GiB a GPU more")) << sharded.err;
}

// A script's own flags that are near to known ones (LMFlow's --quant_bit, --use_lisa) were "refused
// by the run's program".
TEST(TrainerRuns, FlagsOfAScriptOfOnesOwnAreNotRefused) {
  const Checked run = check(
      written("own/run.sh",
              "torchrun --nproc_per_node 8 finetune.py --model_name_or_path Qwen/Qwen2.5-0.5B "
              "--per_device_train_batch_size 1 --gradient_checkpointing --bf16 --quant_bit 4\n"),
      kA100s);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(rules_in(run), Rules{"warning keys that the trainer has"});
  EXPECT_EQ(run.json.at("verdict"), "not_known");
  EXPECT_NE(run.json.value("verdict_reason", "").find("--quant_bit"), std::string::npos);
}

}  // namespace
}  // namespace trireme::tools
