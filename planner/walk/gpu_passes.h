// What each op of a rank's passes adds to the time that its GPU needs for them: kernels, and what
// of the exchanges kernels wait for. Messages between stages and what units of parameters send are
// not among them.
#pragma once

#include <optional>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"

namespace trireme::planner {

enum class PassDirection : std::uint8_t { kForward, kBackward };
// Nothing: gathers and reductions of parameters, the optimizer.
std::optional<PassDirection> pass_of(const Op& op);

struct OpOnGpu {
  double seconds = 0;   // of a kernel: until it ends, from the end of the kernel before
  bool beside = false;  // it begins while an exchange is under way
};

// By op. `slowdown`: share by which kernels beside an exchange are slower.
std::vector<OpOnGpu> gpu_passes(const Program& role, const std::vector<OpTime>& times,
                                double slowdown);

}  // namespace trireme::planner
