#include "planner/cost/own_experts.h"

#include <algorithm>

#include "planner/plan/narrow.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

constexpr double kElement = 2;  // bytes, bf16

double bytes(std::int64_t rows, std::int64_t width) {
  return kElement * static_cast<double>(rows) * static_cast<double>(width);
}

// Of such a backward in 8 bits (planner/lower/experts.cc), over what is alive beside the experts:
// gradients' codes and their transposes, which stay until the weights' gradients, and the weights'
// transposes. The outputs that came back (`slots`) are free by then.
double narrow_transient(double slots, double room, double activation, double up, double down_weight,
                        double up_weight, bool exchanges) {
  const double moments[] = {
      2 * room,                                // the rows' gradient is cast both ways
      room + down_weight + activation,         // and multiplied
      room / 2 + activation + up,              // through the function between
      room / 2 + up,                           // what that gave is cast, its input gone
      room / 2 + up_weight + room,             // and multiplied
      exchanges ? 2.5 * room - up / 2 : room,  // and put in order to go back
  };
  return std::ranges::max(moments) - slots;
}

}  // namespace

bool runs_own_experts(const Job& job, const Plan& plan) {
  return job.framework.implementation == models::Implementation::kTrireme && job.model.moe &&
         !is_modelled_layer(job, plan, job.model.layers - 1);
}

double own_expert_transient(const Job& job, const Plan& plan) {
  const models::MixtureOfExperts& moe = *job.model.moe;
  const Shape s = shape_of(job, plan);
  const ExpertRanks ranks = expert_ranks(job, plan);
  const std::int64_t tokens = s.local_tokens * ranks.inner;
  const std::int64_t ffn = moe.expert_ffn / ranks.inner;
  const std::int64_t gated = job.model.gated_mlp ? 2 : 1;
  const double slots = bytes(tokens * moe.experts_per_token, s.hidden);  // in the senders' order
  const double room = bytes(s.expert_rows, s.hidden);
  const double stream = bytes(s.local_tokens, s.hidden);
  // The shared expert's backward: its gradients beside what it kept, then the gradient of the
  // layer's input in place of both.
  const std::int64_t shared_ffn = moe.shared_ffn / plan.tensor;
  const double gathered = s.sequence_parallel ? bytes(s.tokens, s.hidden) : 0;
  const double kept = bytes(s.tokens, (gated + 1) * shared_ffn);
  const bool shares = moe.shared_ffn > 0;
  const double in_shared = shares ? 2 * gathered + kept : 0;
  const double after_shared = shares ? stream - kept : 0;
  // By when the outputs that came back (slots) are free, but for the first moment.
  const double all = ranks.inner > 1 ? bytes(tokens, s.hidden) : 0;
  const double products = bytes(s.expert_rows, (gated + 1) * ffn);
  // Elements of one matrix of all experts here: bytes, as codes of 8 bits.
  const double matrix = static_cast<double>(s.hidden * ffn * (moe.experts / ranks.experts));
  // Weights of experts that no other rank holds are cast before and free after the last product.
  const bool casts = plan.sharding == Sharding::kFull && plan.sharded > 1 && ranks.shards == 1;
  const double weights = casts ? kElement * static_cast<double>(gated + 1) * matrix : 0;
  double most = all + slots + weights;
  if (multiplies_narrow(job)) {
    const double in_experts =
        narrow_transient(slots, room, bytes(s.expert_rows, ffn), bytes(s.expert_rows, gated * ffn),
                         matrix, static_cast<double>(gated) * matrix, plan.expert > 1);
    const double received = plan.expert > 1 ? room : 0;
    most = std::max({most, received + in_shared + weights, after_shared + in_experts + weights});
  } else if (plan.expert > 1) {  // rows are received, put in order, and back
    most = std::max({most, room + in_shared + weights,
                     after_shared + room + products - slots + weights,
                     after_shared + 3 * room - slots, after_shared + 2 * room});
  } else {
    most = std::max({most, in_shared, after_shared + products, after_shared + slots});
  }
  return stream + most;
}

}  // namespace trireme::planner
