// `plan` names layouts that the framework's own program starts, and no others.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <set>
#include <tuple>
#include <vector>

#include "models/presets.h"
#include "planner/search/space.h"
#include "tests/unit/tools/planned.h"
#include "tools/launchable.h"
#include "tools/request.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

planner::Job small_job(const char* model, const char* framework) {
  planner::Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::load_cluster("dgx-h100x1");
  job.framework = planner::find_framework(framework);
  job.profile = topologies::shipped_profile();
  job.sequence = 2048;
  job.global_batch = 16;
  return job;
}

using DegreesAndSharding =
    std::tuple<std::array<std::int64_t, 5>, std::int64_t, std::int64_t, planner::Sharding, bool>;
DegreesAndSharding kind_of(const planner::Plan& plan) {
  return {planner::degrees_of(plan), plan.expert, plan.expert_tensor, plan.sharding,
          plan.reshard_after_forward};
}

// The search of launchable plans leaves out degrees that are refused in their plainest form: it
// took 50 s over layouts none of which torchtitan can be told.
TEST(StartableLayouts, WhatIsRefusedInItsPlainestFormIsRefusedInEvery) {
  for (const char* framework :
       {"megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate", "fsdp1"}) {
    for (const char* model : {"llama-3.1-8b", "mixtral-8x7b"}) {
      const planner::Job job = small_job(model, framework);
      planner::Space all;
      enumerate(job, {}, {}, all);
      planner::Space told;
      enumerate(job, {}, {}, told, what_starts);
      std::set<DegreesAndSharding> kinds;
      for (const planner::Degrees& degrees : told.degrees) {
        for (const planner::ShardingChoice& choice : degrees.shardings) {
          kinds.insert(kind_of(with_sharding(degrees.base, choice)));
        }
      }
      for (const planner::SpaceNode& node : all.nodes) {
        for (const planner::ShardingChoice& choice : all.degrees[node.degrees].shardings) {
          const planner::Plan plan = with_sharding(node.plan, choice);
          if (!kinds.contains(kind_of(plan))) {
            EXPECT_NE(export_refusal(job, plan), "")
                << framework << " " << model << " " << planner::short_form(plan);
          }
        }
      }
      EXPECT_LE(told.layouts, all.layouts);
    }
  }
}

// Search asks without words, by rows before it writes a file: never otherwise than `export` says.
TEST(StartableLayouts, SearchTakesWhatExportTakes) {
  for (const char* framework :
       {"megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate", "fsdp1"}) {
    // torchtitan has no Mixtral, and says so of every layout.
    const bool titan = std::string_view(framework) == "torchtitan";
    const planner::Job job = small_job(titan ? "qwen3-30b-a3b" : "mixtral-8x7b", framework);
    planner::Space space;
    enumerate(job, {}, {}, space);
    const planner::Acceptance accepts = what_starts(job);
    for (const planner::Degrees& degrees : space.degrees) {
      for (const planner::ShardingChoice& choice : degrees.shardings) {
        const planner::Plan plan = with_sharding(degrees.base, choice);
        EXPECT_EQ(accepts.takes(plan), export_refusal(job, plan).empty())
            << framework << " " << planner::short_form(plan);
      }
    }
  }
}

// torchtitan that reduces once a step takes one micro-batch, and lost every layout without a
// pipeline.
TEST(StartableLayouts, WhatTakesOneMicroBatchOnlyIsAskedWithOne) {
  const std::string out =
      run_words(
          "plan --model llama-3.1-8b --cluster dgx-h100x1 --framework torchtitan --set "
          "reduce_every_micro_batch=false --seq 2048 --global-batch 32")
          .out;
  EXPECT_NE(out.find("fsdp8.mb4"), std::string::npos) << out;
}

struct Wish {
  std::vector<std::string> constraints = {};
  std::vector<std::string> settings = {};
  std::string offload = {}, precision = {}, attention = {};
  planner::Goal goal = planner::Goal::kTime;
  std::optional<planner::Recompute> recompute = {};
};

