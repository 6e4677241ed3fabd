// What the settings of a launch file mean: each kind that was once passed over, taken wrongly or
// guessed.
#include <array>

#include "planner/launch/read_launch.h"
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

// A file's offloading was a remark, and the memory that of a step without it.
TEST(CheckReadings, OffloadingOfAFileIsPredicted) {
  const auto peak = [](const Checked& answer) {
    return answer.json.at("estimate").at("memory").at("peak_allocated_gib").get<double>();
  };
  const std::string plain = written("gpt.txt", kGpt);
  const double without = peak(check(plain, std::string(kNode)));
  const std::string host = " -- --optimizer-cpu-offload --use-precision-aware-optimizer";
  const double all = peak(check(plain, kNode + host));
  const double half = peak(check(plain, kNode + host + " --optimizer-offload-fraction 0.5"));
  EXPECT_LT(all, half);
  EXPECT_LT(half, without);
  const std::string job = "--model llama-3.1-8b --seq 4096 --cluster dgx-h100x1 --recompute full";
  const auto zero = [&](const std::string& offload) {
    const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 3)" +
                             offload + "}}";
    return peak(check(written("zero.json", text), job));
  };
  const double on_gpu = zero("");
  const double states = zero(R"(, "offload_optimizer": {"device": "cpu"})");
  const double both =
      zero(R"(, "offload_optimizer": {"device": "nvme"}, "offload_param": {"device": "cpu"})");
  EXPECT_LT(states, on_gpu);
  EXPECT_LT(both, states);
}

TEST(CheckReadings, VariablesSetForAnInnerCommandAreSeen) {
  const std::string flags = std::string(kGpt) + " --tensor-model-parallel-size 2 --bf16";
  const std::string train = "torchrun --nproc_per_node 8 pretrain_gpt.py " + flags;
  for (const std::string& script :
       {"sh -c \"export CUDA_DEVICE_MAX_CONNECTIONS=1; " + train + "\"",
        "srun --export=ALL,CUDA_DEVICE_MAX_CONNECTIONS=1 " + train,
        "mpirun -np 8 -x CUDA_DEVICE_MAX_CONNECTIONS=1 python pretrain_gpt.py " + flags}) {
    EXPECT_EQ(rules_in(check(written("inner.sh", script + "\n"), kNode)), Rules{}) << script;
  }
}

