#include "planner/walk/expert_overlap.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/rendezvous.h"
#include "planner/cost/expert_time.h"

namespace trireme::planner {
namespace {

bool is_exchange(const StepProgram& program, const Op& op) {
  const GroupId group = group_of(op.kind);
  if (group == kNoGroup || op.origin.layer < 0) {
    return false;
  }
  const std::string& name = program.groups[index_of(group)].name;
  return name == "expert" || name == "expert_tensor";
}

bool repeats_attention(const Program& role, const Op& op) {
  const auto* compute = std::get_if<Compute>(&op.kind);
  return op.origin.phase == Phase::kRecompute && compute != nullptr &&
         role.works[compute->work].kernel == Kernel::kModelledAttention;
}

// Share of the role's passes that run beside another micro-batch's.
double overlapped(const Job& job, const StepProgram& program, const Program& role) {
  std::int64_t micro_batches = 1, chunks = 1;
  bool repeats_exchange = false, repeats_whole = false;
  std::set<std::pair<std::int16_t, std::int32_t>> split;  // chunk, micro-batch
  for (const Op& op : role.ops) {
    if (op.origin.phase == Phase::kWeightGradient) {
      split.emplace(op.origin.chunk, op.origin.micro_batch);
    }
    micro_batches = std::max<std::int64_t>(micro_batches, op.origin.micro_batch + 1);
    chunks = std::max<std::int64_t>(chunks, op.origin.chunk + 1);
    repeats_whole = repeats_whole || repeats_attention(role, op);
    repeats_exchange =
        repeats_exchange || (op.origin.phase == Phase::kRecompute && is_exchange(program, op));
  }
  const std::int64_t stages = program.stages.degree;
  const bool overlaps = micro_batches > 1 &&
                        (stages == 1 || chunks > 1 || job.framework.two_way_pipeline) &&
                        !(repeats_whole && repeats_exchange);
  if (overlaps && stages > 1 && chunks > 1 && !split.empty()) {  // they lie in a V
    return overlapped_share_in_v(micro_batches, std::ssize(split), stages);
  }
  return overlaps ? overlapped_share(micro_batches, chunks, stages) : 0;
}

}  // namespace

void expose_exchanges(const Job& job, const BehaviourFit& fit, const StepProgram& program,
                      const Program& role, std::vector<OpTime>& times) {
  const double steady = job.framework.expert_overlap ? overlapped(job, program, role) : 0;
  if (steady <= 0) {
    return;
  }
  struct Layer {
    double exchange = 0, compute = 0;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Layer> layers;  // by layer and micro-batch
  const auto layer_of = [&](const Op& op) -> Layer& {
    return layers[{op.origin.layer, op.origin.micro_batch}];
  };
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const double seconds = to_seconds(times[i].duration).value;
    if (is_exchange(program, op)) {
      layer_of(op).exchange += seconds;
    } else if (op.origin.layer >= 0 && std::holds_alternative<Compute>(op.kind) &&
               op.origin.phase <= Phase::kWeightGradient) {
      layer_of(op).compute += seconds;
    }
  }
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    if (!is_exchange(program, role.ops[i])) {
      continue;
    }
    const Layer& layer = layer_of(role.ops[i]);
    const double beside =
        layer.exchange > 0 ? exposed_exchange(fit, layer.exchange, layer.compute) / layer.exchange
                           : 1;
    const double share = steady * beside + 1 - steady;
    times[i].duration = to_sim_duration(Seconds(to_seconds(times[i].duration).value * share));
  }
}

}  // namespace trireme::planner
