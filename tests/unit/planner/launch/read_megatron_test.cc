#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "models/presets.h"
#include "planner/launch/launch_case.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

LaunchConfig read(const std::string& text, const std::vector<std::string>& more = {}) {
  return read_megatron(text, "run.sh", more);
}

constexpr const char* kGpt =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 2 ";

TEST(ReadMegatron, AScriptInTheStyleOfTheExamples) {
  const LaunchConfig config = read(R"(#!/bin/bash
#SBATCH --nodes=16 --gpus-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=$SLURM_NNODES
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536
    --fp16
    --vocab-size=51200
)
PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${PARALLEL_ARGS[@]}
)");
  EXPECT_EQ(config.gpus, 128);
  EXPECT_EQ(config.gpus_per_node, 8);
  EXPECT_EQ(config.global_batch, 1536);
  EXPECT_EQ(config.sequence, 2048);
  EXPECT_EQ(config.precision, "fp16");
  EXPECT_EQ(config.layout.tensor, 8);
  EXPECT_EQ(config.layout.pipeline, 16);
  EXPECT_EQ(config.layout.sharding, Sharding::kNone);
  ASSERT_TRUE(config.model);
  EXPECT_EQ(config.model->name, "gpt3-175b");  // the same shape
  EXPECT_EQ(models::parameter_count(*config.model),
            models::parameter_count(models::load_model("gpt3-175b")));
  EXPECT_EQ(find_setting(config, "hidden_size")->line, 13);
  EXPECT_EQ(find_variable(config, "CUDA_DEVICE_MAX_CONNECTIONS")->value, "1");
}

TEST(ReadMegatron, ALlamaWithGroupedQueriesIsThePreset) {
  const LaunchConfig config = read(
      "torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 8192 "
      "--max-position-embeddings 8192 --position-embedding-type rope --swiglu --normalization "
      "RMSNorm "
      "--untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 128256 --bf16 "
      "--attention-dropout 0 --hidden-dropout 0 --micro-batch-size 1");
  ASSERT_TRUE(config.model);
  EXPECT_EQ(models::parameter_count(*config.model), 8030261248);
  EXPECT_EQ(config.model->name.substr(0, 7), "llama-3");
}

TEST(ReadMegatron, DefaultsOfTheModel) {
  const LaunchConfig gpt = read(kGpt);
  EXPECT_EQ(gpt.model->ffn, 4 * 2048);
  EXPECT_EQ(gpt.model->kv_heads, 16);
  EXPECT_TRUE(gpt.model->tied_embeddings);
  EXPECT_TRUE(gpt.model->mlp_bias);
  EXPECT_EQ(gpt.model->position, models::Position::kLearned);
  EXPECT_EQ(gpt.precision, "fp32");
  // int(4 h * 2/3 / 64) * 64 = 5461.33 / 64 = 85 whole parts
  EXPECT_EQ(read(std::string(kGpt) + "--swiglu").model->ffn, 85 * 64);
}

TEST(ReadMegatron, ExpertsAndLatentAttention) {
  const LaunchConfig config = read(
      "--num-layers 27 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 "
      "--swiglu "
      "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
      "--position-embedding-type rope --max-position-embeddings 4096 --seq-length 4096 "
      "--vocab-size 102400 --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 "
      "--moe-shared-expert-intermediate-size 2816 --moe-layer-freq ([0]*1+[1]*26) "
      "--multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
      "--v-head-dim 128 --expert-model-parallel-size 8 --micro-batch-size 1");
  ASSERT_TRUE(config.model && config.model->moe && config.model->latent);
  EXPECT_FALSE(config.model->moe_layers[0]);
  EXPECT_EQ(models::moe_layer_count(*config.model), 26);
  EXPECT_EQ(models::parameter_count(*config.model),
            models::parameter_count(models::load_model("deepseek-v2-lite")));
  EXPECT_EQ(config.layout.expert, 8);
}

