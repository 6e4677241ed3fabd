#include "tests/property/random_times.h"

#include <variant>
#include <vector>

namespace trireme::tests {

StepTimes random_times(const StepProgram& program, RandomStream& random) {
  StepTimes times;
  for (const Program& role : program.roles) {
    std::vector<OpTime> ops;
    for (const Op& op : role.ops) {
      const bool computes =
          std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
      const std::int64_t scale = computes ? 1'000'000 : 3'000'000;
      ops.push_back({SimDuration(random.below(scale)), SimDuration(random.below(20'000))});
    }
    times.roles.push_back(std::move(ops));
  }
  return times;
}

StepTimes scaled(StepTimes times, std::int64_t factor) {
  for (std::vector<OpTime>& role : times.roles) {
    for (OpTime& time : role) {
      time.duration = time.duration * factor;
      time.launch = time.launch * factor;
    }
  }
  return times;
}

}  // namespace trireme::tests
