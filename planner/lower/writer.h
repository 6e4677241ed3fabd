// What every block writer has at hand, and the steps they share: matrix products with their
// gradients, norms, and the collectives of tensor and sequence parallelism.
#pragma once

#include <string_view>

#include "models/work.h"
#include "planner/lower/builder.h"
#include "planner/lower/delayed.h"
#include "planner/lower/held_memory.h"
#include "planner/lower/parameters.h"
#include "planner/lower/place_ranks.h"
#include "planner/lower/unit_keeper.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

struct Writer {
  const Job& job;
  const Plan& plan;
  const Shape& shape;
  const Groups& groups;
  const StageParameters& stage;
  ProgramBuilder& builder;
  UnitKeeper& units;
  const HeldMemory& held;
  DelayedScales& delayed;
};

// A norm's input, output and statistics, kept for its backward.
struct NormState {
  Operand x, y, mean, rstd;
};

// A group as a kernel's dim names it.
inline std::int64_t group_dim(GroupId group) {
  return group == kNoGroup ? -1 : static_cast<std::int64_t>(index_of(group));
}

// y[rows, out] = x[rows, in] W^T, W [out, in].
Operand linear(Writer& w, std::string_view name, const Operand& x, const Slot& weight,
               std::int64_t rows, std::int64_t in, std::int64_t out);
// y += bias, when the model has one.
void add_bias(Writer& w, std::string_view name, const Operand& y, const Slot& bias,
              std::int64_t rows);
// dx[rows, in] = dy[rows, out] W.
Operand linear_input_gradient(Writer& w, std::string_view name, const Operand& dy,
                              const Slot& weight, std::int64_t rows, std::int64_t in,
                              std::int64_t out);
// dW (+)= dy^T x, where W is trained.
void linear_weight_gradient(Writer& w, std::string_view name, const Operand& dy, const Operand& x,
                            const Slot& weight, std::int64_t rows, std::int64_t in,
                            std::int64_t out);
void bias_gradient(Writer& w, std::string_view name, const Operand& dy, const Slot& bias,
                   std::int64_t rows);

// Over the rows of x, as many as the residual stream has tokens on this rank.
NormState norm(Writer& w, std::string_view name, const Operand& x, const NormSlots& slots);
// Gradient of the norm's input, plus `residual` (count 0: none). Writes over dy unless `dx` is
// there.
Operand norm_gradient(Writer& w, std::string_view name, const Operand& dy, const NormState& state,
                      const NormSlots& slots, const Operand& residual, Operand dx = {});

// Sequence parallelism: all tokens' rows from every rank's; otherwise what it was given.
Operand gather_tokens(Writer& w, std::string_view name, const Operand& local);
// Sums partial results of the tensor ranks; under sequence parallelism keeps the own tokens only.
Operand reduce_tokens(Writer& w, std::string_view name, const Operand& partial);
// Parts of models/work.h as ops that are timed and not executed: one product, out of `a` and `b`.
void write_product(Writer& w, const models::Matmul& product, const Operand& a, const Operand& b,
                   const Operand& output);
// All passes over memory of a half, as one op.
void write_passes(Writer& w, std::string_view name, const models::PassWork& work, models::Half half,
                  const Operand& input, const Operand& output);

// In a backward without overlap the compute stream waits for the tensor collective before it goes
// on.
void settle_tensor(Writer& w);

}  // namespace trireme::planner::lowering