TEST(ReadMegatron, LayoutFlags) {
  const LaunchConfig config = read(
      std::string(kGpt) +
      "--tensor-model-parallel-size=2 --pipeline-model-parallel-size 4 --context-parallel-size 2 "
      "--num-layers-per-virtual-pipeline-stage 3 --sequence-parallel --use-distributed-optimizer "
      "--overlap-grad-reduce --recompute-granularity full --recompute-method block "
      "--recompute-num-layers 2 --bf16 --global-batch-size 64 --grad-reduce-in-bf16");
  const LaunchCase found = make_launch_case(config, {.cluster = "dgx-h100x4"});
  EXPECT_EQ(short_form(found.plan).substr(0, 16), "tp2.pp4.vpp2.cp2");
  EXPECT_EQ(found.plan.sharded, 2);  // 32 / 16
  EXPECT_EQ(found.plan.micro_batches, 16);
  EXPECT_EQ(found.plan.schedule, Schedule::kInterleaved);
  EXPECT_EQ(found.plan.recompute_layers, 2);
  EXPECT_TRUE(found.job.framework.overlap_grad_reduce);
  EXPECT_FALSE(found.job.framework.overlap_param_gather);
  EXPECT_EQ(found.job.framework.gradient_bytes, 2);
}

TEST(ReadMegatron, FullyShardedVariants) {
  const LaunchConfig config =
      read(std::string(kGpt) +
           "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --bf16");
  EXPECT_EQ(config.framework, "megatron-fsdp");
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
  const LaunchConfig torch = read(std::string(kGpt) + "--use-torch-fsdp2 --bf16");
  EXPECT_EQ(torch.framework, "fsdp2");
}

TEST(ReadMegatron, FlagsOfOlderVersions) {
  const LaunchConfig config =
      read(std::string(kGpt) +
           "--fp16 --DDP-impl local --checkpoint-activations --model-parallel-size 4");
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_EQ(config.attention, "unfused");
  EXPECT_EQ(read(std::string(kGpt) + "--recompute-activations").layout.recompute,
            Recompute::kSelective);
}

TEST(ReadMegatron, StringsOfFlagsAndCommandsInStrings) {
  const std::string script = std::string("options=\" \\\n") + kGpt +
                             "\\\n --bf16 --tensor-model-parallel-size 2 \"\n"
                             "run_cmd=\"torchrun --nproc_per_node=4 pretrain_gpt.py ${options}\"\n";
  EXPECT_EQ(read(script + "srun -N 2 bash -c \"${run_cmd}\"").gpus, 8);
  EXPECT_EQ(read(script + "eval $run_cmd").layout.tensor, 2);
  EXPECT_EQ(read(script).layout.tensor, 2);  // never started in this file
}

TEST(ReadMegatron, PipesAndRedirectionsInCommandStringsEndTheCommand) {
  const std::string run =
      std::string("torchrun --nproc_per_node 4 pretrain_gpt.py ") + kGpt + "--swiglu";
  for (const std::string& text :
       {"eval \"" + run + " 2>&1 | tee log\"", "srun bash -c \"" + run + " 2>&1 | tee x\"",
        "sh -c '" + run + " |& tee x'", "bash -lc \"cd x && " + run + " && echo done\"",
        "bash -c \"cd x; " + run + " &> x; echo done\"", "eval " + run + " '> x 2>&1 &'",
        "CMD=\"" + run + " >> log 2>&1\"\neval $CMD",
        "bash -c \"\ncd x\n" + run + "\necho done\n\""}) {
    const LaunchConfig config = read(text);
    ASSERT_NE(find_setting(config, "swiglu"), nullptr) << text;
    EXPECT_EQ(find_setting(config, "swiglu")->value, "") << text;
    EXPECT_EQ(config.gpus, 4) << text;
    EXPECT_EQ(integer_setting(config, "num_layers"), 24) << text;
  }
}

