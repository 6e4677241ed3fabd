#include "planner/search/counts.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kContextTokensMin =
    4096;  // a shorter piece of a sequence is not worth context parallelism

}  // namespace

std::vector<std::int64_t> context_degrees(const Job& job, std::int64_t most, bool named) {
  // NVIDIA's recipes cut 8,192 tokens in two (Llama 3 8B and 405B on H100).
  const std::int64_t shortest = (is_megatron(job.framework) ? 2 : 4) * kContextTokensMin;
  std::vector<std::int64_t> degrees = {1};
  for (const std::int64_t degree : divisors_of(most)) {
    const bool sensible = job.sequence / degree >= kContextTokensMin && job.sequence >= shortest;
    if (degree > 1 && (sensible || named) && job.sequence % (2 * degree) == 0) {
      degrees.push_back(degree);
    }
  }
  return degrees;
}

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> small;
  std::vector<std::int64_t> large;
  for (std::int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      small.push_back(divisor);
      if (divisor * divisor != number) {
        large.push_back(number / divisor);
      }
    }
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<std::int64_t> partly_recomputed(const Job& job, const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  const std::int64_t layers = (job.model.layers + chunks - 1) / chunks;
  std::vector<std::int64_t> counts;
  for (const std::int64_t quarter : {1, 2, 3}) {
    const std::int64_t count = (layers * quarter + 2) / 4;
    if (count > (counts.empty() ? 0 : counts.back()) && count < layers) {
      counts.push_back(count);
    }
  }
  return counts;
}

}  // namespace trireme::planner
