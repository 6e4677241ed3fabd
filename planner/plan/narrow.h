// Training in 8 bits as this project's runtime does it: which products, of which jobs.
#pragma once

#include <cstdint>
#include <string>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// What `run` says of a job in fp8 or fp4 that it does not execute so, whatever its layout; and of a
// layout of one that it does. Empty: it runs. `plan` asks the same.
std::string narrow_refusal(const Job& job);
std::string narrow_refusal(const Job& job, const Plan& plan);
// Whether it multiplies in 8 bits, with casts that are passes of their own: the products of layers
// (queries, keys and values, by way of latents too; attention's output; both of the MLP, of routed
// experts and of those that all share), forward and backward. Embeddings, head, norms, attention
// and routers stay in 16 bits.
bool multiplies_narrow(const Job& job);

// Inputs of products that a layer keeps as codes, transposed for its backward, and not in 16 bits:
// those that nothing else reads again. Attention's output its own backward reads, what experts
// share their router's and what latents are made of several products'; what the plan
// repeats is cast anew; what goes to the host goes in 16 bits, which adapters read too; under
// sequence parallelism a layer keeps its own tokens of the first two.
struct KeptCodes {
  bool qkv = false, up = false, down = false;
  bool experts_up = false, experts_down = false, shared_down = false;  // of layers with experts
  friend bool operator==(const KeptCodes&, const KeptCodes&) = default;
};
KeptCodes kept_codes(const Job& job, const Plan& plan);
// Of one kept so, with its share of scales that lie beside.
double bytes_of_code(const Job& job);

// Extents of a product in 8 bits are multiples of as many elements (cuBLASLt: leading dimensions of
// whole 16 bytes); by blocks of as many as share a scale (Transformer Engine asks the same).
inline constexpr std::int64_t kNarrowMultiple = 16;

}  // namespace trireme::planner