// Of 697 layouts that `plan` named in 209 tables of random jobs `export` refused 397, some beside
// others that it took: where one thing of the job could be said in no launch file (a compiled model
// under DeepSpeed), what else was refused of layouts was no longer asked.
TEST(StartableLayouts, NoneThatPlanNamesIsRefusedByExport) {
  const std::vector<Wish> wishes = {
      {},
      {.goal = planner::Goal::kMemory},
      {.offload = "optimizer"},
      {.offload = "activations"},
      {.settings = {"compile=true"}},
      {.settings = {"dropout=0.1"}},
      {.precision = "fp16"},
      {.attention = "unfused"},
      {.constraints = {"tp=2"}},
      {.constraints = {"cp=2"}},
      {.constraints = {"pp=2"}},
      {.recompute = planner::Recompute::kSelective},
  };
  const std::array models = {"llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "gemma-2-9b",
                             "mixtral-8x7b"};
  const std::array clusters = {"dgx-h100x1", "dgx-a100-80gbx2", "rtx4090x1"};
  const std::array frameworks = {"megatron",  "megatron-fsdp", "megatron-bridge", "torchtitan",
                                 "deepspeed", "accelerate",    "fsdp1",           "fsdp2"};
  std::size_t turn = 0;
  std::size_t named = 0;
  for (const char* framework : frameworks) {
    for (const Wish& wish : wishes) {
      JobOptions options;
      options.model = models.at(turn % models.size());
      options.cluster = clusters.at(turn / 2 % clusters.size());
      ++turn;
      options.framework = framework;
      options.settings = wish.settings;
      options.offload = wish.offload;
      options.precision = wish.precision;
      options.attention = wish.attention;
      options.sequence = 8192;
      planner::Job job = make_job(options);
      job.global_batch = 4 * job.cluster.gpus;
      planner::SearchOptions search;
      search.alternatives = 3;
      search.goal = wish.goal;
      search.fixed.recompute = wish.recompute;
      for (const std::string& text : wish.constraints) {
        search.constraints.push_back(planner::parse_constraint(text));
      }
      const LaunchableSearch answer =
          search_launchable(job, search, decided_switches(options), true);
      const planner::SearchResult& result = answer.found.result;
      std::vector<planner::Plan> plans;
      if (result.best) {
        plans.push_back(result.best->plan);
      } else {
        EXPECT_FALSE(result.rejected.empty()) << framework << " " << options.model;
      }
      for (const planner::Estimate& other : result.alternatives) {
        plans.push_back(other.plan);
      }
      for (const planner::Plan& plan : plans) {
        const std::string refusal = export_refusal(answer.found.job, plan);
        const std::string said =
            refusal.empty() ? "" : "`export` would refuse it, and every other: " + refusal;
        EXPECT_EQ(said, answer.remark)
            << framework << " " << options.model << " " << planner::short_form(plan);
        ++named;
      }
    }
  }
  EXPECT_GT(named, 150U);
}

// The same from the plan file that people hand on.
TEST(StartableLayouts, ExportTakesThePlanFileOfEveryFramework) {
  const std::string file = testing::TempDir() + "startable.json";
  for (const char* framework : {"megatron", "megatron-fsdp", "megatron-bridge", "torchtitan",
                                "deepspeed", "accelerate", "fsdp1", "fsdp2", "nemo"}) {
    for (const char* cluster : {"dgx-h100x1", "aws-g5x4"}) {
      const Exported plan = run_words(
          fmt::format("plan --model llama-3.1-8b --cluster {} --framework {} --seq 4096 -o {}",
                      cluster, framework, file));
      ASSERT_EQ(plan.code, 0) << framework << plan.err;
      const Exported written = run_words("export " + file);
      EXPECT_EQ(written.code, 0) << framework << " " << cluster << written.err;
    }
  }
}

// "tp2.fsdp4.dp4 would be 3.8 % faster, but `export` would refuse it: …; --no-sequence-parallel
// would be right", and no layout of DeepSpeed had tensor parallelism.
TEST(StartableLayouts, TensorParallelismGoesWithoutSequenceParallelismWhereAProgramHasNone) {
  for (const char* framework : {"deepspeed", "accelerate"}) {
    const json plan = plan_of(
        fmt::format("--model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --global-batch 32 --tp 2 "
                    "--framework {}",
                    framework));
    ASSERT_FALSE(plan["best"].is_null()) << framework;
    EXPECT_EQ(plan["best"]["layout"]["tp"], 2) << framework;
    EXPECT_EQ(plan["best"]["layout"]["sequence_parallel"], false) << framework;
  }
}

// Layouts with tensor parallelism were named for FSDP1, which has none; asked for a sharding that
// it lacks, plan named one GPU of eight, or layouts of Megatron-LM that shard nothing.
TEST(StartableLayouts, WishesThatAFrameworkLacksLeaveNoneAndSayWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"--framework fsdp1 --tp 2", "FSDP1 runs beside no other axis"},
      {"--framework accelerate --pp 2", "accelerate has no pipeline parallelism"},
      {"--framework deepspeed --recompute selective", "DeepSpeed recomputes whole layers"},
      {"--framework fsdp2 --sharding optimizer", "has no sharding of the optimizer alone"},
      {"--framework megatron --sharding full", "megatron has no sharding full"},
      {"--framework torchtitan --pp 2 --model gpt-oss-20b", "has no pipelining"}};
  for (const auto& [words, why] : cases) {
    const bool model = std::string(words).find("--model") != std::string::npos;
    const Exported plan =
        run_words(fmt::format("plan {} --cluster dgx-h100x2 --seq 4096 --global-batch 64 {}",
                              model ? "" : "--model llama-3.1-8b", words));
    EXPECT_EQ(plan.code, 1) << words << plan.out << plan.err;
    EXPECT_NE(plan.out.find(why), std::string::npos) << words << plan.out << plan.err;
  }
}

// Megatron moves the activations of all layers but one at most, and every such plan was refused.
TEST(StartableLayouts, MegatronKeepsOneLayerOfOffloadedActivations) {
  const std::string file = testing::TempDir() + "moved.json";
  const Exported plan = run_words(
      "plan --model llama-3.1-8b --cluster dgx-h100x1 --seq 8192 --global-batch 32 --framework "
      "megatron --offload activations -o " +
      file);
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Exported written = run_words("export " + file);
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_NE(written.out.find("--cpu-offloading-num-layers 31"), std::string::npos) << written.out;
}

}  // namespace
}  // namespace trireme::tools
