#include "planner/lower/experts.h"

namespace trireme::planner::lowering {
namespace {

Kernel activation(const Writer& w, bool backward) {
  if (w.job.model.gated_mlp) {
    return backward ? Kernel::kSwigluBackward : Kernel::kSwigluForward;
  }
  return backward ? Kernel::kGeluBackward : Kernel::kGeluForward;
}

}  // namespace

ExpertWriter::ExpertWriter(Writer& writer, const LayerSlots& slots)
    : w_(writer),
      slots_(slots),
      moe_(*writer.job.model.moe),
      ranks_(expert_ranks(writer.job, writer.plan)),
      own_(writer.shape.local_tokens),
      tokens_(own_ * ranks_.inner),
      slots_count_(tokens_ * moe_.experts_per_token),
      local_(moe_.experts / ranks_.experts),
      ffn_(moe_.expert_ffn / ranks_.inner),
      up_((writer.job.model.gated_mlp ? 2 : 1) * ffn_),
      shared_ffn_(moe_.shared_ffn / writer.plan.tensor),
      shared_up_((writer.job.model.gated_mlp ? 2 : 1) * shared_ffn_),
      sigmoid_(writer.job.model.function.router_score == "sigmoid"),
      codes_(kept_codes(writer.job, writer.plan)) {}

Operand ExpertWriter::over_sharers(const char* name, const Operand& own, ElementType type) {
  if (w_.groups.expert_tensor == kNoGroup) {
    return own;
  }
  const Operand all = w_.builder.buffer(name, own.count * ranks_.inner, type);
  w_.builder.all_gather(name, w_.groups.expert_tensor, own, all, Stream::kExpert);
  return all;
}

Operand ExpertWriter::sum_of_sharers(const char* name, const Operand& all, std::int64_t own,
                                     ElementType type) {
  if (w_.groups.expert_tensor == kNoGroup) {
    return all;
  }
  const Operand sum = w_.builder.buffer(name, own, type);
  w_.builder.reduce_scatter(name, w_.groups.expert_tensor, all, sum, Stream::kExpert);
  return sum;
}

void ExpertWriter::choose(const Operand& input, ExpertState& state) {
  const std::int64_t experts = moe_.experts;
  const std::int64_t chosen = moe_.experts_per_token;
  state.logits = w_.builder.buffer("router", own_ * experts, ElementType::kMaster);
  w_.builder.compute("router", Kernel::kMatmul, {own_, experts, w_.shape.hidden, 0, 1, 0},
                     {input, w_.units.weight(slots_.router), state.logits});
  state.weights = w_.builder.buffer("expert_weights", own_ * chosen, ElementType::kMaster);
  state.chosen = w_.builder.buffer("chosen_experts", own_ * chosen, ElementType::kToken);
  const bool biased = slots_.router_bias.count > 0;
  w_.builder.compute("routing", Kernel::kRouteForward,
                     {own_, experts, chosen, sigmoid_ ? 1 : 0, biased ? 1 : 0},
                     {state.logits, biased ? w_.units.weight(slots_.router_bias) : state.logits,
                      state.weights, state.chosen});
}

// The rows of all slots, sorted by expert.
Operand ExpertWriter::order(const Operand& input, ExpertState& state) {
  const Operand all = over_sharers("expert_input", input, ElementType::kCompute);
  state.all_weights = over_sharers("all_expert_weights", state.weights, ElementType::kMaster);
  const Operand chosen = over_sharers("all_chosen_experts", state.chosen, ElementType::kToken);
  state.places = w_.builder.buffer("expert_places", slots_count_, ElementType::kToken);
  state.counts = w_.builder.buffer("expert_counts", moe_.experts, ElementType::kToken);
  w_.builder.compute("expert_places", Kernel::kExpertPlaces, {slots_count_, moe_.experts},
                     {chosen, state.places, state.counts});
  state.arrived = state.counts;
  if (w_.groups.expert != kNoGroup) {
    state.arrived = w_.builder.buffer("arrived_counts", moe_.experts, ElementType::kToken);
    w_.builder.all_to_all("expert_counts", w_.groups.expert, state.counts, state.arrived,
                          Stream::kExpert);
  }
  const Operand sorted =
      w_.builder.buffer("permuted", slots_count_ * w_.shape.hidden, ElementType::kCompute);
  w_.builder.compute("permute", Kernel::kPermuteRows,
                     {tokens_, moe_.experts_per_token, w_.shape.hidden},
                     {all, state.places, sorted});
  return sorted;
}

// Rows sorted by expert, from the ranks that chose to those that hold the experts.
Operand ExpertWriter::dispatch(const char* name, const Operand& sorted, const ExpertState& state) {
  if (w_.groups.expert == kNoGroup) {
    return sorted;
  }
  const std::int64_t hidden = w_.shape.hidden;
  const Operand received =
      w_.builder.buffer("received_rows", w_.shape.expert_rows * hidden, ElementType::kCompute);
  w_.builder.exchange_rows(name, {w_.groups.expert, hidden}, sorted, received, state.counts,
                           state.arrived, Stream::kExpert);
  return received;
}

Operand ExpertWriter::by_expert(const Operand& received, const ExpertState& state) {
  if (w_.groups.expert == kNoGroup) {
    return received;
  }
  const Operand rows = w_.builder.buffer("expert_rows", received.count, ElementType::kCompute);
  w_.builder.compute("regroup", Kernel::kRegroupRows,
                     {slots_count_, w_.shape.hidden, ranks_.experts, local_, 0},
                     {received, state.arrived, rows});
  return rows;
}

Operand ExpertWriter::bring_back(const char* name, const Operand& rows, const ExpertState& state) {
  if (w_.groups.expert == kNoGroup) {
    return rows;
  }
  const std::int64_t hidden = w_.shape.hidden;
  const Operand leaving = w_.builder.buffer("leaving_rows", rows.count, ElementType::kCompute);
  w_.builder.compute("regroup", Kernel::kRegroupRows,
                     {slots_count_, hidden, ranks_.experts, local_, 1},
                     {rows, state.arrived, leaving});
  const Operand sorted =
      w_.builder.buffer("returned_rows", slots_count_ * hidden, ElementType::kCompute);
  w_.builder.exchange_rows(name, {w_.groups.expert, hidden}, leaving, sorted, state.arrived,
                           state.counts, Stream::kExpert);
  return sorted;
}

void ExpertWriter::activate(ExpertState& state) {
  state.activation =
      w_.builder.buffer("expert_activation", w_.shape.expert_rows * ffn_, ElementType::kCompute);
  w_.builder.compute("expert_activation", activation(w_, false), {w_.shape.expert_rows, ffn_},
                     {state.up, state.activation});
}

void ExpertWriter::products(ExpertState& state) {
  const Routed to = routed(state);
  state.up = multiply("experts_up", up_product(to), state.rows, state.narrow_up);
  activate(state);
  const Operand rows =
      multiply("experts_down", down_product(to), state.activation, state.narrow_down);
  state.output = bring_back("combine", rows, state);
}

void ExpertWriter::repeat(const Operand& input, ExpertState& state) {
  choose(input, state);
  const Operand sorted = order(input, state);
  // Beside the exchange, and issued before it: the host queues an exchange when it has read how
  // many rows come, and the GPU has this to do until then.
  shared_forward(input, state);
  const Operand received = dispatch("dispatch", sorted, state);
  state.rows = by_expert(received, state);
  products(state);
}

Operand ExpertWriter::forward(const Operand& input, ExpertState& state) {
  repeat(input, state);
  const Operand all =
      w_.builder.buffer("combined", tokens_ * w_.shape.hidden, ElementType::kCompute);
  w_.builder.compute("unpermute", Kernel::kCombineRows,
                     {tokens_, moe_.experts_per_token, w_.shape.hidden, 1},
                     {state.output, state.places, state.all_weights, all});
  const Operand sum =
      sum_of_sharers("expert_reduce", all, own_ * w_.shape.hidden, ElementType::kCompute);
  if (slots_.shared_up.count > 0) {
    const Operand shared = shared_output(state);
    w_.builder.compute("shared_sum", Kernel::kAdd, {sum.count}, {sum, shared});
  }
  drop_inputs(state);
  return sum;
}

void ExpertWriter::drop_inputs(ExpertState& state) const {
  if (codes_.experts_up) {
    state.rows = {};
  }
  if (codes_.experts_down) {
    state.activation = {};
  }
  if (codes_.shared_down) {
    state.shared_activation = {};
  }
}

void ExpertWriter::drop(std::uint16_t modules, ExpertState& state) {
  if ((modules & kMoe) != 0) {
    state = {};
  }
  if ((modules & kMoeActivation) != 0) {
    state.activation = {};
  }
  if ((modules & kSharedExperts) != 0) {
    state.shared_up = state.shared_activation = {};
  }
}

void ExpertWriter::repeat_dropped(const Operand& input, ExpertState& state) {
  if (!present(state.logits)) {
    repeat(input, state);
    return;
  }
  if (!present(state.activation) && !codes_.experts_down) {
    activate(state);
  }
  if (!present(state.shared_activation) && !codes_.shared_down) {
    shared_forward(input, state);
  }
}

// From the gradient of the layer's output to those of the experts' outputs and of the weights of
// the own tokens.
Operand ExpertWriter::choice_gradient(const Operand& dy, ExpertState& state, Operand& d_weights) {
  const Operand all = over_sharers("d_expert_output", dy, ElementType::kCompute);
  const Operand d_output =
      w_.builder.buffer("d_permuted", slots_count_ * w_.shape.hidden, ElementType::kCompute);
  const Operand d_all_weights =
      w_.builder.buffer("d_expert_weights", slots_count_, ElementType::kMaster);
  w_.builder.compute("unpermute_gradient", Kernel::kCombineBackward,
                     {tokens_, moe_.experts_per_token, w_.shape.hidden},
                     {all, state.output, state.places, state.all_weights, d_output, d_all_weights});
  d_weights = sum_of_sharers("d_own_weights", d_all_weights, own_ * moe_.experts_per_token,
                             ElementType::kMaster);
  return d_output;
}

// Adds the router's share to the gradient of its input. A bias that only chooses has none.
void ExpertWriter::router_gradient(const Operand& d_weights, const Operand& d_input,
                                   ExpertState& state) {
  const std::int64_t experts = moe_.experts;
  state.d_logits = w_.builder.buffer("d_router", own_ * experts, ElementType::kCompute);
  w_.builder.compute("routing_gradient", Kernel::kRouteBackward,
                     {own_, experts, moe_.experts_per_token, sigmoid_ ? 1 : 0},
                     {d_weights, state.weights, state.chosen, state.logits, state.d_logits});
  w_.builder.compute("d_router_input", Kernel::kMatmul, {own_, w_.shape.hidden, experts, 0, 0, 1},
                     {state.d_logits, w_.units.weight(slots_.router), d_input});
}

void ExpertWriter::router_weight_gradient(const Operand& input, const ExpertState& state) {
  linear_weight_gradient(w_, "router_weight", state.d_logits, input, slots_.router, own_,
                         w_.shape.hidden, moe_.experts);
  if (slots_.router_bias.count > 0) {
    const GradientTarget target = w_.units.gradient(slots_.router_bias);
    if (target.accumulate == 0) {
      w_.builder.compute("router_bias", Kernel::kZero, {moe_.experts}, {target.operand});
    }
  }
}

void ExpertWriter::expert_weight_gradients(ExpertState& state) {
  const Routed to = routed(state);
  weight_gradient("experts_down_weight", down_product(to), state.d_rows, state.activation,
                  state.narrow_down);
  weight_gradient("experts_up_weight", up_product(to), state.d_up, state.rows, state.narrow_up);
}

Operand ExpertWriter::backward(const Operand& dy, const Operand& input, ExpertState& state,
                               bool split) {
  Operand d_weights;
  const Operand d_output = choice_gradient(dy, state, d_weights);
  const Operand received = dispatch("combine_gradient", d_output, state);
  const Operand shared = shared_backward(dy, input, state, split);  // beside the exchange
  state.d_rows = by_expert(received, state);
  const Routed to = routed(state);
  const Operand d_activation =
      input_gradient("d_expert_activation", down_product(to), state.d_rows, state.narrow_down);
  state.d_up = w_.builder.buffer("d_experts_up", w_.shape.expert_rows * up_, ElementType::kCompute);
  w_.builder.compute("d_experts_up", activation(w_, true), {w_.shape.expert_rows, ffn_},
                     {d_activation, state.up, state.d_up});
  const Operand d_rows =
      input_gradient("d_expert_rows", up_product(to), state.d_up, state.narrow_up);
  const Operand d_sorted = bring_back("dispatch_gradient", d_rows, state);
  if (!split) {
    expert_weight_gradients(state);  // beside the exchange
  }
  const Operand d_all =
      w_.builder.buffer("d_expert_input", tokens_ * w_.shape.hidden, ElementType::kCompute);
  w_.builder.compute("permute_gradient", Kernel::kCombineRows,
                     {tokens_, moe_.experts_per_token, w_.shape.hidden, 0},
                     {d_sorted, state.places, state.all_weights, d_all});
  const Operand d_input =
      sum_of_sharers("d_expert_reduce", d_all, own_ * w_.shape.hidden, ElementType::kCompute);
  router_gradient(d_weights, d_input, state);
  if (!split) {
    router_weight_gradient(input, state);
  }
  if (present(shared)) {
    w_.builder.compute("shared_gradient", Kernel::kAdd, {d_input.count}, {d_input, shared});
  }
  return d_input;
}

void ExpertWriter::weight_gradients(const Operand& input, ExpertState& state) {
  expert_weight_gradients(state);
  router_weight_gradient(input, state);
  if (slots_.shared_up.count > 0) {
    shared_weight_gradients(gather_tokens(w_, "shared_input", input), state);
  }
}

void ExpertWriter::shared_forward(const Operand& input, ExpertState& state) {
  if (slots_.shared_up.count == 0) {
    return;
  }
  const Shape& s = w_.shape;
  const Operand all = gather_tokens(w_, "shared_input", input);
  state.shared_up = product(w_, "shared_up", shared_up(), all, state.narrow_shared_up);
  state.shared_activation =
      w_.builder.buffer("shared_activation", s.tokens * shared_ffn_, ElementType::kCompute);
  w_.builder.compute("shared_activation", activation(w_, false), {s.tokens, shared_ffn_},
                     {state.shared_up, state.shared_activation});
}

Operand ExpertWriter::shared_output(ExpertState& state) {
  const Operand partial =
      product(w_, "shared_down", shared_down(), state.shared_activation, state.narrow_shared_down);
  return reduce_tokens(w_, "shared_reduce", partial);
}

void ExpertWriter::shared_weight_gradients(const Operand& input, ExpertState& state) {
  product_weight_gradient(w_, "shared_down_weight", shared_down(), state.d_shared,
                          state.shared_activation, state.narrow_shared_down);
  product_weight_gradient(w_, "shared_up_weight", shared_up(), state.d_shared_up, input,
                          state.narrow_shared_up);
}

Operand ExpertWriter::shared_backward(const Operand& dy, const Operand& input, ExpertState& state,
                                      bool split) {
  if (slots_.shared_up.count == 0) {
    return {};
  }
  const Shape& s = w_.shape;
  state.d_shared = gather_tokens(w_, "d_shared_output", dy);
  const Operand all = split ? Operand{} : gather_tokens(w_, "shared_input", input);
  const Operand d_activation = product_input_gradient(w_, "d_shared_activation", shared_down(),
                                                      state.d_shared, state.narrow_shared_down);
  state.d_shared_up =
      w_.builder.buffer("d_shared_up", s.tokens * shared_up_, ElementType::kCompute);
  w_.builder.compute("d_shared_up", activation(w_, true), {s.tokens, shared_ffn_},
                     {d_activation, state.shared_up, state.d_shared_up});
  const Operand partial = product_input_gradient(w_, "d_shared_input", shared_up(),
                                                 state.d_shared_up, state.narrow_shared_up);
  const Operand reduced = reduce_tokens(w_, "d_shared_reduce", partial);
  settle_tensor(w_);
  if (!split) {
    shared_weight_gradients(all, state);
  }
  return reduced;
}

}  // namespace trireme::planner::lowering
