#include "planner/plan/job_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

constexpr double kBytesMax = 8e18;  // 2^63 is 9.2e18
constexpr double kPerElement = 64;  // bytes of all that a layer keeps, for one element of its width
constexpr double kPerScore = 8;

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

// Elements a token has in the widest tensor of any layer, experts' copies counted.
double widest(const models::Transformer& model) {
  double width = std::max({as_double(model.hidden), as_double(model.ffn), as_double(model.vocab),
                           as_double(model.heads) * as_double(model.head_dim)});
  if (model.latent) {
    width = std::max(width, as_double(model.heads) * (as_double(model.latent->qk_nope) +
                                                      as_double(model.latent->qk_rope) +
                                                      as_double(model.latent->v_head)));
  }
  if (model.moe) {
    const models::MixtureOfExperts& moe = *model.moe;
    width = std::max(width, as_double(moe.experts_per_token) *
                                (as_double(moe.expert_ffn) + as_double(model.hidden)));
  }
  return width;
}

}  // namespace

void check_job(const Job& job) {
  const models::Transformer& model = job.model;
  const double layers = as_double(model.layers);
  const double tokens = as_double(job.sequence) * as_double(job.global_batch);
  const double kept = tokens * kPerElement * (widest(model) + as_double(model.hidden) * layers);
  const double scores = attention_kernel(job) == models::AttentionKernel::kUnfused
                            ? tokens * as_double(job.sequence) * as_double(model.heads) * layers
                            : 0;
  if (kept > kBytesMax || scores * kPerScore > kBytesMax) {
    throw Error("--seq and --global-batch",
                fmt::format("{} tokens x {} sequences make a step of {:.3g} tokens, whose {} are "
                            "more than 64 bits count; a smaller step would be right",
                            job.sequence, job.global_batch, tokens,
                            kept > kBytesMax ? "activations" : "attention scores"));
  }
}

}  // namespace trireme::planner
