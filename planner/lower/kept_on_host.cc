#include "planner/lower/kept_on_host.h"

#include <algorithm>

namespace trireme::planner::lowering {
namespace {

// What a forward leaves behind. Not its numbers of rows, which are small, and which the host reads.
std::vector<Operand*> kept_in(LayerState& s) {
  std::vector<Operand*> kept = {
      &s.raw_qkv,           &s.head_rstd,       &s.qkv, &s.attention,  &s.statistics,
      &s.whole_qkv,         &s.whole_attention, &s.up,  &s.activation, &s.gathered_attention_input,
      &s.gathered_mlp_input};
  for (NormState* norm : {&s.attention_norm, &s.mlp_norm, &s.attention_post_norm, &s.mlp_post_norm,
                          &s.latent.q_norm, &s.latent.kv_norm}) {
    kept.insert(kept.end(), {&norm->x, &norm->mean, &norm->rstd});
  }
  // What the norms behind the halves write is the stream, which only the next norm reads.
  for (NormState* norm : {&s.attention_norm, &s.mlp_norm, &s.latent.q_norm, &s.latent.kv_norm}) {
    kept.push_back(&norm->y);
  }
  ExpertState& e = s.experts;
  kept.insert(kept.end(), {&e.logits, &e.weights, &e.all_weights, &e.rows, &e.up, &e.activation,
                           &e.output, &e.shared_up, &e.shared_activation});
  for (Operand& low : s.low) {
    kept.push_back(&low);
  }
  std::erase_if(kept, [](const Operand* operand) { return !present(*operand); });
  return kept;
}

// Every operand becomes what `move` makes of it; those that are one stay one.
template <typename Move>
void move_each(LayerState& state, const Move& move) {
  std::vector<std::pair<Operand, Operand>> moved;
  for (Operand* operand : kept_in(state)) {
    auto known = std::ranges::find(moved, *operand, &std::pair<Operand, Operand>::first);
    if (known == moved.end()) {
      moved.emplace_back(*operand, move(*operand));
      known = moved.end() - 1;
    }
    *operand = known->second;
  }
}

}  // namespace

Operand KeptOnHost::place_for(const Size& size) {
  std::deque<Operand>& places = free_[size];
  if (places.empty()) {
    return builder_.host_buffer("kept_on_host", size.first, size.second);
  }
  const Operand place = places.front();
  places.pop_front();
  return place;
}

void KeptOnHost::wait_for_oldest() {
  if (!going_.empty()) {
    builder_.also_wait(going_.front());
    going_.pop_front();
  }
}

void KeptOnHost::take_down(LayerState& state) {
  if (going_.size() > 1) {
    wait_for_oldest();
  }
  OpId last = kNoOp;
  move_each(state, [&](const Operand& here) {
    const Operand there = place_for({here.count, builder_.type_of(here)});
    last = builder_.copy("take_down", here, there, Stream::kToHost);
    return there;
  });
  going_.push_back(last);
  state.on_host = true;
}

void KeptOnHost::bring_back(LayerState& state) {
  if (!state.on_host) {
    return;
  }
  wait_for_oldest();
  move_each(state, [&](const Operand& there) {
    const Size size{there.count, builder_.type_of(there)};
    const Operand here = builder_.buffer("brought_back", size.first, size.second);
    builder_.copy("bring_back", there, here, Stream::kFromHost);
    free_[size].push_back(there);
    return here;
  });
  state.on_host = false;
}

}  // namespace trireme::planner::lowering
