#include "planner/walk/host_times.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "core/rendezvous.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/host_wait.h"
#include "planner/cost/unit_launches.h"
#include "planner/plan/host_counts.h"
#include "planner/walk/gpu_passes.h"

namespace trireme::planner {
namespace {

class HostTimes {
 public:
  explicit HostTimes(const HostCase& host)
      : host_(host),
        counts_(host_counts_of(host.job.framework)),
        launch_seconds_(host.card_launch * host.fit.host_factor) {}

  void add(std::vector<OpTime>& times) const {
    const Units units = units_of();
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i].launch += works_around_units(units)
                             ? unit_launch(host_.role.ops[i], units.layers_each)
                             : SimDuration(0);
    }
    issue_attention_once(times);
    add_tensor_hosts(times);
    add_expert_hosts(times);
    add_per_op_hosts(times);
    add_ring_hosts(times);
    add_counted_collectives(times);
    add_unit_hooks(units, times);
    add_micro_batch_sums(times);
    if (host_.job.framework.implementation != models::Implementation::kTrireme) {
      wait_for_host(times);
      synchronise(times);
    }
  }

 private:
  // A modelled attention of shared sequences stands in two pieces, of which one runs beside an
  // exchange: its host is counted for all of it, and its ring's besides (add_ring_hosts).
  void issue_attention_once(std::vector<OpTime>& times) const {
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&host_.role.ops[i].kind);
      if (compute == nullptr ||
          host_.role.works[compute->work].kernel != Kernel::kModelledAttention) {
        continue;
      }
      const Origin& origin = host_.role.ops[i].origin;
      if (!begun.emplace(origin.layer, origin.micro_batch, origin.phase).second) {
        times[i].launch = SimDuration(0);
      }
    }
  }

  // Host time that the framework's tensor parallelism adds to a layer: a third with its first
  // collective of a forward (and of a repeated one), the rest in backward, as estimate has it.
  void add_tensor_hosts(std::vector<OpTime>& times) const {
    if (host_.program.tensor == kNoGroup || host_.fit.tensor_host_seconds <= 0) {
      return;
    }
    const double host = tensor_host_seconds(host_.fit, host_.job.framework, host_.card_launch);
    const auto is_one = [&](bool again) {
      return [this, again](const Op& op) {
        return group_of(op.kind) == host_.program.tensor &&
               (op.origin.phase == Phase::kRecompute) == again;
      };
    };
    add_once_a_pass(is_one(false), {host / 3, host * 2 / 3}, times);
    add_once_a_pass(is_one(true), {host / 3 * host_.fit.repeated_tensor_host, 0}, times);
  }

  // What a sparse layer takes of the host besides, with the first op of its forward and of its
  // backward; a forward that is repeated whole takes it again.
  void add_expert_hosts(std::vector<OpTime>& times) const {
    if (!host_.job.model.moe) {
      return;
    }
    const PassPair host = expert_host_seconds(host_.job, host_.fit, ranks_of(group_named("expert")),
                                              host_.card_launch);
    if (host.forward + host.backward <= 0) {
      return;
    }
    const std::set<std::int32_t> repeated = repeated_whole();
    add_once_a_pass(
        [&](const Op& op) {
          const bool again = op.origin.phase == Phase::kRecompute;
          return models::is_moe_layer(host_.job.model, op.origin.layer) &&
                 (!again || repeated.count(op.origin.layer) > 0);
        },
        host, times);
  }

  // What PyTorch's policy of ops adds to layers that repeat a part of their forward.
  void add_per_op_hosts(std::vector<OpTime>& times) const {
    if (counts_ == nullptr || counts_->per_op.forward.plain <= 0) {
      return;
    }
    std::set<std::int32_t> repeated;
    for (const Op& op : host_.role.ops) {
      if (op.origin.phase == Phase::kRecompute) {
        repeated.insert(op.origin.layer);
      }
    }
    for (const std::int32_t layer : repeated_whole()) {
      repeated.erase(layer);
    }
    const auto seconds = [&](const HostCount& count) { return launch_seconds_ * count.plain; };
    const auto is_one = [&](Phase phase) {
      return [&repeated, phase](const Op& op) {
        return op.origin.phase == phase && repeated.count(op.origin.layer) > 0;
      };
    };
    add_once_a_pass(is_one(Phase::kForward), {seconds(counts_->per_op.forward), 0}, times);
    add_once_a_pass(is_one(Phase::kRecompute), {seconds(counts_->per_op.backward), 0}, times);
  }

  // What context parallelism adds to a layer's attention, with its first collective of a pass.
  void add_ring_hosts(std::vector<OpTime>& times) const {
    const GroupId group = group_named("context");
    if (counts_ == nullptr || group == kNoGroup || host_.job.framework.context_all_to_all) {
      return;
    }
    const double ranks = launch_seconds_ * static_cast<double>(ranks_of(group));
    add_once_a_pass([group](const Op& op) { return group_of(op.kind) == group; },
                    {ranks * counts_->ring.forward.plain, ranks * counts_->ring.backward.plain},
                    times);
  }

  [[nodiscard]] GroupId group_named(const char* name) const {
    const std::vector<Group>& groups = host_.program.groups;
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [name](const Group& group) { return group.name == name; });
    return found == groups.end() ? kNoGroup : static_cast<GroupId>(found - groups.begin());
  }
  [[nodiscard]] std::int64_t ranks_of(GroupId group) const {
    return group == kNoGroup ? 1 : group_size(host_.program.groups[index_of(group)]);
  }

  // Seconds with the first op that `is_one` of each layer, micro-batch and pass; a repeated forward
  // takes what its first does.
  template <typename IsOne>
  void add_once_a_pass(const IsOne& is_one, const PassPair& seconds,
                       std::vector<OpTime>& times) const {
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      const Phase phase = op.origin.phase;
      const bool forward = phase == Phase::kForward || phase == Phase::kRecompute;
      if (op.origin.layer >= 0 && (forward || phase == Phase::kBackward) && is_one(op) &&
          begun.emplace(op.origin.layer, op.origin.micro_batch, phase).second) {
        times[i].launch += to_sim_duration(Seconds(forward ? seconds.forward : seconds.backward));
      }
    }
  }

  // Collectives of tensor parallelism as they were counted.
  void add_counted_collectives(std::vector<OpTime>& times) const {
    if (counts_ == nullptr || host_.program.tensor == kNoGroup) {
      return;
    }
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      if (op.origin.layer >= 0 && group_of(op.kind) == host_.program.tensor) {
        const bool forward =
            op.origin.phase == Phase::kForward || op.origin.phase == Phase::kRecompute;
        const PassCount& count = counts_->collective;
        const double plain = forward ? count.forward.plain : count.backward.plain;
        times[i].launch += to_sim_duration(Seconds(launch_seconds_ * plain));
      }
    }
  }

  // Of the gradients of a layer in each micro-batch, before the last kernel of its backward.
  void add_micro_batch_sums(std::vector<OpTime>& times) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> last;
    bool accumulates = false;
    bool reduces_each = false;
    for (std::size_t i = 0; counts_ != nullptr && i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      const GroupId group = group_of(op.kind);
      reduces_each = reduces_each ||
                     (op.origin.phase == Phase::kGradientReduce && op.origin.micro_batch == 0 &&
                      group != kNoGroup && group != host_.program.tensor);
      if (op.origin.layer >= 0 && op.origin.phase == Phase::kBackward &&
          std::holds_alternative<Compute>(op.kind)) {
        last[{op.origin.layer, op.origin.micro_batch}] = i;
        accumulates = accumulates || op.origin.micro_batch > 0;
      }
    }
    if (!accumulates) {
      return;
    }
    const double host = launch_seconds_ * micro_batch_host(host_.job, *counts_, 1, reduces_each);
    for (const auto& [place, op] : last) {
      times[op].launch += to_sim_duration(Seconds(host));
    }
  }

  // Other frameworks' hosts by the law that estimate has of them: kernels take longer by the share
  // of the wait that their own issue has, and nothing is issued late besides. Kernels beside an
  // exchange do not: a rank whose host sets the pace takes what that takes, however much of the
  // exchange is over by then.
  void wait_for_host(std::vector<OpTime>& times) const {
    struct Work {
      double issue = 0, gpu = 0, host = 0;
    };
    std::array<Work, 2> passes;  // by PassDirection
    const auto work_of = [&](PassDirection pass) -> Work& {
      return passes[static_cast<std::size_t>(pass)];
    };
    const std::vector<OpOnGpu> on_gpu =
        gpu_passes(host_.role, times, std::clamp(host_.fit.overlap_slowdown, 0.0, 0.9));
    const auto waits_itself = [&](std::size_t i) {
      return pass_of(host_.role.ops[i]) && !on_gpu[i].beside &&
             std::holds_alternative<Compute>(host_.role.ops[i].kind);
    };
    const bool has_units = works_around_units(units_of());
    const auto unit_launches_of = [&](const Op& op, double host) {
      const bool gathers = op.origin.phase == Phase::kParameterGather;
      const bool reduces = op.origin.phase == Phase::kGradientReduce;
      if (op.origin.layer >= 0 && has_units && (gathers || reduces) &&
          !std::holds_alternative<Compute>(op.kind)) {
        work_of(gathers ? PassDirection::kForward : PassDirection::kBackward).host += host;
      }
    };
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      const auto pass = pass_of(op);
      const bool message =
          std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind);
      const double launch = to_seconds(times[i].launch).value;
      if (pass && !message) {
        Work& work = work_of(*pass);
        work.gpu += on_gpu[i].seconds;
        work.issue += waits_itself(i) ? launch : 0;
        // Of a collective, what the framework does besides.
        work.host += launch - (std::holds_alternative<Compute>(op.kind) ? 0 : launch_seconds_);
      }
      unit_launches_of(op, launch);
    }
    const HostWaits waits =
        host_waits({passes[0].gpu, passes[1].gpu}, {passes[0].host, passes[1].host},
                   host_.program.stages.degree > 1, host_.job.framework);
    const std::array<double, 2> wait_each = {
        passes[0].issue > 0 ? waits.forward / passes[0].issue : 0,
        passes[1].issue > 0 ? waits.backward / passes[1].issue : 0};
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      if (waits_itself(i)) {
        const auto pass = static_cast<std::size_t>(*pass_of(host_.role.ops[i]));
        times[i].apart =
            to_sim_duration(Seconds(to_seconds(times[i].launch).value * wait_each[pass]));
        times[i].duration += times[i].apart;
      }
      times[i].launch = SimDuration(0);
    }
  }

  // Between virtual chunks messages run beside compute, but what the framework does around each
  // exchange (a send and a receive) does not.
  void synchronise(std::vector<OpTime>& times) const {
    const bool chunks = std::any_of(host_.role.ops.begin(), host_.role.ops.end(),
                                    [](const Op& op) { return op.origin.chunk > 0; });
    if (!chunks || !host_.job.framework.p2p_overlap_interleaved) {
      return;
    }
    double waiting = 0;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const OpKind& kind = host_.role.ops[i].kind;
      if (std::holds_alternative<Send>(kind) || std::holds_alternative<Recv>(kind)) {
        waiting += host_.fit.exchange_seconds / 2;
      } else if (std::holds_alternative<Compute>(kind)) {
        times[i].duration += to_sim_duration(Seconds(waiting));
        waiting = 0;
      }
    }
  }

  // The first layers of the units that are gathered (a cast to 16 bits is none: PyTorch's
  // DistributedDataParallel has no hooks around layers), and how many layers a unit has.
  struct Units {
    std::set<std::int32_t> first_layers;
    double layers_each = 1;
    bool gathered_again = false;  // for each micro-batch, not once a step: parameters are sharded
  };
  // Parameters that are whole are gathered once a step, without hooks; only PyTorch's units stay
  // what they are in a pipeline, which gathers them once.
  [[nodiscard]] bool works_around_units(const Units& units) const {
    const bool stay = host_.job.framework.sharder == Sharder::kFsdp2;
    const Sharding sharding = units.gathered_again || stay ? Sharding::kFull : Sharding::kOptimizer;
    return has_unit_hosts(host_.job.framework, counts_, sharding);
  }
  [[nodiscard]] Units units_of() const {
    Units units;
    std::set<std::int32_t> layers;
    for (const Op& op : host_.role.ops) {
      if (op.origin.layer >= 0) {
        layers.insert(op.origin.layer);
        if (op.origin.phase == Phase::kParameterGather &&
            std::holds_alternative<AllGather>(op.kind)) {
          units.first_layers.insert(op.origin.layer);
          units.gathered_again |= op.origin.micro_batch >= 0;
        }
      }
    }
    if (!units.first_layers.empty()) {
      units.layers_each =
          static_cast<double>(layers.size()) / static_cast<double>(units.first_layers.size());
    }
    return units;
  }

  // Layers that recompute as many ops as their forward has.
  [[nodiscard]] std::set<std::int32_t> repeated_whole() const {
    std::map<std::int32_t, std::int64_t> left;
    for (const Op& op : host_.role.ops) {
      if (op.origin.layer >= 0 && std::holds_alternative<Compute>(op.kind)) {
        left[op.origin.layer] += op.origin.phase == Phase::kForward     ? 1
                                 : op.origin.phase == Phase::kRecompute ? -1
                                                                        : 0;
      }
    }
    std::set<std::int32_t> layers;
    for (const auto& [layer, count] : left) {
      if (count <= 0) {
        layers.insert(layer);
      }
    }
    return layers;
  }

  // The hooks around a unit's forward and backward, before the first kernel of each, and around the
  // modules of every layer's looped experts. A unit bears the number of the layer that it is
  // gathered for.
  void add_unit_hooks(const Units& units, std::vector<OpTime>& times) const {
    const double hooks = unit_launches(host_.job, host_.program.tensor != kNoGroup, 1, 1).hooks;
    if (hooks <= 0 || !works_around_units(units)) {
      return;
    }
    const std::set<std::int32_t> repeated_layers =
        hooks_repeat(host_.job.framework) ? repeated_whole() : std::set<std::int32_t>();
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Origin& origin = host_.role.ops[i].origin;
      const bool repeated =
          origin.phase == Phase::kRecompute && repeated_layers.count(origin.layer) > 0;
      const bool passes =
          repeated || origin.phase == Phase::kForward || origin.phase == Phase::kBackward;
      if (passes && origin.layer >= 0 && std::holds_alternative<Compute>(host_.role.ops[i].kind) &&
          begun.emplace(origin.layer, origin.micro_batch, origin.phase).second) {
        const double of_unit = units.first_layers.count(origin.layer) > 0 ? hooks : 0;
        const UnitLaunches looped = looped_of(origin.layer);
        const double reduced = origin.phase == Phase::kBackward ? looped.reduce : 0;
        times[i].launch +=
            to_sim_duration(Seconds(launch_seconds_ * ((of_unit + looped.hooks) / 2 + reduced)));
      }
    }
  }

  [[nodiscard]] UnitLaunches looped_of(std::int32_t layer) const {
    return host_.job.model.moe && models::is_moe_layer(host_.job.model, layer)
               ? looped_expert_launches(host_.job)
               : UnitLaunches{};
  }

  // Beside the collective's own: of a layer's unit, gathered or reduced over the ranks that share
  // it.
  [[nodiscard]] SimDuration unit_launch(const Op& op, double layers) const {
    const bool gathers = op.origin.phase == Phase::kParameterGather;
    const bool reduces = op.origin.phase == Phase::kGradientReduce;
    if (op.origin.layer < 0 || (!gathers && !reduces) ||
        std::holds_alternative<AllReduce>(op.kind)) {
      return SimDuration(0);
    }
    const UnitLaunches launches =
        unit_launches(host_.job, host_.program.tensor != kNoGroup, 1, layers);
    const double all = gathers ? launches.gather : launches.reduce;
    return to_sim_duration(Seconds(launch_seconds_ * std::max(0.0, all - 1)));
  }

  const HostCase& host_;
  const HostCounts* counts_;  // nothing: kernels are counted
  double launch_seconds_ = 0;
};

}  // namespace

void add_host_times(const HostCase& host, std::vector<OpTime>& times) {
  HostTimes(host).add(times);
}

}  // namespace trireme::planner
