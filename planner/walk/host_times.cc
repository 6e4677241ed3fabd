#include "planner/walk/host_times.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include "core/rendezvous.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/host_wait.h"
#include "planner/cost/unit_launches.h"

namespace trireme::planner {
namespace {

class HostTimes {
 public:
  explicit HostTimes(const HostCase& host)
      : host_(host), launch_seconds_(host.card_launch * host.fit.host_factor) {}

  void add(std::vector<OpTime>& times) const {
    const Units units = units_of();
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i].launch += unit_launch(host_.role.ops[i], units.layers_each);
    }
    add_tensor_hosts(times);
    add_expert_hosts(times);
    add_unit_hooks(units, times);
    if (host_.job.framework.implementation != models::Implementation::kTrireme) {
      wait_for_host(times);
      synchronise(times);
    }
  }

 private:
  // Host time that the framework's tensor parallelism adds to a layer: a third with its first
  // collective of a forward (and of a repeated one), the rest in backward, as estimate has it.
  void add_tensor_hosts(std::vector<OpTime>& times) const {
    if (host_.program.tensor == kNoGroup || host_.fit.tensor_host_seconds <= 0) {
      return;
    }
    const double host = tensor_host_seconds(host_.fit, host_.job.framework, host_.card_launch);
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      const Phase phase = op.origin.phase;
      const bool forward = phase == Phase::kForward || phase == Phase::kRecompute;
      if (op.origin.layer >= 0 && group_of(op.kind) == host_.program.tensor &&
          (forward || phase == Phase::kBackward) &&
          begun.emplace(op.origin.layer, op.origin.micro_batch, phase).second) {
        times[i].launch += to_sim_duration(Seconds(host * (forward ? 1.0 : 2.0) / 3));
      }
    }
  }

  // What a sparse layer takes of the host besides: a third with the first op of its forward, the
  // rest with that of its backward.
  void add_expert_hosts(std::vector<OpTime>& times) const {
    const double host = expert_host_seconds(host_.job.framework, host_.card_launch);
    if (host <= 0 || !host_.job.model.moe) {
      return;
    }
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Origin& origin = host_.role.ops[i].origin;
      const bool forward = origin.phase == Phase::kForward;
      if (origin.layer >= 0 && (forward || origin.phase == Phase::kBackward) &&
          models::is_moe_layer(host_.job.model, origin.layer) &&
          begun.emplace(origin.layer, origin.micro_batch, origin.phase).second) {
        times[i].launch += to_sim_duration(Seconds(host * (forward ? 1.0 : 2.0) / 3));
      }
    }
  }

  // Other frameworks' hosts by the law that estimate has of them: kernels take longer by their
  // share of the wait, and nothing is issued late besides.
  void wait_for_host(std::vector<OpTime>& times) const {
    struct Work {
      double kernels = 0, gpu = 0, host = 0;
    };
    std::array<Work, 2> passes;  // forward, backward
    const auto pass_of = [](const Op& op) -> std::optional<std::size_t> {
      const Phase phase = op.origin.phase;
      const bool backward = phase == Phase::kRecompute || phase == Phase::kBackward ||
                            phase == Phase::kWeightGradient;
      return phase == Phase::kForward ? std::optional<std::size_t>(0)
             : backward               ? std::optional<std::size_t>(1)
                                      : std::nullopt;
    };
    const bool has_units = host_.job.framework.unit_gather_launches > 0;
    const auto unit_launches_of = [&](const Op& op, double host) {
      const bool gathers = op.origin.phase == Phase::kParameterGather;
      const bool reduces = op.origin.phase == Phase::kGradientReduce;
      if (op.origin.layer >= 0 && has_units && (gathers || reduces) &&
          !std::holds_alternative<Compute>(op.kind)) {
        passes[gathers ? 0 : 1].host += host;
      }
    };
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Op& op = host_.role.ops[i];
      const auto pass = pass_of(op);
      const bool message =
          std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind);
      if (pass && !message) {
        const double seconds = to_seconds(times[i].duration).value;
        passes[*pass].gpu += seconds;
        passes[*pass].kernels += std::holds_alternative<Compute>(op.kind) ? seconds : 0;
        // Of a collective, what the framework does besides.
        passes[*pass].host += to_seconds(times[i].launch).value -
                              (std::holds_alternative<Compute>(op.kind) ? 0 : launch_seconds_);
      }
      unit_launches_of(op, to_seconds(times[i].launch).value);
    }
    const HostWaits waits =
        host_waits({passes[0].gpu, passes[1].gpu}, {passes[0].host, passes[1].host},
                   host_.program.stages.degree > 1, host_.job.framework);
    const std::array<double, 2> longer = {
        passes[0].kernels > 0 ? 1 + waits.forward / passes[0].kernels : 1,
        passes[1].kernels > 0 ? 1 + waits.backward / passes[1].kernels : 1};
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const auto pass = pass_of(host_.role.ops[i]);
      if (pass && std::holds_alternative<Compute>(host_.role.ops[i].kind)) {
        times[i].duration =
            to_sim_duration(Seconds(to_seconds(times[i].duration).value * longer[*pass]));
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

  // The first layers of the units that are gathered, and how many layers a unit has.
  struct Units {
    std::set<std::int32_t> first_layers;
    double layers_each = 1;
  };
  [[nodiscard]] Units units_of() const {
    Units units;
    std::set<std::int32_t> layers;
    for (const Op& op : host_.role.ops) {
      if (op.origin.layer >= 0) {
        layers.insert(op.origin.layer);
        if (op.origin.phase == Phase::kParameterGather) {
          units.first_layers.insert(op.origin.layer);
        }
      }
    }
    if (!units.first_layers.empty()) {
      units.layers_each =
          static_cast<double>(layers.size()) / static_cast<double>(units.first_layers.size());
    }
    return units;
  }

  // The hooks around a unit's forward and backward, before the first kernel of each. A unit bears
  // the number of the layer that it is gathered for.
  void add_unit_hooks(const Units& units, std::vector<OpTime>& times) const {
    const double hooks = unit_launches(host_.job, host_.program.tensor != kNoGroup, 1, 1).hooks;
    if (hooks <= 0) {
      return;
    }
    std::set<std::tuple<std::int32_t, std::int32_t, Phase>> begun;
    for (std::size_t i = 0; i < host_.role.ops.size(); ++i) {
      const Origin& origin = host_.role.ops[i].origin;
      const bool passes = origin.phase == Phase::kForward || origin.phase == Phase::kBackward;
      if (passes && origin.layer >= 0 && units.first_layers.count(origin.layer) > 0 &&
          std::holds_alternative<Compute>(host_.role.ops[i].kind) &&
          begun.emplace(origin.layer, origin.micro_batch, origin.phase).second) {
        times[i].launch += to_sim_duration(Seconds(launch_seconds_ * hooks / 2));
      }
    }
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
  double launch_seconds_ = 0;
};

}  // namespace

void add_host_times(const HostCase& host, std::vector<OpTime>& times) {
  HostTimes(host).add(times);
}

}  // namespace trireme::planner