TEST(ReadMegatron, GroupsOfArgumentsThatAreNotInTheFileAreNamed) {
  const auto remarks = [](const std::string& text) {
    std::string all;
    for (const std::string& remark : read(text).remarks) {
      all += remark + "\n";
    }
    return all;
  };
  const std::string run =
      std::string("torchrun --nproc_per_node 4 pretrain_gpt.py ") + kGpt + "--swiglu";
  const std::string sourced = remarks("source env.sh\n. ./more.sh\n" + run);
  EXPECT_NE(sourced.find("env.sh (line 1), ./more.sh (line 2)"), std::string::npos) << sourced;
  for (const std::string& text :
       {run + " $GONE", run + " ${GONE}", run + " \"${GONE[@]}\" --bf16",
        "eval \"" + run + " $GONE --bf16\"", "A=\"--bf16 $GONE --fp16\"\n" + run + " $A",
        "A=(\n--bf16\n\"${GONE[@]}\"\n)\n" + run + " ${A[@]}",
        "ALL_ARGS=\"$GONE\"\n" + run + " $ALL_ARGS"}) {
    EXPECT_NE(remarks(text).find("$GONE (line "), std::string::npos) << text << "\n"
                                                                     << remarks(text);
  }
  for (const std::string& text :
       {"cd $GONE\n" + run, run + " --lr $GONE", run + " --save /x/$GONE", run + " ${GONE:-}",
        "D=$GONE\n" + run, "GONE=--bf16\n" + run + " $GONE", run + " \"$@\""}) {
    EXPECT_EQ(remarks(text).find("$GONE (line "), std::string::npos) << text;
  }
  const std::string loop =
      remarks("for TP in 2 4; do\n" + run + " --tensor-model-parallel-size $TP\ndone");
  EXPECT_NE(
      loop.find(
          "it starts 2 commands: the one of line 2 with TP=2 is judged, and not line 2 with TP=4"),
      std::string::npos)
      << loop;
}

// A comment between continued lines ends the command: what stands behind it was lost without a
// word.
TEST(ReadMegatron, ArgumentsBehindACommentAreNamed) {
  const std::string run = std::string("torchrun --nproc_per_node 4 pretrain_gpt.py ") + kGpt;
  const auto said = [](const std::string& text, const char* words) {
    const LaunchConfig config = read(text);
    return std::any_of(
        config.remarks.begin(), config.remarks.end(),
        [&](const std::string& remark) { return remark.find(words) != std::string::npos; });
  };
  EXPECT_TRUE(said(run + "--bf16 \\\n # --swiglu \\\n --tensor-model-parallel-size 2",
                   "--tensor-model-parallel-size (line 3) starts a command of its own"));
  EXPECT_FALSE(said("CMD=\"" + run + "\"\necho $CMD\n$CMD", "it starts"));
}

TEST(ReadMegatron, ArgumentsOfTheCommandLineComeLast) {
  const LaunchConfig config = read(std::string(kGpt) + "--tensor-model-parallel-size 2",
                                   {"--tensor-model-parallel-size", "4", "--bf16"});
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.precision, "bf16");
}

TEST(ReadMegatron, VariablesWithoutAValueAreNamed) {
  const LaunchConfig config = read(std::string(kGpt) + "--tensor-model-parallel-size $TP --bf16");
  EXPECT_FALSE(config.layout.tensor);
  ASSERT_EQ(config.unset.size(), 1U);
  EXPECT_EQ(config.unset[0].spelled, "--tensor-model-parallel-size");
  EXPECT_EQ(config.unset[0].value, "$TP");
}

TEST(ReadMegatron, UnknownFlagsAreKeptApart) {
  const LaunchConfig config =
      read(std::string(kGpt) + "--lr 1e-4 --brand-new-flag 3 --log-interval 1");
  ASSERT_EQ(config.unknown.size(), 1U);
  EXPECT_EQ(config.unknown[0].spelled, "--brand-new-flag");
}

