#include "planner/walk/gpu_passes.h"

#include <algorithm>

#include "core/units.h"

namespace trireme::planner {

std::optional<PassDirection> pass_of(const Op& op) {
  switch (op.origin.phase) {
    case Phase::kForward:
      return PassDirection::kForward;
    case Phase::kRecompute:
    case Phase::kBackward:
    case Phase::kWeightGradient:
      return PassDirection::kBackward;
    case Phase::kParameterGather:
    case Phase::kGradientReduce:
    case Phase::kOptimizer:
      break;
  }
  return std::nullopt;
}

std::vector<OpOnGpu> gpu_passes(const Program& role, const std::vector<OpTime>& times,
                                double slowdown) {
  std::vector<OpOnGpu> ops(role.ops.size());
  std::vector<double> ends(role.ops.size(), 0);
  std::vector<double> streams(role.streams.size(), 0);
  double kernels = 0;    // end of the last one
  double exchanges = 0;  // of the last one
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const bool message =
        std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind);
    if (message || !pass_of(op)) {
      continue;
    }
    double& stream = streams[index_of(op.stream)];
    double begin = stream;
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      begin = std::max(begin, ends[index_of(role.waits[w])]);
    }
    double seconds = to_seconds(times[i].duration).value;
    if (std::holds_alternative<Compute>(op.kind)) {
      ops[i].beside = exchanges > begin;
      seconds += slowdown * std::clamp(exchanges - begin, 0.0, seconds / (1 - slowdown));
      ops[i].seconds = begin + seconds - kernels;
      kernels = begin + seconds;
    } else if (!std::holds_alternative<Copy>(op.kind)) {
      exchanges = std::max(exchanges, begin + seconds);
    }
    stream = ends[i] = begin + seconds;
  }
  return ops;
}

}  // namespace trireme::planner
