#include "planner/plan/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/plan/balance.h"

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

// nanotron's stages were even. It places layers and head by the work of their products: of a
// vocabulary whose head weighs four layers the first of two stages has eleven of sixteen, since a
// rank goes on until its share is passed.
TEST(Stages, LayersByCostLeaveTheHeadItsShare) {
  Job job;
  job.framework.layers_by_cost = true;
  job.model.layers = 16;
  job.model.hidden = 2048;
  job.model.ffn = 8192;
  job.model.vocab = 131072;
  Plan plan;
  plan.pipeline = 2;
  const auto counts = [&] {
    std::vector<std::int64_t> layers;
    for (const Chunk& chunk : chunks_of(job, plan)) {
      layers.push_back(chunk.last - chunk.first);
    }
    return layers;
  };
  EXPECT_EQ(counts(), (Counts{11, 5}));
  job.model.vocab = 4096;
  EXPECT_EQ(counts(), (Counts{9, 7}));
  plan.pipeline = 4;
  job.model.vocab = 131072;
  EXPECT_EQ(counts(), (Counts{6, 5, 5, 0}));
}

TEST(Stages, ExplicitListsWin) {
  EXPECT_EQ(split("megatron", 8, 4, 1, {1, 2, 2, 3}), (Counts{1, 2, 2, 3}));
  EXPECT_EQ(split("megatron", 8, 2, 2, {4, 4}), (Counts{2, 2, 2, 2}));
}

TEST(Stages, EmbeddingAndHeadMayHaveChunksOfTheirOwn) {
  EXPECT_EQ(split("megatron", 6, 4, 2), (Counts{0, 1, 1, 1, 1, 1, 1, 0}));
}

PartCosts costs_of(std::vector<double> layers, double embedding, double head) {
  return {.layers = std::move(layers), .embedding = embedding, .head = head, .speeds = {}};
}

Plan pipeline(std::int64_t ranks, std::int64_t chunks, Schedule schedule = Schedule::kInterleaved) {
  Plan plan;
  plan.pipeline = ranks;
  plan.virtual_pipeline = chunks;
  plan.schedule = schedule;
  return plan;
}

TEST(Stages, ChunksLieInALoopOrInAV) {
  const auto ranks_of = [](const Plan& plan) {
    Counts ranks;
    for (std::int64_t chunk = 0; chunk < plan.pipeline * plan.virtual_pipeline; ++chunk) {
      ranks.push_back(rank_of_chunk(plan, chunk));
    }
    return ranks;
  };
  EXPECT_EQ(ranks_of(pipeline(4, 2)), (Counts{0, 1, 2, 3, 0, 1, 2, 3}));
  for (const Schedule schedule : {Schedule::kZeroBubbleV, Schedule::kDualPipeV}) {
    EXPECT_EQ(ranks_of(pipeline(4, 2, schedule)), (Counts{0, 1, 2, 3, 3, 2, 1, 0}));
  }
  for (const Plan& plan : {pipeline(3, 4), pipeline(5, 2, Schedule::kZeroBubbleV)}) {
    for (std::int64_t rank = 0; rank < plan.pipeline; ++rank) {
      for (std::int64_t place = 0; place < plan.virtual_pipeline; ++place) {
        const std::int64_t chunk = chunk_of_rank(plan, rank, place);
        EXPECT_EQ(rank_of_chunk(plan, chunk), rank);
        EXPECT_EQ(chunk / plan.pipeline, place);
      }
    }
  }
}

TEST(Stages, AListOfStagesIsSpreadOverTheChunksOfEachRank) {
  Job job;
  job.model.layers = 14;
  Plan plan = pipeline(2, 2, Schedule::kZeroBubbleV);
  plan.stage_layers = {5, 9};
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  EXPECT_EQ(chunks[0].own_layers() + chunks[3].own_layers(), 5);
  EXPECT_EQ(chunks[1].own_layers() + chunks[2].own_layers(), 9);
}

TEST(Stages, InAVTheTableOfATiedHeadIsOnOneRank) {
  Job job;
  job.model.tied_embeddings = true;
  EXPECT_TRUE(shares_table(job, pipeline(4, 2)));
  EXPECT_TRUE(shares_table(job, pipeline(4, 1)));
  EXPECT_FALSE(shares_table(job, pipeline(1, 1)));
  EXPECT_FALSE(shares_table(job, pipeline(4, 2, Schedule::kZeroBubbleV)));
}

