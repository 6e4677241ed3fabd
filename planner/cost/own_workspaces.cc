#include "planner/cost/own_workspaces.h"

#include <algorithm>

namespace trireme::planner {
namespace {

constexpr double kProducts = 32.0 * 1024 * 1024;  // MatmulLibrary::kWorkspaceBytes
constexpr double kSum = 4;                        // fp32
constexpr double kValue = 2;                      // bf16

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

// Rows of partial sums, one for a weight and one for a bias (scratch_bytes of
// runtime/cuda/norm.cu).
double partial_sums(const Job& job, const Shape& shape) {
  constexpr double kRows = 2 * 528;
  constexpr std::int64_t kLeastColumns = 1024;
  std::int64_t columns = std::max(kLeastColumns, shape.hidden);
  if (!job.training.has_adapters()) {  // beside adapters no bias is trained
    columns =
        std::max({columns, job.model.qkv_bias ? shape.qkv : 0, job.model.mlp_bias ? shape.up : 0});
  }
  return kRows * as_double(columns) * kSum;
}

// cuDNN's own: gradients of keys and values a query head, summed over the heads that share them.
double head_gradients(const Shape& shape, double keys) {
  return shape.heads > shape.kv_heads
             ? keys * as_double(shape.heads) * as_double(shape.head_dim + shape.v_dim) * kValue
             : 0;
}

// Attention over all of a sequence; under all-to-all (Ulysses) over a part of the heads.
double whole_attention(const Shape& shape) {
  const double tokens = as_double(shape.tokens);
  const double heads = as_double(shape.heads);
  return tokens * heads * (as_double(shape.head_dim) + 1) * kSum + head_gradients(shape, tokens);
}

// Attention of a part of the queries to a part of the keys, whose gradients are summed outside the
// library (runtime/cuda/context_attention.cc, ring_attention.cc).
double partial_attention(const Shape& shape, double queries, double keys) {
  const double heads = as_double(shape.heads);
  const double width = as_double(shape.head_dim);
  return queries * heads * (kSum + width * (kSum + kValue)) + head_gradients(shape, keys);
}

double attention(const Job& job, const Plan& plan, const Shape& shape) {
  if (attention_kernel(job) != models::AttentionKernel::kFlash) {
    return 0;
  }
  if (plan.context == 1 || shape.exchanges_heads) {
    return whole_attention(shape);
  }
  const double tokens = as_double(shape.tokens);
  if (!job.framework.context_gather) {
    return partial_attention(shape, tokens, tokens);
  }
  // Two chunks a rank, from both ends: the last one looks back on all others.
  const double chunk = tokens / 2;
  const double keys = (2 * as_double(plan.context) - 1) * chunk;
  const double gathered = as_double(shape.kv_heads) * as_double(shape.head_dim + shape.v_dim);
  return partial_attention(shape, chunk, keys) + keys * gathered * kValue;
}

}  // namespace

double own_workspaces(const Job& job, const Plan& plan, const Shape& shape) {
  return kProducts + partial_sums(job, shape) + attention(job, plan, shape);
}

}  // namespace trireme::planner
