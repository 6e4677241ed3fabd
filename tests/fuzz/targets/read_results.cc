// Files of the program's own that its commands read again.
#include "tests/fuzz/targets/target.h"
#include "tools/compare_side.h"
#include "tools/plan_file.h"

namespace trireme::fuzz {

void read_plan(std::string_view text) {
  const tools::PlanFile file = tools::read_plan_file(scratch_file(text));
  require(file.plan.gpus() > 0, "a layout has ranks");
}

void read_trace(std::string_view text) {
  tools::read_compared_side(scratch_file(text));
}

}  // namespace trireme::fuzz
