// Launch files of every format, each to the estimate that `check` gives.
#include "planner/cost/estimate.h"
#include "planner/launch/read_launch.h"
#include "planner/start/launch_rules.h"
#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {
namespace {

void judge(const planner::LaunchConfig& config) {
  planner::LaunchOptions options{.cluster = "dgx-h100x1"};
  options.model = config.model || !config.model_name.empty() ? "" : "gpt2";
  const planner::LaunchCase found = planner::make_launch_case(config, options);
  const planner::RuleReport report = planner::check_launch(config, found);
  if (report.layout_holds) {
    planner::Estimate estimate;
    planner::Estimator(found.job).estimate(found.plan, estimate);
    require(estimate.time.step_seconds > 0, "a step takes time");
    require(estimate.memory.allocated_gib > 0, "a step takes memory");
  }
}

void judge(planner::LaunchFormat format, std::string_view text) {
  if (planner::reads_format(format)) {  // else built without its library
    judge(planner::read_launch(format, text, "f", {}));
  }
}

}  // namespace

void read_megatron(std::string_view text) {
  judge(planner::LaunchFormat::kMegatron, text);
}
void read_bridge(std::string_view text) {
  judge(planner::LaunchFormat::kMegatronBridge, text);
}
void read_torchtitan(std::string_view text) {
  judge(planner::LaunchFormat::kTorchtitan, text);
}
void read_deepspeed(std::string_view text) {
  judge(planner::LaunchFormat::kDeepspeed, text);
}
void read_accelerate(std::string_view text) {
  judge(planner::LaunchFormat::kAccelerate, text);
}
void read_rollouts(std::string_view text) {
  judge(planner::read_launch_file(scratch_file(text, ".sh"), {}));
}
void read_trainer(std::string_view text) {
  judge(planner::read_launch_file(scratch_file(text, ".yaml"), {}));
}

}  // namespace trireme::fuzz
