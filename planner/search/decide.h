// F21 to F27: the rules of thumb by number, as given, each beside what the planner chose. None of
// them ranks plans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/formulas.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// The three ways that F21 and F22 tell apart, and DDP, which F23 adds.
enum class Family : std::uint8_t { kDdp, kFsdp, kMegatron, kHybrid };
std::string_view to_string(Family family);
// Megatron: tensor or pipeline parallel without sharded parameters; hybrid: with them; FSDP:
// sharded states alone.
Family family_of(const Plan& plan);

// F21's matrix, each point 0 or 1, averaged: code (O(L C) once layers are split), debugging
// (pipelines), constraints on the architecture (tensor parallelism), topology of communication
// (more than one axis), fault tolerance.
double f21_complexity(const Plan& plan);

// What a rule says, and whether the chosen plan follows it.
struct Verdict {
  std::string_view rule;  // "F22"
  std::string says;
  std::string why;  // with the numbers
  bool agrees = false;
};

struct F22Input {
  double tensor_optimum = 1;  // P_t* of F20 under the constraint
  double activations = 0;     // A, elements
  double shard = 1;           // d/P
  double micro_batches = 1, pipeline = 1;
  bool irregular = false;  // layers that differ: experts in some layers only
};
struct Favour {
  bool fsdp = false, megatron = false;
  std::string why;
};
Favour f22_favour(const F22Input& in);

struct F23Input {
  double parameters = 0;
  double gpus = 1;
  bool fits_one_gpu = false;
  bool batch_fits_one_pass = true;  // the batch of a rank goes through at once
  bool fits_zero2 = false;          // optimizer and gradients sharded, parameters whole
  bool has_zero2 = true;            // else that is with the optimizer's states alone sharded
};
// Names as the sources give them: DDP = NO_SHARD, ZeRO-2 = SHARD_GRAD_OP, ZeRO-3 = FULL_SHARD.
struct Advice {
  std::string strategy;
  std::string why;
  std::vector<Family> families;  // that follow it
  int zero_stage = 0;            // that it asks of them; 0: any
};
Advice f23_tree(const F23Input& in);

// F24: what to look at before running the plan. `batch_before` 0 = not known.
std::vector<std::string> f24_warnings(const Job& job, const Plan& plan);

// F26, as given: relative variance of the reduced gradient.
double f26_variance_fsdp(double devices);                            // 1/P
double f26_variance_megatron(double tensor, double pipeline_noise);  // 1/P_t + eps_pipeline

// F27: one row a family.
struct ComparisonRow {
  Family family = Family::kFsdp;
  std::string memory, pattern, scalability, precision;
};
std::vector<ComparisonRow> f27_comparison(const Job& job, const Plan& plan);

}  // namespace trireme::planner