TEST(ReadMegatron, PartsOfAStringThatIsNeverStartedKeepTheirValues) {
  // The words of a string and of the array inside it have lines of their own; their order must
  // stay.
  const LaunchConfig config = read(
      "TP=${TP:-4}\nARGS=(\n --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length "
      "128\n"
      " --tensor-model-parallel-size ${TP}\n --vocab-size 100 --bf16\n)\n"
      "CMD=\"\ncd x;\npython /x/pretrain_gpt.py ${ARGS[@]}\"\nsbatch <<EOF\nsrun $CMD\nEOF\n");
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.micro_batch, std::nullopt);
}

TEST(ReadMegatron, EmbeddingAndHeadCountedByMegatronDeepspeed) {
  const LaunchConfig config = read(
      "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --bf16 "
      "--max-position-embeddings 2048 --vocab-size 250880 --position-embedding-type alibi "
      "--embed-layernorm "
      "--pp-partition-method 'type:transformer|embedding' --pipeline-model-parallel-size 12 "
      "--tensor-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 2048 "
      "--checkpoint-activations");
  EXPECT_EQ(config.model->name, "bloom-176b");
  const LaunchCase found = make_launch_case(config, {.cluster = "dgx-a100-80gbx48"});
  EXPECT_EQ(found.plan.stage_layers.front(), 5);
  EXPECT_EQ(found.plan.stage_layers[1], 6);
  EXPECT_EQ(found.plan.micro_batches, 128);  // 2048 / (8 x 2)
}

TEST(ReadMegatron, AScriptWhoseCallerGivesTheLength) {
  const LaunchConfig config = read(
      "torchrun p.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length $1 "
      "--vocab-size 100");
  EXPECT_FALSE(config.sequence);
  EXPECT_EQ(config.model->max_sequence, 4096);
  EXPECT_THROW(read(std::string(kGpt) + "--hybrid-override-pattern M-M*"), Error);
}