TEST(Balance, InAVTheFirstRankHasBothEnds) {
  // 28 layers, an embedding of 1 and a head of 3 over 4 ranks: 8 a rank, 4 layers on the first.
  const Plan plan = pipeline(4, 2, Schedule::kZeroBubbleV);
  const Counts counts = balanced_split(costs_of(std::vector<double>(28, 1), 1, 3), plan);
  Counts ranks(4, 0);
  for (std::size_t chunk = 0; chunk < counts.size(); ++chunk) {
    ranks[static_cast<std::size_t>(rank_of_chunk(plan, static_cast<std::int64_t>(chunk)))] +=
        counts[chunk];
  }
  EXPECT_EQ(ranks, (Counts{4, 8, 8, 8}));
}

TEST(Balance, TheHeadTakesThePlaceOfLayers) {
  // 14 layers and a head of 2: 16 over 4 stages.
  EXPECT_EQ(balanced_split(costs_of(std::vector<double>(14, 1), 0, 2), pipeline(4, 1)),
            (Counts{4, 4, 4, 2}));
  // A head larger than a stage's share has its chunk alone.
  EXPECT_EQ(balanced_split(costs_of(std::vector<double>(12, 1), 0, 6), pipeline(4, 1)),
            (Counts{4, 4, 4, 0}));
}

TEST(Balance, WhatIsLeftOverGoesWhereFewerMicroBatchesWait) {
  EXPECT_EQ(balanced_split(costs_of(std::vector<double>(10, 1), 0, 0), pipeline(4, 1)),
            (Counts{2, 2, 3, 3}));
}

TEST(Balance, CheapLayersCountForLess) {
  // DeepSeek-V3's shape with one layer more: three of 62 are half as long, the head is worth 2.
  // 62.5 over 16 stages: nobody needs more than 4, which takes 5 layers on the first stage.
  std::vector<double> layers(62, 1);
  std::fill_n(layers.begin(), 3, 0.5);
  const Counts counts = balanced_split(costs_of(layers, 0, 2), pipeline(16, 1));
  EXPECT_LE(*std::max_element(counts.begin() + 1, counts.end() - 1), 4);
  EXPECT_LE(counts.front(), 5);
  EXPECT_LE(counts.back(), 2);
}

TEST(Balance, RanksOfSeveralChunksAreBalancedNotTheirChunks) {
  // 30 layers and a head of 2 over 4 ranks with 4 chunks each: 8 a rank.
  const Counts counts = balanced_split(costs_of(std::vector<double>(30, 1), 0, 2), pipeline(4, 4));
  std::vector<double> ranks(4, 0);
  for (std::size_t chunk = 0; chunk < counts.size(); ++chunk) {
    ranks[chunk % 4] += static_cast<double>(counts[chunk]) + (chunk == 15 ? 2 : 0);
  }
  EXPECT_EQ(ranks, (std::vector<double>{8, 8, 8, 8}));
  EXPECT_EQ(counts.back(), 0);
}

// Against every split of small models: nothing has a shorter busiest rank.
TEST(Balance, NoSplitIsBetter) {
  const PartCosts costs = costs_of({0.5, 1, 1, 0.5, 1, 2, 1, 1}, 0.1, 1.7);
  const auto busiest = [&](const Counts& counts) {
    std::vector<double> ranks(3, 0);
    ranks.front() = costs.embedding;
    ranks.back() = costs.head;
    std::size_t layer = 0;
    for (std::size_t chunk = 0; chunk < counts.size(); ++chunk) {
      for (std::int64_t i = 0; i < counts[chunk]; ++i) {
        ranks[chunk % 3] += costs.layers[layer++];
      }
    }
    return *std::max_element(ranks.begin(), ranks.end());
  };
  double least = 1e9;
  for (std::int64_t a = 0; a <= 8; ++a) {
    for (std::int64_t b = 1; a + b <= 8; ++b) {
      least = std::min(least, busiest({a, b, 8 - a - b}));
    }
  }
  EXPECT_LE(busiest(balanced_split(costs, pipeline(3, 1))), least * 1.0011);
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
