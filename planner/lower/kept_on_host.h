// What layers keep for their backward, in the host's memory meanwhile: it goes down behind a
// layer's forward and comes back, into new memory, beside the backward of the layer above.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

class KeptOnHost {
 public:
  explicit KeptOnHost(ProgramBuilder& builder) : builder_(builder) {}

  // Call right after the layer's forward. Compute goes on once what went before the last one is
  // down, so that the memory of two layers at most waits for the link.
  void take_down(LayerState& state);
  // Back where it can be read, unless it is there already.
  void bring_back(LayerState& state);

 private:
  using Size = std::pair<std::int64_t, ElementType>;  // elements of a type

  [[nodiscard]] Operand place_for(const Size& size);
  void wait_for_oldest();

  ProgramBuilder& builder_;
  std::map<Size, std::deque<Operand>> free_;  // places on the host, the longest free first
  std::deque<OpId> going_;                    // a layer's last copy each
};

}  // namespace trireme::planner::lowering