TEST(ReadMegatron, WrongValuesNameTheirLine) {
  for (const std::string more :
       {"\\\n--tensor-model-parallel-size two", "\\\n--tensor-model-parallel-size 0",
        "\\\n--recompute-granularity some", "\\\n--moe-layer-freq [2] --num-experts 8",
        "\\\n--recompute-granularity selective --recompute-modules brain",
        "\\\n--pipeline-model-parallel-layout Ex|L"}) {
    try {
      read(kGpt + more);
      ADD_FAILURE() << more;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("run.sh:2"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(read("echo hello"), Error);
}

// Megatron-MoE-ModelZoo's scripts: the flags inside [[ ]] were taken for the training command's.
TEST(ReadMegatron, ATestOfArgumentsIsNoCommand) {
  const std::string flags = std::string("P=\"") + kGpt + "--pipeline-model-parallel-size 2\"\n";
  const std::string start = "torchrun --nproc_per_node 8 pretrain_gpt.py ${P}\n";
  const std::string asks =
      "if [[ ! \"${P}\" =~ \"--pipeline-model-parallel-layout\" ]] && \\\n"
      "   [[ ! \"${P}\" =~ \"--num-virtual-stages-per-pipeline-rank\" ]]; then\n"
      "  P=\"${P} --num-virtual-stages-per-pipeline-rank 4\"\nfi\n";
  const LaunchConfig config = read(flags + asks + start);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.layout.virtual_pipeline, 4);
  EXPECT_TRUE(config.undecided.empty());
  const std::string has = "P=\"${P} --num-virtual-stages-per-pipeline-rank 3\"\n";
  EXPECT_EQ(read(flags + has + asks + start).layout.virtual_pipeline, 3);
}

TEST(ReadMegatron, ProgramsThatDoNotTrainAreRefusedByName) {
  const auto refusal = [](const std::string& command) -> std::string {
    try {
      read(command + " --bf16 " + kGpt);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::pair<const char*, const char*> others[] = {
      {"torchrun --nproc_per_node 1 tools/run_text_generation_server.py", "serves a model"},
      {"python -m megatron.inference.gpt_dynamic_inference_server", "serves a model"},
      {"torchrun examples/inference/gpt/gpt_static_inference.py", "generates text"},
      {"python tools/checkpoint/convert.py", "converts checkpoints"},
      {"torchrun convert_deepseek_v3.py", "converts checkpoints"},
      {"megatron export --model Qwen/Qwen2.5-7B", "converts checkpoints"},
      {"torchrun examples/export/ptq_and_trtllm_export/text_generation_ptq.py", "quantises"},
      {"torchrun examples/post_training/modelopt/quantize.py", "quantises"},
      {"python tools/retro/preprocess_data.py", "prepares data"},
      {"torchrun evaluate_gpt.py", "evaluates"},
      {"torchrun tasks/msdp/main.py --task MSDP-EVAL-F1", "evaluates"},
      {"torchrun tasks/main.py --task LAMBADA", "evaluates"}};
  for (const auto& [command, says] : others) {
    EXPECT_NE(refusal(command).find(says), std::string::npos)
        << command << ": " << refusal(command);
  }
  for (const char* trains :
       {"torchrun pretrain_gpt.py", "torchrun train_and_evaluate.py", "torchrun main.py",
        "python -m verl.trainer.main_ppo", "megatron sft --model Qwen/Qwen2.5-7B",
        "torchrun examples/post_training/modelopt/finetune.py", "srun bash"}) {
    EXPECT_EQ(refusal(trains), "") << trains;
  }
}

// Flags of a script's own were taken for Megatron-LM's.
TEST(ReadMegatron, FlagsThatTheScriptLooksForAreItsWords) {
  const std::string script =
      "NODES=$1; shift\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --tp) TP=$2; shift 2;;\n"
      "    --pp) PP=$2; shift 2;;\n    *) shift;;\n  esac\ndone\n"
      "torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py " +
      std::string(kGpt) + "--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP\n";
  const LaunchConfig config = read(script, {"2", "--tp", "4", "--pp", "2"});
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.gpus, 16);
  // Megatron-LM's own, which the script does not look for, follow its command.
  EXPECT_EQ(read(script, {"2", "--tensor-model-parallel-size", "8"}).layout.tensor, 8);
}

TEST(ReadMegatron, PatternsOfStages) {
  LaunchConfig config;
  const auto stages = [&](const char* text) {
    return read_pipeline_pattern(config, LaunchSetting{"layout", text, "--layout", 1});
  };
  EXPECT_EQ(stages("Et*3|(tt|)*29,m|L").size(), 32U);  // 1 + 29 + m + L
  EXPECT_EQ(stages("Et*3|(tt|)*29,m|L")[0], 3);
  EXPECT_EQ(stages("Ett|tt|tL"), (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_THROW(stages("((((t"), Error);
  EXPECT_THROW(stages("(t*100000|)*100000"), Error);
}

TEST(ReadMegatron, AFlagIsKnownInOnePlace) {
  std::vector<std::string_view> names = megatron_settings_read();
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  EXPECT_EQ(twice, names.end()) << (twice == names.end() ? "" : *twice);
}

// Benchmarks deal tokens out at random: the busiest rank's room was counted all the same.
TEST(ReadMegatron, ForcedBalanceOfTheRouterIsEven) {
  const auto evens = [](const LaunchConfig& config) {
    return std::count(config.choices.begin(), config.choices.end(), "even_routing=true");
  };
  EXPECT_EQ(evens(read(std::string(kGpt) + "--num-experts 8")), 0);
  const LaunchConfig forced =
      read(std::string(kGpt) + "--num-experts 8 --moe-router-force-load-balancing");
  EXPECT_EQ(evens(forced), 1);
  EXPECT_TRUE(forced.unknown.empty());
}

}  // namespace
}  // namespace trireme::planner
