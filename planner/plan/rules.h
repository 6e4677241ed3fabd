// Which plans are legal, and why not: a typed reason with its numbers, as a value. Search asks
// millions of times.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

enum class Rule : std::uint8_t {
  kGpuProduct,
  kBatchDivides,
  kHeadsDivide,
  kKvHeadsDivide,
  kFfnDivides,
  kHiddenDivides,
  kVocabularyDivides,
  kLayersDivide,
  kStagesNonEmpty,
  kVirtualNeedsPipeline,
  kInterleavedMicroBatches,
  kSequenceDivides,
  kSequenceParallelNeedsTensor,
  kShardingNeedsShards,
  kExpertsDivide,
  kExpertGrid,
  kFrameworkFeature,
  kTensorLeavesNode,
  kMemory,
};
std::string_view to_string(Rule rule);  // "heads % tp" and the like: stable identifiers

struct Violation {
  Rule rule;
  std::string detail;  // with the numbers: "64 heads do not divide by tp 48"
};

// The first rule the plan breaks, or nothing. Memory is not asked here.
std::optional<Violation> check_plan(const Job& job, const Plan& plan);
// Whether Megatron-Core takes an order with experts whose pipeline is not outermost: their
// data-parallel ranks must be as many as the others' (megatron/core/parallel_state.py asserts it).
bool may_put_stages_inside(const Plan& plan);
// Whether the plan's chunks need no list of layers: they are even, or even once the embedding and
// the head count as layers, or the framework spreads the remainder by itself.
bool splits_evenly(const Job& job, const Plan& plan);
// Whether the framework's launch file can say how many layers each chunk has.
bool takes_any_split(const Job& job);
// Every rule that the plan breaks, at most one a kind (product, sharding, tensor split, sequence,
// …).
std::vector<Violation> broken_rules(const Job& job, const Plan& plan);

}  // namespace trireme::planner