TEST(CheckReadings, SwiftsOwnWordsAreRead) {
  const Checked answer = check(
      written("swift.sh",
              "CUDA_DEVICE_MAX_CONNECTIONS=1 NPROC_PER_NODE=8 megatron sft --model "
              "Qwen/Qwen2.5-7B-Instruct --load_safetensors true --tensor_model_parallel_size 2 "
              "--sequence_parallel true --micro_batch_size 2 --global_batch_size 16 --max_length "
              "2048\n"),
      "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(answer), Rules{}) << answer.err;
  EXPECT_EQ(answer.json.at("layout").at("tp"), 2);
  EXPECT_EQ(answer.json.at("estimate").at("model").at("name"), "qwen2.5-7b");
  EXPECT_EQ(answer.json.at("estimate").at("layout").at("micro_batch"), 2);
}

TEST(CheckReadings, OlderNamesOfPrecisionAreRead) {
  const auto precision = [](const std::string& name, const std::string& text) {
    return check(written(name, text), "--model llama-3.1-8b --cluster dgx-h100x1")
        .json.at("estimate")
        .at("throughput")
        .at("peak_tflops")
        .get<double>();
  };
  if (planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    const std::string yaml = "distributed_type: MULTI_GPU\nnum_processes: 8\n";
    EXPECT_EQ(precision("old.yaml", yaml + "fp16: true\n"),
              precision("new.yaml", yaml + "mixed_precision: fp16\n"));
  }
  if (planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    const std::string toml = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
    EXPECT_NEAR(precision("old.toml", toml + "[float8]\nenable_float8_linear = true\n") /
                    precision("none.toml", toml + "[training]\nseq_len = 4096\n"),
                2, 0.01);
  }
}

TEST(CheckReadings, WhatARecipeIsCalledWithCounts) {
  const Checked answer =
      check(written("recipe.py",
                    "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\n"
                    "cfg = llama3_8b_pretrain_config(\n    seq_length=8192,\n"
                    "    tensor_parallelism=2)\n"
                    "cfg.train.global_batch_size, cfg.train.micro_batch_size = 128, 2\n"),
            "--cluster dgx-h100x1");
  EXPECT_EQ(answer.json.at("layout").at("tp"), 2);
  EXPECT_EQ(answer.json.at("layout").at("micro_batch"), 2);
  EXPECT_EQ(answer.json.at("layout").at("micro_batches"), 16);
  EXPECT_FALSE(remarks_have(answer, "sequence 4096"));
}

// A batch size that a variable leaves open was taken at its default, and fitted.
TEST(CheckReadings, NoVerdictRestsOnAVariableThatNobodySets) {
  const std::string run = "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 ";
  const std::string recipe =
      "python scripts/training/run_recipe.py --recipe llama31_8b_pretrain_config ";
  const std::pair<std::string, const char*> cases[] = {
      {run + "pretrain_gpt.py " + kGpt + "--micro-batch-size $MBS", "$MBS (--micro-batch-size"},
      {run + "pretrain_gpt.py " + kGpt + "--micro-batch-size=${MBS}", "$MBS (--micro-batch-size"},
      {run + "pretrain_gpt.py " + kGpt + "--global-batch-size \"$GBS\"", "$GBS (--global-batch"},
      {"A=(--seq-length ${SEQ} --num-layers 24)\n" + run + "pretrain_gpt.py " + kGpt + "${A[@]}",
       "$SEQ (--seq-length"},
      {recipe + "train.micro_batch_size=$MBS", "$MBS (train.micro_batch_size"},
      {recipe + "-tp $TP -pp 2", "$TP (-tp"}};
  for (const auto& [text, named] : cases) {
    const std::string path = written("open.sh", text + "\n");
    const Checked answer = check(path, "--cluster dgx-h100x1");
    EXPECT_EQ(answer.json.value("verdict", ""), "not_known") << text << answer.err;
    EXPECT_NE(answer.json.value("verdict_reason", "").find(named), std::string::npos)
        << answer.json.value("verdict_reason", "");
  }
  // What stands beside the file, or after it, decides; so does a default in the file.
  const std::string open = written("open.sh", cases[0].first + "\n");
  EXPECT_EQ(check(open, "--cluster dgx-h100x1 --micro-batch 1").json.at("verdict"), "fits");
  EXPECT_EQ(check(open, "--cluster dgx-h100x1 -- --micro-batch-size 1").json.at("verdict"), "fits");
  const std::string falls_back = written(
      "back.sh", run + "pretrain_gpt.py " + kGpt + "--micro-batch-size ${MBS:-1} --lr $LR\n");
  EXPECT_EQ(check(falls_back, "--cluster dgx-h100x1").json.at("verdict"), "fits");
}

TEST(CheckReadings, FlavorsOfTorchtitanHaveTheirOwnSpelling) {
  if (!planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const auto titan = [](const std::string& name, const std::string& flavor) {
    return check(written("t.toml", "[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
                                       "\"\n[training]\nlocal_batch_size = 1\n"),
                 "--cluster dgx-h100x8");
  };
  const std::string rule = "models and flavors that torchtitan has";
  const std::array<const char*, 4> slips[] = {{"llama3", "8b", "\"8B\"", "llama-3.1-8b"},
                                              {"llama3", "70b", "\"70B\"", "llama-3.1-70b"},
                                              {"qwen3", "30b-a3b", "\"30B-A3B\"", "qwen3-30b-a3b"},
                                              {"gpt_oss", "20B", "\"20b\"", "gpt-oss-20b"},
                                              {"Llama3", "8B", "\"llama3\"", "llama-3.1-8b"}};
  for (const auto& [name, flavor, right, model] : slips) {
    const Checked answer = titan(name, flavor);
    EXPECT_EQ(rules_in(answer).front(), "error " + rule) << name << flavor;
    EXPECT_NE(fix_in(answer, rule).find(right), std::string::npos) << fix_in(answer, rule);
    EXPECT_EQ(answer.json["estimate"]["model"]["name"], model);
  }
  EXPECT_EQ(rules_in(titan("llama3", "8B")), Rules{});
  EXPECT_EQ(rules_in(titan("llama3", "8B_flex")), Rules{});
  // Another release's, or one's own.
  EXPECT_EQ(rules_in(titan("qwen3", "1.7B-mine")), Rules{"warning " + rule});
}

// cpu_checkpointing moves the inputs of layers that recompute; it had no effect. (At this length
// the loss is the fullest moment with it and without it.)
TEST(CheckReadings, CheckpointsOnTheHostLeaveTheGpu) {
  const auto activations = [](const std::string& more, const std::string& options) {
    const std::string path =
        written("cpu.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                            "zero_optimization": {"stage": 1})" +
                                more + "}");
    return check(path, "--cluster dgx-h100x1 --seq 16384 " + options)
        .json.at("estimate")
        .at("memory")
        .at("breakdown_gib")
        .at("activations")
        .get<double>();
  };
  const std::string host = R"(, "activation_checkpointing": {"cpu_checkpointing": true})";
  for (const std::string model : {"--model llama-3.1-8b ", "--model llama-3.2-3b "}) {
    EXPECT_LT(activations(host, model + "--recompute full"),
              0.6 * activations("", model + "--recompute full"));
    EXPECT_EQ(activations(host, model + "--recompute none"),
              activations("", model + "--recompute none"));
  }
}

TEST(CheckReadings, WordsThatMegatronBridgeRaisesOnAreErrors) {
  const std::string rule = "values that Megatron-Bridge takes";
  const auto bridge = [](const std::string& line) {
    return check(
        written("bridge.py",
                "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\n"
                "cfg = llama3_8b_pretrain_config()\ncfg.model.tensor_model_parallel_size = 2\n" +
                    line + "\n"),
        "--cluster dgx-h100x1");
  };
  for (const auto& [wrong, right] :
       {std::pair{"cfg.model.moe_token_dispatcher_type = \"alltoal\"", "alltoall"},
        {"cfg.mixed_precision = \"bf16_mixd\"", "bf16_mixed"},
        {"cfg.model.attention_backend = AttnBackend.flsh", "flash"},
        {"cfg.ddp.data_parallel_sharding_strategy = \"zero3\"", "optim_grads_params"},
        {"cfg.model.fp8_recipe = \"current\"", "tensorwise"}}) {
    const Checked answer = bridge(wrong);
    EXPECT_NE(fix_in(answer, rule).find(right), std::string::npos) << wrong << answer.err;
  }
  for (const char* good :
       {"cfg.model.moe_token_dispatcher_type = \"flex\"", "cfg.mixed_precision = \"bf16-mixed\"",
        "cfg.mixed_precision = bf16_mixed()", "cfg.mixed_precision = precision",
        "cfg.model.attention_backend = AttnBackend.flash"}) {
    EXPECT_EQ(fix_in(bridge(good), rule), "no such rule") << good;
  }
}

// M01 of the practitioners' cases: 58.8 GB on 32 H100, at risk by fragmentation. Its recipe gathers
// 8-bit parameters and reduces in 16 bits; without either it was said not to fit.
TEST(CheckReadings, RecipesOfEightBitsGatherEightBitParameters) {
  const auto sft = [](const std::string& more) {
    return check(
        written("sft.py",
                "from megatron.bridge.recipes.llama import llama3_70b_sft_config\n"
                "cfg = llama3_70b_sft_config()\n"
                "cfg.mixed_precision = \"bf16_with_fp8_current_scaling_mixed\"\n"
                "cfg.model.tensor_model_parallel_size = 4\ncfg.model.sequence_parallel = True\n"
                "cfg.model.pipeline_model_parallel_size = 4\n"
                "cfg.model.virtual_pipeline_model_parallel_size = 5\ncfg.model.seq_length = 4096\n"
                "cfg.train.global_batch_size = 32\ncfg.train.micro_batch_size = 1\n"
                "cfg.model.recompute_granularity = \"selective\"\n"
                "cfg.mixed_precision.grad_reduce_in_fp32 = False\n" +
                    more),
        "--cluster dgx-h100x4");
  };
  const auto peak = [](const Checked& answer) {
    return answer.json.at("estimate").at("memory").at("peak_allocated_gib").get<double>();
  };
  const Checked ran = sft("");
  EXPECT_EQ(ran.json.at("verdict"), "at_risk") << ran.json.at("violations");
  EXPECT_NEAR(peak(ran), 58.8, 0.1 * 58.8);
  EXPECT_GT(peak(sft("cfg.mixed_precision.fp8_param_gather = False\n")), peak(ran) + 5);
}

// accelerate compares names of strategies without regard to case, and reads the first version's
// from fsdp_sharding_strategy alone.
TEST(CheckReadings, ShardingStrategiesAreAcceleratesOwn) {
  if (!planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  const auto fsdp = [](const std::string& lines) {
    return check(written("s.yaml",
                         "distributed_type: FSDP\nnum_processes: 16\n"
                         "mixed_precision: bf16\nfsdp_config:\n" +
                             lines),
                 "--cluster dgx-h100x2 --model llama-3.1-8b --seq 4096 --recompute full");
  };
  const Checked hybrid = fsdp("  fsdp_sharding_strategy: hybrid_shard\n");
  EXPECT_EQ(rules_in(hybrid), Rules{});
  EXPECT_EQ(hybrid.json.at("layout").at("fsdp"), 8);
  EXPECT_EQ(rules_in(fsdp("  fsdp_sharding_strategy: ZERO3\n")).front(),
            "error sharding strategies that FSDP has");
  EXPECT_EQ(rules_in(fsdp("  fsdp_version: 2\n  fsdp_sharding_strategy: ZERO3\n")), Rules{});
  const Checked ignored = fsdp("  fsdp_version: 1\n  fsdp_reshard_after_forward: NO_SHARD\n");
  EXPECT_EQ(rules_in(ignored), Rules{"warning reshard_after_forward of FSDP version 1"});
  EXPECT_EQ(ignored.json.at("layout").at("fsdp"), 16);  // FULL_SHARD all the same
  EXPECT_EQ(rules_in(fsdp("  fsdp_version: 2\n  fsdp_reshard_after_forward: no\n")), Rules{});
}

// Python's parser keeps - and _ apart: Megatron-LM refuses what was read here.
TEST(CheckReadings, MegatronFlagsWithUnderscoresAreRefused) {
  const std::string start =
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt;
  const Checked answer =
      check(written("scored.sh", start + "--tensor_model_parallel_size 2"), "--cluster dgx-h100x1");
  EXPECT_EQ(rules_in(answer), Rules{"error flags that Megatron-LM knows"});
  EXPECT_EQ(fix_in(answer, "flags that Megatron-LM knows"), "use --tensor-model-parallel-size");
  EXPECT_EQ(rules_in(check(written("swift.sh", "megatron sft --load x " + kGpt +
                                                   "--tensor_model_parallel_size 2"),
                           kNode)),
            Rules{});
}

// Eight torchrun on a node started 512 processes, of which 64 were counted.
TEST(CheckReadings, EveryTaskOfSrunIsALauncher) {
  const std::string run = " torchrun --nproc-per-node=8 --nnodes 8 pretrain_gpt.py " + kGpt;
  const std::string set = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  const std::string header =
      "#SBATCH --nodes=8\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n";
  const Rules broken = {"error one launcher a node"};
  const auto rules = [&](const std::string& text) {
    return rules_in(check(written("tasks.sh", text), "--cluster dgx-h100x8"));
  };
  EXPECT_EQ(rules(set + "srun --ntasks-per-node=8" + run), broken);
  EXPECT_EQ(rules(set + "srun -N 8 -n 64" + run), broken);
  EXPECT_EQ(rules(header + set + "srun" + run), broken);
  EXPECT_EQ(rules(set + "mpirun -np 64" + run), broken);
  EXPECT_EQ(rules(set + "srun --ntasks-per-node=1" + run), Rules{});
  EXPECT_EQ(rules(header + set + "srun -n 8" + run), Rules{});
  EXPECT_EQ(rules(header + set + "srun python pretrain_gpt.py " + kGpt), Rules{});
}

TEST(CheckReadings, WhatACommandPrintsDecidesNothingForSure) {
  const std::string run = "\ntorchrun --nproc_per_node 8 pretrain_gpt.py " + kGpt;
  const auto verdict = [&](const std::string& text) {
    return check(written("counted.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + text),
                 "--cluster dgx-h100x1")
        .json.at("verdict");
  };
  EXPECT_EQ(verdict("TP=$(nproc)" + run + "--tensor-model-parallel-size $TP"), "not_known");
  EXPECT_EQ(verdict("N=$(nvidia-smi -L|wc -l)" + run + "--global-batch-size $((N*8))"),
            "not_known");
  EXPECT_EQ(verdict("for i in $(seq $(nproc)); do A+=(--x $i); done" + run + "\"${A[@]}\""),
            "not_known");
}

struct Refusal {
  std::string file, text, says;
};

TEST(CheckReadings, ValuesThatTheProgramsRefuse) {
  const std::string zero =
      "{\"train_micro_batch_size_per_gpu\":1,\"bf16\":{\"enabled\":true},\"zero_optimization\":";
  const std::string fsdp =
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  "
      "fsdp_version: 2\n";
  const std::string titan =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = "
      "1\n[parallelism]\n";
  const std::string bridge = "cfg = llama3_8b_pretrain_config()\n";
  const Refusal refusals[] = {
      {"a.json", zero + "3}", "zero_optimization is 3; an object"},
      {"b.json", zero + "{\"stage\":3,\"offload_optimizer\":true}}",
       "offload_optimizer is true; an object"},
      {"c.json", zero + "{\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\",\"ratio\":1.5}}}",
       "ratio is 1.5; a share from 0 to 1"},
      {"d.yaml", fsdp + "num_machines: 0\n", "num_machines is '0'"},
      {"e.yaml", fsdp + "num_machines: 2\nmachine_rank: 2\n",
       "machine_rank is 2 of num_machines 2"},
      {"f.yaml", fsdp + "num_machines: 3\n", "which num_machines 3 does not divide; 6 or 9"},
      {"g.yaml", fsdp + "use_cpu: true\n", "use_cpu is on"},
      {"h.yaml", fsdp + "fsdp_config:\n  fsdp_version: 1\n", "'fsdp_config' a second time"},
      {"m.yaml", "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: FULL_SHARD\n",
       "fsdp_config is FULL_SHARD; an object"},
      {"n.yaml", "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: 3\n",
       "deepspeed_config is 3; an object"},
      {"i.toml", titan + "data_parallel_shard_degree = 0\n", "data_parallel_shard_degree is 0"},
      {"j.py", bridge + "cfg.dpd.overlap_grad_reduce = True\n", "dpd is no section of"},
      {"k.py", bridge + "cfg.training.global_batch_size = 64\n", "training is no section of"},
      {"l.py", bridge + "cfg.model.sequence_parallel = true\n", "true is no name of Python"},
  };
  for (const auto& [file, text, says] : refusals) {
    const Checked answer =
        check(written(file, text), "--cluster dgx-h100x1 --model llama-3.1-8b --seq 4096");
    EXPECT_EQ(answer.code, 2) << text;
    EXPECT_NE(answer.err.find(says), std::string::npos) << text << answer.err;
  }
}

TEST(CheckReadings, KeysBesideTheRightOneAndConvertersOfNobody) {
  const std::string both =
      "{\"train_micro_batch_size_per_gpu\":1,\"bf16\":{\"enabled\":true},\"zero_optimization\":{"
      "\"stage\":3,"
      "\"offload_optimzer\":{\"device\":\"cpu\"},\"offload_optimizer\":{\"device\":\"cpu\"}}}";
  EXPECT_EQ(rules_in(check(written("both.json", both),
                           "--cluster dgx-h100x1 --model llama-3.1-8b --seq 4096")),
            Rules{"error keys that DeepSpeed has"});
  const std::string titan =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = "
      "[\"nf4\"]\n[training]\nlocal_batch_size = 1\n";
  EXPECT_EQ(rules_in(check(written("nf4.toml", titan), "--cluster dgx-h100x1")),
            Rules{"warning values that torchtitan takes"});
}

// int(os.environ[…]) was refused as no number.
TEST(CheckReadings, AFileOfPythonReadsItsEnvironment) {
  const auto bridge = [](const std::string& value) {
    return check(written(
                     "env.py",
                     "cfg = llama3_8b_pretrain_config()\ncfg.model.tensor_model_parallel_size = " +
                         value + "\n"),
                 "--cluster dgx-h100x1")
        .json;
  };
  EXPECT_EQ(bridge("int(os.environ[\"TP\"])").at("verdict"), "not_known");
  EXPECT_EQ(bridge("int(os.environ.get(\"TP\", 2))").at("layout").at("tp"), 2);
  EXPECT_EQ(bridge("int(os.getenv('TP', '4'))").at("layout").at("tp"), 4);
}

// An empty object where DeepSpeed takes a value counted as not said; as a section it is one.
TEST(CheckReadings, AnEmptyObjectIsNoValue) {
  const std::string job = "--model llama-3.1-8b --seq 4096 --cluster dgx-h100x1";
  const auto with = [&](const std::string& more) {
    return check(written("empty.json", R"({"train_micro_batch_size_per_gpu": 1, )" + more + "}"),
                 job);
  };
  const Checked value = with(R"("train_batch_size": {})");
  EXPECT_EQ(value.code, 2);
  EXPECT_NE(value.err.find("train_batch_size is '{}'"), std::string::npos) << value.err;
  const Checked section = with(R"("zero_optimization": {"stage": 2, "offload_param": {}})");
  EXPECT_NE(section.code, 2) << section.err;
  EXPECT_EQ(rules_in(section), Rules{}) << section.err;
}

}  // namespace
}  // namespace trireme::tools
