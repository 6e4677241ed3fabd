// P09 to P13 of the public cases (whether a file fits, where something decisive is open, is
// offloaded or lies near the edge) and P14 to P19 (rules and models), each with two variants.
#include "planner/launch/read_launch.h"
#include "tests/unit/tools/check_run.h"

namespace trireme::tools {
namespace {

const std::string kHalf = "--bf16 --use-distributed-optimizer ";

std::string zero(const std::string& stage, const std::string& more = "") {
  return R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
             "zero_optimization": {"stage": )" +
         stage + more + "}}";
}

TEST(PublicVerdicts, P09StatesOnTheHostAreCountedThere) {
  const std::string host = "--optimizer-cpu-offload --use-precision-aware-optimizer ";
  const std::string batch =
      "--seq-length 4096 --max-position-embeddings 4096 --bf16 "
      "--micro-batch-size 1 --recompute-granularity full "
      "--recompute-method uniform --recompute-num-layers 1 "
      "--use-distributed-optimizer ";
  struct Offloaded {
    const char* name;
    std::string file, text, options, on;
  };
  const std::string cpu = R"(, "offload_optimizer": {"device": "cpu"})";
  for (const Offloaded& one :
       {Offloaded{"P09", "q.txt", batch + "--expert-model-parallel-size 8 --moe-grouped-gemm ",
                  "--format megatron --cluster hgx-h200x4 --model qwen3-235b-a22b", host},
        Offloaded{"half of 405B", "l.txt",
                  batch + "--tensor-model-parallel-size 8 --sequence-parallel "
                          "--pipeline-model-parallel-size 7 ",
                  "--format megatron --cluster dgx-h100x7 --model llama-3.1-405b",
                  host + "--optimizer-offload-fraction 0.5 "}}) {
    SCOPED_TRACE(one.name);
    const Checked with = check(written(one.file, one.text + one.on), one.options);
    const Checked without = check(written(one.file, one.text), one.options);
    ASSERT_TRUE(with.json.is_object()) << with.err;
    const auto peak = [](const Checked& answer) {
      return answer.json.at("estimate").at("memory").at("peak_allocated_gib").get<double>();
    };
    EXPECT_LT(peak(with), peak(without));
    EXPECT_NE(with.json.at("verdict"), "no");  // it is predicted, or not known
    EXPECT_FALSE(with.json.at("violations").dump().find("not modelled") != std::string::npos);
  }
  const std::string job = "--model llama-3.1-70b --seq 4096 --cluster dgx-h100x2 --recompute full";
  EXPECT_NE(check(written("z.json", zero("3", cpu)), job).json.at("verdict"), "no");
}

TEST(PublicVerdicts, P10WhatTheFileLeavesOpenIsSaid) {
  for (const auto& [stage, job] :
       {std::pair{"3", "--model qwen2.5-14b --seq 16384 --cluster dgx-h100x1"},
        {"2", "--model llama-3.1-8b --seq 32768 --cluster hgx-h200x1"},
        {"1", "--model llama-3.2-3b --seq 32768 --cluster dgx-a100-80gbx1"}}) {
    const std::string path = written("open.json", zero(stage));
    const Checked open = check(path, job);
    EXPECT_EQ(open.json.at("verdict"), "not_known") << job << open.json.at("verdict_reason");
    EXPECT_NE(open.json.at("verdict_reason").get<std::string>().find("--recompute"),
              std::string::npos);
    const Checked full = check(path, std::string(job) + " --recompute full");
    EXPECT_EQ(full.json.at("layout").at("recompute"), "full") << job;
    EXPECT_NE(full.json.at("verdict"), "not_known") << job;
    EXPECT_EQ(check(path, std::string(job) + " --recompute none").json.at("verdict"), "no") << job;
  }
}

TEST(PublicVerdicts, P11ExpertsInALoopAreNamed) {
  const Rules loop = {"warning experts in transformers' loop"};
  expect_case({"P11",
               "z.json",
               zero("3"),
               "--seq 8192 --cluster hgx-a800x2 --model qwen3-30b-a3b",
               loop,
               {},
               {"gathers the parameters of each"}});
  expect_case({"ZeRO-2 gathers nothing", "z.json", zero("2"),
               "--seq 4096 --cluster dgx-h100x4 --model mixtral-8x7b --recompute full", loop});
  if (planner::reads_format(planner::LaunchFormat::kAccelerate)) {
    expect_case({"accelerate", "f.yaml",
                 "distributed_type: FSDP\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config:\n"
                 "  fsdp_version: 2\n  fsdp_activation_checkpointing: true\n",
                 "--seq 4096 --cluster dgx-h100x2 --model deepseek-v2-lite", loop});
  }
}

// One expert block of 30B over two stages, without recompute: it ran in 10.361 s on 16 H800.
TEST(PublicVerdicts, P12WhatRanNearTheEdgeIsNotRefused) {
  const std::string moe =
      "--seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size "
      "256 --moe-grouped-gemm --moe-expert-capacity-factor 1.0 --moe-token-dispatcher-type "
      "alltoall "
      "--pipeline-model-parallel-size 2 --expert-model-parallel-size 8 "
      "--cross-entropy-loss-fusion " +
      kHalf;
  const std::string segments = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";
  const std::string start = "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py ";
  const std::string job = "--cluster hgx-h800x2 --model qwen3-30b-a3b";
  const Checked ran = check(written("p.sh", kOne + segments + start + moe), job);
  EXPECT_NE(ran.json.at("verdict"), "no") << ran.err;
  // The setting is seen, under either of its names and in front of the command too.
  const auto reserved = [&](const std::string& text) {
    return check(written("p.sh", text), job)
        .json.at("estimate")
        .at("memory")
        .at("peak_reserved_gib")
        .get<double>();
  };
  const double plain = reserved(kOne + start + moe);
  for (const std::string& text :
       {segments + kOne + start + moe,
        kOne + "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True " + start + moe,
        kOne + "export PYTORCH_ALLOC_CONF=expandable_segments:True\n" + start + moe,
        kOne +
            "export PYTORCH_CUDA_ALLOC_CONF=\"max_split_size_mb:512,expandable_segments:True\"\n" +
            start + moe}) {
    EXPECT_LT(reserved(text), plain) << text;
  }
}

// NVIDIA's recipes ran in 80 GB without recompute; their gradients are reduced in 16 bits. The
// whole list is Verdict.WhatRanInEightyGigabytesIsNotRefused of tests/published.
TEST(PublicVerdicts, P13RecipesThatRanAreNotRefused) {
  const auto recipe = [](const std::string& name, const std::string& lines) {
    return written("recipe.py", "from megatron.bridge.recipes import " + name + "\ncfg = " + name +
                                    "()\ncfg.mixed_precision.grad_reduce_in_fp32 = False\n"
                                    "cfg.train.micro_batch_size = 1\n" +
                                    lines);
  };
  const std::pair<std::string, const char*> cases[] = {
      {recipe("llama3_8b_pretrain_config",
              "cfg.model.context_parallel_size = 2\ncfg.model.seq_length = 8192\n"
              "cfg.train.global_batch_size = 128\n"),
       "--cluster dgx-h100x1"},
      {recipe(
           "llama31_405b_pretrain_config",
           "cfg.model.tensor_model_parallel_size = 8\ncfg.model.pipeline_model_parallel_size = 9\n"
           "cfg.model.virtual_pipeline_model_parallel_size = 7\n"
           "cfg.model.context_parallel_size = 2\ncfg.model.sequence_parallel = True\n"
           "cfg.model.seq_length = 8192\ncfg.train.global_batch_size = 252\n"),
       "--cluster dgx-h100x72"},
      {recipe(
           "llama31_70b_pretrain_config",
           "cfg.model.tensor_model_parallel_size = 4\ncfg.model.pipeline_model_parallel_size = 8\n"
           "cfg.model.virtual_pipeline_model_parallel_size = 5\n"
           "cfg.model.sequence_parallel = True\ncfg.model.seq_length = 8192\n"
           "cfg.train.global_batch_size = 128\n"),
       "--cluster dgx-h100x8"}};
  for (const auto& [path, options] : cases) {
    const Checked answer = check(path, options);
    ASSERT_TRUE(answer.json.is_object()) << answer.err;
    EXPECT_NE(answer.json.at("verdict"), "no") << options << answer.json.at("violations");
  }
}

const std::string kSmall =
    "--hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--vocab-size 51200 --micro-batch-size 1 --bf16 ";

TEST(PublicRules, P14EndsMayBeEmptyOfLayers) {
  const std::string ends =
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split ";
  for (const PublicCase& one :
       {PublicCase{"P14",
                   "p.txt",
                   kSmall +
                       "--num-layers 6 --pipeline-model-parallel-size 4 "
                       "--num-layers-per-virtual-pipeline-stage 1 --global-batch-size 16 " +
                       ends,
                   "--format megatron --cluster dgx-h100x1 --gpus 4",
                   {},
                   {{"/layout/vpp", 2}, {"/layout/stage_layers", {0, 1, 1, 1, 1, 1, 1, 0}}}},
        PublicCase{"94 layers on 32 stages of 3",
                   "q.txt",
                   kSmall +
                       "--num-layers 94 --pipeline-model-parallel-size 32 "
                       "--num-virtual-stages-per-pipeline-rank 3 --global-batch-size 64 " +
                       ends,
                   "--format megatron --cluster dgx-h100x4",
                   {},
                   {{"/layout/vpp", 3}}},
        PublicCase{"only the loss counts",
                   "r.txt",
                   kSmall + "--num-layers 7 --pipeline-model-parallel-size 4 "
                            "--num-virtual-stages-per-pipeline-rank 2 --global-batch-size 16 "
                            "--account-for-loss-in-pipeline-split ",
                   "--format megatron --cluster dgx-h100x1 --gpus 4",
                   {},
                   {{"/layout/stage_layers", {1, 1, 1, 1, 1, 1, 1, 0}}}}}) {
    expect_case(one);
  }
}

TEST(PublicRules, P15LocalAttentionNeedsTheLocalSpec) {
  const Rules refused = {"error attention-backend local needs spec local"};
  expect_case({"P15", "a.txt", kGpt + "--attention-backend local", kNode, refused});
  expect_case({"with an equals sign", "b.txt", kGpt + "--attention-backend=local --spec te", kNode,
               refused});
  expect_case({"in a script", "c.sh",
               kOne +
                   "A=\"--attention-backend local\"\ntorchrun --nproc_per_node 8 "
                   "pretrain_gpt.py " +
                   kGpt + "$A --spec local\n",
               "--cluster dgx-h100x1"});
}

TEST(PublicRules, P16AndP17FixesBreakNothingElse) {
  constexpr const char* kRows[][4] = {
      {"--num-layers 20 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5 "
       "--global-batch-size 64 --no-overlap-p2p-communication",
       "virtual stages need pp", "leave out --no-overlap-p2p-communication",
       "--num-layers 20 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5 "
       "--global-batch-size 64"},
      {"--num-layers 32 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 4 "
       "--global-batch-size 64 --no-overlap-p2p-communication",
       "virtual stages need pp", "4",
       "--num-layers 32 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4 "
       "--global-batch-size 64 --no-overlap-p2p-communication"},
      {"--num-layers 24 --tensor-model-parallel-size 3 --sequence-parallel", "heads % tp", "4",
       "--num-layers 24 --tensor-model-parallel-size 4 --sequence-parallel"},
      {"--num-layers 20 --decoder-last-pipeline-num-layers 1", "first and last stage's layers",
       "leave out --decoder-last-pipeline-num-layers", "--num-layers 20"},
      {"--num-layers 48 --decoder-first-pipeline-num-layers 11", "first and last stage's layers",
       "leave out --decoder-first-pipeline-num-layers", "--num-layers 48"},
      {"--num-layers 20 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 9 "
       "--decoder-last-pipeline-num-layers 9",
       "first and last stage's layers", "20",
       "--num-layers 20 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 9 "
       "--decoder-last-pipeline-num-layers 11"}};
  for (const auto& [wrong, rule, fix, fixed] : kRows) {
    const Checked broken = check(written("w.txt", kSmall + wrong), kNode);
    ASSERT_TRUE(broken.json.is_object()) << broken.err;
    EXPECT_NE(fix_in(broken, rule).find(fix), std::string::npos)
        << wrong << ": " << fix_in(broken, rule) << broken.json.at("violations");
    for (const std::string& left : rules_in(check(written("f.txt", kSmall + fixed), kNode))) {
      EXPECT_TRUE(left.starts_with("warning")) << fixed << ": " << left;
    }
  }
}

TEST(PublicModels, P18TorchtitansDtypeIsThatOfAllStates) {
  if (!planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const auto titan = [](const std::string& name, const std::string& flavor, const char* dtype) {
    return "[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
           "\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\ndtype = \"" + dtype + "\"\n";
  };
  const char* moments = "/estimate/memory/breakdown_gib/optimizer";
  // parameters / ranks x 2 moments x 2 bytes
  expect_case({"P18",
               "a.toml",
               titan("llama3", "8B", "bfloat16"),
               "--cluster dgx-h100x1",
               {},
               {{moments, 8.03e9 / 8 * 4 / 1073741824}}});
  expect_case({"70B over 64",
               "b.toml",
               titan("llama3", "70B", "bfloat16"),
               "--cluster dgx-h100x8",
               {},
               {{moments, 70.55e9 / 64 * 4 / 1073741824}}});
  expect_case({"qwen3, in fp32",
               "c.toml",
               titan("qwen3", "14B", "float32"),
               "--cluster dgx-h100x2",
               {},
               {{moments, 14.77e9 / 16 * 8 / 1073741824}}});
}

TEST(PublicModels, P19EvidenceComesBeforeADefault) {
  const std::string third =
      "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights "
      "--disable-bias-linear --position-embedding-type rope --group-query-attention "
      "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 "
      "--tensor-model-parallel-size 8 --sequence-parallel " +
      kHalf;
  const std::string seventy =
      "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 " +
      third;
  const std::string eight =
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 " +
      third;
  const std::string options = "--format megatron --cluster dgx-b200x8";
  for (const PublicCase& one :
       {PublicCase{"P19, the tokenizer",
                   "a.txt",
                   seventy + "--tokenizer-type Llama3Tokenizer",
                   options,
                   {},
                   {{"/estimate/model/parameters", 70'553'706'496}}},
        PublicCase{"P19, the base",
                   "b.txt",
                   seventy + "--rotary-base 500000 --use-rope-scaling",
                   options,
                   {},
                   {{"/estimate/model/parameters", 70'553'706'496}}},
        PublicCase{"8B by a path",
                   "c.txt",
                   eight + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model "
                           "/models/Meta-Llama-3.1-8B-Instruct",
                   options,
                   {},
                   {{"/estimate/model/parameters", 8'030'261'248}}},
        PublicCase{"8B of Mistral: its vocabulary",
                   "d.txt",
                   eight + "--tokenizer-model mistralai/Mistral-7B-v0.1",
                   options,
                   {},
                   {{"/estimate/model/parameters", 7'241'732'096}}}}) {
    expect_case(one);
  }
}

}  // namespace
}  // namespace trireme::tools
