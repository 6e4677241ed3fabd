#include "planner/lower/state_stream.h"

#include <algorithm>
#include <string_view>

namespace trireme::planner::lowering {
namespace {

using Names = std::array<std::string_view, 3>;
constexpr Names kFetch = {"fetch_master", "fetch_moment1", "fetch_moment2"};
constexpr Names kReturn = {"return_master", "return_moment1", "return_moment2"};

}  // namespace

StateStream::Place StateStream::next_place(std::int64_t count) {
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  if (!present(place[0])) {
    const Origin before = builder_.origin;
    builder_.origin.layer = -1;
    for (Operand& state : place) {
      state = builder_.buffer("streamed_states", elements_, ElementType::kMaster);
    }
    builder_.origin = before;
  }
  Place part_of_it;
  for (std::size_t i = 0; i < place.size(); ++i) {
    part_of_it[i] = part(place[i], 0, count);
  }
  return part_of_it;
}

void StateStream::update_chunk(const StepOperands& unit, std::int64_t offset, std::int64_t count) {
  const Place here = next_place(count);
  for (std::size_t i = 0; i < here.size(); ++i) {
    builder_.copy(kFetch[i], part(unit.states[i], offset, count), here[i], Stream::kFromHost);
  }
  builder_.compute("adamw", Kernel::kAdamwCast, {count},
                   {own_part(unit.gradient, offset, count), unit.factor, here[0], here[1], here[2],
                    own_part(unit.weight, offset, count)});
  for (std::size_t i = 0; i < here.size(); ++i) {
    builder_.copy(kReturn[i], here[i], part(unit.states[i], offset, count), Stream::kToHost);
  }
}

void StateStream::update(const StepOperands& unit) {
  const std::int64_t all = unit.states[0].count;
  for (std::int64_t offset = 0; offset < all; offset += elements_) {
    update_chunk(unit, offset, std::min(elements_, all - offset));
  }
}

}  // namespace trireme::planner::lowering
