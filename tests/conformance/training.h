// Trains one plan on the reference backend and collects what every layout must agree on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/program.h"
#include "models/transformer.h"
#include "planner/plan/job.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/plan.h"
#include "runtime/cpu/backend.h"
#include "runtime/execute.h"

namespace trireme::conformance {

using Tensors = std::map<std::string, std::vector<double>>;  // by parameter name, row-major

struct Outcome {
  std::vector<double> losses;  // by step
  std::vector<double> gradient_norms;
  Tensors gradients;                                          // of the first step, before clipping
  Tensors parameters;                                         // after the last step
  std::vector<std::int64_t> allocator_peaks, liveness_peaks;  // bytes, by rank
};

// Small shapes that a rank of 8 can still split: "gpt" (learned positions, LayerNorm, GELU, biases,
// tied), "llama" (rotary, RMSNorm, SwiGLU, grouped queries, untied), "qwen" (head norms, qkv
// biases, tied).
models::Transformer small_model(const std::string& kind);
// The job all layouts share: 8 sequences of 16 tokens.
planner::Job small_job(const models::Transformer& model, const std::string& framework);
// That of this project's runtime with a small model, adapters of a rank on every projection (0:
// none) and its first layers frozen.
planner::Job small_trained_job(const std::string& model, std::int64_t lora_rank,
                               std::int64_t frozen_layers);

// In double, ops in an order that a seed shuffles, over memory that is not clean.
inline constexpr runtime::cpu::CpuOptions kShuffled{
    .arithmetic = runtime::cpu::Arithmetic::kFp64, .shuffle_seed = 11, .poison = true};

enum class Ranks : std::uint8_t {
  kThreads,
  kProcesses,  // they meet as a launcher's do, through a store and over sockets
};

// Runs `steps` steps from one seed with warm-up, clipping and weight decay. Fails the running test
// when ranks that hold the same values disagree.
// Without `keep_gradients` their memory is freed within the step, and none are collected. Adapters
// begin as after some steps: at their own beginning the first matrices have no gradient.
Outcome train(planner::Job job, const planner::Plan& plan, std::int64_t steps,
              const runtime::cpu::CpuOptions& options, bool keep_gradients = true,
              Ranks ranks = Ranks::kThreads,
              std::int64_t streamed_elements = planner::kStreamedElements);

// Largest difference between tensors of `a` and `b`, each over max(b's largest entry, `floor` x the
// largest of all b).
double largest_difference(const Tensors& a, const Tensors& b, double floor);

// Root mean square of the difference over that of the reference, all tensors together.
double spread(const Tensors& actual, const Tensors& reference);

}  // namespace trireme::conformance
