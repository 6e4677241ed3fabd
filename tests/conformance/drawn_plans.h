// Random plans of real models over four generations of cluster, with every schedule, recompute mode
// and sharding that a framework has, up to 24 chunks a pipeline rank, that fit the GPU's memory:
// what the closed form is held to its programs on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/program.h"
#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "tests/property/random_plans.h"

namespace trireme::tests {

struct Drawn {
  planner::Job job;
  planner::Plan plan;
  StepProgram program;
  planner::Estimate estimate;
  std::string what;
};

// Chooses what of the model is trained.
using Training = std::function<void(Random&, planner::Job&)>;
enum class Chunks : std::uint8_t { kLooped, kInV };
enum class Sequences : std::uint8_t { kAny, kShared };
// Always the same for a seed; without `train` all is trained. In a V: pipelines whose chunks lie
// so. Shared: every plan has context ranks.
Drawn draw(const std::string& framework, std::uint64_t seed, const Training& train = {},
           Chunks chunks = Chunks::kLooped, Sequences sequences = Sequences::kAny);

// How far the stages' memory is from what their programs have alive at most, the mean over stages.
// Nothing to compare: layers of this project whose memory is counted as others keep it; PyTorch's
// pipelines that let go in between what they gathered, which their programs gather once.
std::optional<double> memory_difference(const Drawn& drawn);

}  // namespace trireme::tests
