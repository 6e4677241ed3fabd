#include "planner/plan/stages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace trireme::planner {
namespace {

std::vector<std::int64_t> split(const char* framework, std::int64_t layers, std::int64_t pipeline,
                                std::int64_t virtual_pipeline = 1,
                                std::vector<std::int64_t> explicit_layers = {}) {
  Job job;
  job.framework.name = framework;
  job.model.layers = layers;
  Plan plan;
  plan.pipeline = pipeline;
  plan.virtual_pipeline = virtual_pipeline;
  plan.stage_layers = std::move(explicit_layers);
  std::vector<std::int64_t> counts;
  for (const Chunk& chunk : chunks_of(job, plan)) {
    counts.push_back(chunk.last - chunk.first);
  }
  return counts;
}
using Counts = std::vector<std::int64_t>;

TEST(Stages, LayersThatDivideAreEven) {
  EXPECT_EQ(split("megatron", 32, 4), (Counts{8, 8, 8, 8}));
  EXPECT_EQ(split("megatron", 24, 2, 3), (Counts{4, 4, 4, 4, 4, 4}));
}

TEST(Stages, RemainderCountsEmbeddingAndHeadAsLayers) {
  // BLOOM: 70 layers on 12 stages, 72 / 12 = 6 with embedding and head.
  EXPECT_EQ(split("megatron", 70, 12), (Counts{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
}

TEST(Stages, TorchGivesTheEndsOneLessWhereLayersDoNotDivide) {
  EXPECT_EQ(split("fsdp2", 28, 4), (Counts{7, 7, 7, 7}));
  EXPECT_EQ(split("fsdp2", 30, 4), (Counts{7, 8, 8, 7}));
  EXPECT_EQ(split("fsdp2", 126, 8), (Counts{15, 16, 16, 16, 16, 16, 16, 15}));
}

TEST(Stages, ExplicitListsWin) {
  EXPECT_EQ(split("megatron", 8, 4, 1, {1, 2, 2, 3}), (Counts{1, 2, 2, 3}));
  EXPECT_EQ(split("megatron", 8, 2, 2, {4, 4}), (Counts{2, 2, 2, 2}));
}

TEST(Stages, EverySplitKeepsEveryLayerAndMarksTheEnds) {
  for (const char* framework : {"megatron", "fsdp2", "deepspeed"}) {
    for (std::int64_t layers = 1; layers < 40; ++layers) {
      for (std::int64_t chunks = 1; chunks <= layers; ++chunks) {
        const Counts counts = split(framework, layers, chunks);
        ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers)
            << framework << " " << layers << " over " << chunks;
        ASSERT_GE(*std::min_element(counts.begin(), counts.end()), 0);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::planner
