// Training on preferences (DPO, KTO and their kin): the frozen copy that judges was not counted, a
// pair was one sequence, and what only the program's name said (dpo.py, grpo.py) was passed over.
// Measured: ms-swift examples/megatron/rlhf and examples/train/rlhf, GiB in the scripts' first
// lines.
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

constexpr const char* kA100Host = "--cluster dgx-a100-80gbx1";

double seconds_of(const Checked& answer) {
  return answer.json.at("estimate").at("time").at("step_seconds").get<double>();
}

Checked swift_megatron(const std::string& start, const std::string& more) {
  return check(written("preferences/run.sh",
                       "NPROC_PER_NODE=4 \\\nmegatron " + start +
                           " --tensor_model_parallel_size 4 --global_batch_size 4 "
                           "--recompute_granularity full --recompute_method uniform "
                           "--recompute_num_layers 1 --max_length 8192 --sequence_parallel true "
                           "--attention_backend flash " +
                           more + "\n"),
               kA100Host);
}

// 4.02e9 weights of two bytes over four tensor ranks: 1.87 GiB. Packed pairs fill one sequence.
TEST(Preferences, AReferenceOfMegatronIsAsLargeAsItsWeights) {
  const std::string model =
      "--model Qwen/Qwen3-4B-Instruct-2507 --micro_batch_size 1 --packing true";
  const Checked plain = swift_megatron("sft", model);
  const Checked dpo = swift_megatron("rlhf", model + " --rlhf_type dpo");
  ASSERT_EQ(dpo.code, 0) << dpo.err;
  EXPECT_NEAR(memory_of(dpo) - memory_of(plain), 1.87, 0.4);
  EXPECT_EQ(dpo.json["layout"]["micro_batch"], 1);
  EXPECT_GT(seconds_of(dpo), 1.15 * seconds_of(plain));  // a fourth pass beside three and recompute
  EXPECT_EQ(dpo.json.at("verdict"), "fits");
  EXPECT_TRUE(remarks_have(dpo, "a frozen copy of the model"));
}

// 43 GiB were measured, 37.5 said.
TEST(Preferences, KtoOfMegatronAsMeasured) {
  const Checked kto = swift_megatron(
      "rlhf",
      "--rlhf_type kto --model Qwen/Qwen2.5-7B-Instruct --micro_batch_size 1 --packing true");
  ASSERT_EQ(kto.code, 0) << kto.err;
  EXPECT_NEAR(memory_of(kto), 43, 0.08 * 43);
}

TEST(Preferences, APairIsTwoSequences) {
  const std::string model = "--model Qwen/Qwen3-4B-Instruct-2507 --micro_batch_size 4";
  const Checked dpo = swift_megatron("rlhf", model + " --rlhf_type dpo --global_batch_size 16");
  ASSERT_EQ(dpo.json["layout"]["micro_batch"], 8) << dpo.err;
  EXPECT_EQ(dpo.json["layout"]["micro_batches"], 4);
  const Checked kto = swift_megatron("rlhf", model + " --rlhf_type kto --global_batch_size 16");
  EXPECT_EQ(kto.json["layout"]["micro_batch"], 4) << kto.err;
}

std::string packed_factory(const std::string& more) {
  return "model_name_or_path: meta-llama/Llama-3.1-8B\ndo_train: true\ncutoff_len: 2048\n"
         "deepspeed: z3.json\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
         "packing: true\nbf16: true\n" +
         more;
}

// Under ZeRO-3 the copy is spread over the eight ranks: 8.03e9 x 2 / 8 = 1.87 GiB; adapters are
// switched off for it, and ORPO has none.
TEST(Preferences, WhoHasAReferenceUnderTheTrainer) {
  written("preferences/z3.json",
          R"({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
              "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})");
  const auto run = [](const std::string& more) {
    return check(written("preferences/run.yaml", packed_factory(more)), kA100Host);
  };
  const Checked plain = run("stage: sft\nfinetuning_type: full\n");
  ASSERT_EQ(plain.code, 0) << plain.err;
  const auto more_than_plain = [&](const std::string& method) {
    return memory_of(run(method + "finetuning_type: full\n")) - memory_of(plain);
  };
  EXPECT_NEAR(more_than_plain("stage: dpo\npref_loss: sigmoid\n"), 1.87, 0.4);
  EXPECT_NEAR(more_than_plain("stage: kto\n"), 1.87, 0.4);
  EXPECT_DOUBLE_EQ(more_than_plain("stage: dpo\npref_loss: orpo\n"), 0);
  EXPECT_DOUBLE_EQ(memory_of(run("stage: dpo\nfinetuning_type: lora\n")),
                   memory_of(run("stage: sft\nfinetuning_type: lora\n")));
  EXPECT_NEAR(more_than_plain("stage: dpo\npref_loss: kto_pair\n"), 1.87, 0.4);
  const Checked second = run("stage: dpo\nfinetuning_type: lora\nref_model: org/judge\n");
  EXPECT_EQ(second.json.at("verdict"), "not_known");
  EXPECT_NE(second.json.value("verdict_reason", "").find("ref_model org/judge"), std::string::npos);
  EXPECT_EQ(run("stage: ppo\nfinetuning_type: full\n").json.at("verdict"), "not_known");
  EXPECT_EQ(run("stage: rm\nfinetuning_type: full\n").json.at("verdict"), "not_known");
}

Checked program(const std::string& name) {
  return check(written("preferences/trl.sh",
                       "accelerate launch --num_processes 8 " + name +
                           " --model_name_or_path Qwen/Qwen2.5-0.5B --max_length 1024 "
                           "--per_device_train_batch_size 2 --gradient_checkpointing --bf16\n"),
               kA100Host);
}

TEST(Preferences, AProgramsNameSaysItsMethod) {
  const Checked sft = program("trl/scripts/sft.py");
  const Checked dpo = program("trl/scripts/dpo.py");
  ASSERT_EQ(dpo.code, 0) << dpo.err;
  EXPECT_EQ(sft.json["layout"]["micro_batch"], 2);
  EXPECT_EQ(dpo.json["layout"]["micro_batch"], 4);
  EXPECT_TRUE(remarks_have(dpo, "a frozen copy of the model")) << dpo.json.dump();
  EXPECT_FALSE(remarks_have(program("trl/scripts/dpo.py --precompute_ref_log_probs true"),
                            "a frozen copy of the model"));
  const Checked rollouts = program("open_instruct/grpo_fast.py");
  EXPECT_EQ(rollouts.json.at("verdict"), "not_known");
  EXPECT_NE(rollouts.json.value("verdict_reason", "").find("grpo"), std::string::npos);
}

// online_dpo.py was taken for DPO, and programs named after a word that is also a loss of DPO too.
TEST(Preferences, ALossIsNoMethodAndRolloutsAreNotDpo) {
  for (const char* plain : {"train_robust.py", "sigmoid_gate_sft.py", "hinge.py"}) {
    const Checked run = program(plain);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.json["layout"]["micro_batch"], 2) << plain;
    EXPECT_FALSE(remarks_have(run, "a frozen copy of the model")) << plain;
  }
  const Checked hinge = program("dpo.py --loss_type hinge");
  EXPECT_EQ(hinge.json["layout"]["micro_batch"], 4);
  EXPECT_TRUE(remarks_have(hinge, "a frozen copy of the model"));
  for (const char* online : {"trl/scripts/online_dpo.py", "dpo_online-dpo.py"}) {
    const Checked run = program(online);
    EXPECT_EQ(run.json.at("verdict"), "not_known") << online;
    EXPECT_NE(run.json.value("verdict_reason", "").find("online_dpo"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::tools
