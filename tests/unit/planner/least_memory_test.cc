// The least memory of a pipeline, which search prunes by, against every layout of it.
#include <gtest/gtest.h>

#include <map>

#include "models/presets.h"
#include "planner/search/visit.h"
#include "topologies/cluster.h"

namespace trireme::planner {
namespace {

struct Broken {
  int allocated = 0, fit = 0;
};

// Layouts that need less than their pipeline's least, or fit better.
Broken broken_by(const Job& job) {
  Space space;
  enumerate(job, {}, {}, space);
  Estimator estimator(job);
  std::map<std::size_t, std::vector<LeastMemory>> least;  // by pipeline
  MemoryEstimate memory;
  Broken broken;
  for (const SpaceNode& node : space.nodes) {
    if (!least.contains(node.pipeline)) {
      least[node.pipeline] = least_memory(job, space, node, estimator);
    }
    const std::vector<ShardingChoice>& choices = space.degrees[node.degrees].shardings;
    for (std::size_t c = 0; c < choices.size(); ++c) {
      estimator.memory().estimate_if_fits(with_sharding(node.plan, choices[c]), memory);
      const LeastMemory& leanest = least[node.pipeline][c];
      const bool below =
          memory.fit != Fit::kNo && memory.allocated_gib * (1 + 1e-9) < leanest.memory.gib;
      broken.allocated += below ? 1 : 0;
      broken.fit += memory.fit < leanest.fit ? 1 : 0;
    }
  }
  return broken;
}

// What recomputes all of every layer is the leanest, but more of what is recomputed stays cached,
// and states are counted more surely than activations: asked alone, it said no where a layout that
// recomputes eight layers of a stage may fit, and "at risk" where one that recomputes nothing fits.
TEST(LeastMemory, WhatRecomputesLessMayFitBetter) {
  Job job;
  job.profile = topologies::shipped_profile();
  job.model = models::load_model("llama-3.1-405b");
  job.cluster = topologies::load_cluster("dgx-b200x16");
  job.framework = find_framework("megatron-bridge");
  job.precision = topologies::Precision::kFp8;
  job.sequence = 8192;
  job.global_batch = 128;
  const Broken cut = broken_by(job);
  EXPECT_EQ(cut.allocated, 0);
  EXPECT_EQ(cut.fit, 0);
  job.model = models::load_model("mixtral-8x7b");
  job.cluster = topologies::load_cluster("dgx-h100x4");
  job.framework = find_framework("megatron");
  job.precision = topologies::Precision::kBf16;
  job.sequence = 4096;
  job.global_batch = 256;
  const Broken sparse = broken_by(job);
  EXPECT_EQ(sparse.allocated, 0);
  EXPECT_EQ(sparse.fit, 0);
}

}  // namespace
}  // namespace trireme::planner
