#include "planner/calibrate/correction_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "planner/calibrate/least_squares.h"
#include "planner/calibrate/nelder_mead.h"
#include "topologies/corrections.h"
#include "topologies/nccl_graph.h"

namespace trireme::planner {
namespace {

using topologies::Collective;
using topologies::FabricFit;
using topologies::NetworkFit;
using topologies::Profile;

// One constant being fitted: where it stands, what it starts from, and the step that is as likely
// as not.
struct Constant {
  std::string entry, name;
  double start = 0, step = 0, low = 0, high = 0;
};

bool is_point_to_point(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kSendRecv;
}

using Group = std::vector<Constant>;

Constant rate(const std::string& entry, const std::string& name, double start) {
  return {entry, name, start, 0.1 * start, 0.02, 2.0};
}
Constant ramp(const std::string& entry, const std::string& name, double start) {
  return {entry, name, start, 0.5 + 0.5 * start, 0, 64};
}

// Constants of the fabric inside the node, in the order of what they bound: first the plateau, then
// the small sizes.
std::vector<Group> fabric_groups(const std::string& entry, const FabricFit& fit, bool collectives,
                                 bool exchanges) {
  std::vector<Group> groups;
  if (collectives) {
    groups.push_back({rate(entry, "ring_efficiency", fit.ring_efficiency),
                      rate(entry, "nvls_efficiency", fit.nvls_efficiency),
                      ramp(entry, "ramp_mib", fit.ramp_mib),
                      ramp(entry, "nvls_ramp_mib", fit.nvls_ramp_mib)});
    groups.push_back({{entry, "launch_us", fit.launch_us, 5, -20, 200},
                      {entry, "step_scale", fit.step_scale, 0.3, 0.2, 20},
                      {entry, "simple_us", fit.simple_us, 5, -40, 100},
                      rate(entry, "ll128_efficiency", fit.ll128_efficiency),
                      rate(entry, "ll_efficiency", fit.ll_efficiency)});
  }
  if (exchanges) {
    groups.push_back({{entry, "p2p_us", fit.p2p_us, 5, 0, 300},
                      {entry, "p2p_peer_us", fit.p2p_peer_us, 0.2, 0, 20},
                      rate(entry, "p2p_efficiency", fit.p2p_efficiency),
                      ramp(entry, "p2p_ramp_mib", fit.p2p_ramp_mib)});
  }
  return groups;
}

std::vector<Group> network_groups(const std::string& entry, const NetworkFit& fit) {
  return {{{entry, "latency_us", fit.latency_us, 3 + 0.3 * fit.latency_us, 0, 500},
           rate(entry, "efficiency", fit.efficiency),
           rate(entry, "tree_efficiency", fit.tree_efficiency),
           ramp(entry, "ramp_mib", fit.ramp_mib)}};
}

double model_seconds(const CollectiveMeasurement& one, const Profile& profile, double bytes) {
  return topologies::collective_time(one.cluster, profile, one.collective, one.group,
                                     Bytes(static_cast<std::int64_t>(bytes)),
                                     topologies::CostFamily::kNccl, false)
      .time.value;
}

// Mean over tables of the mean robust error in logarithms. Every table counts once, so that a long
// sweep does not drown a short one.
double misfit(const std::vector<const CollectiveMeasurement*>& measured, const Profile& profile) {
  constexpr double kScale = 0.1;
  double sum = 0;
  for (const CollectiveMeasurement* one : measured) {
    double errors = 0;
    for (const auto& point : one->points) {
      const double error =
          std::abs(std::log(model_seconds(*one, profile, point.bytes) / point.seconds));
      errors += error < kScale ? error * error / (2 * kScale) : error - kScale / 2;
    }
    sum += errors / static_cast<double>(one->points.size());
  }
  return sum / static_cast<double>(measured.size());
}

// In units of each constant's step from where it started.
void fit_group_of(const Group& group, const std::vector<const CollectiveMeasurement*>& measured,
                  Profile& profile) {
  constexpr double kPull = 0.002;
  const auto apply = [&](const std::vector<double>& at) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      profile.networks[group[i].entry][group[i].name] =
          std::clamp(group[i].start + at[i] * group[i].step, group[i].low, group[i].high);
    }
  };
  const auto loss = [&](const std::vector<double>& at) {
    apply(at);
    double pull = 0;
    for (const double value : at) {
      pull += value * value;
    }
    return misfit(measured, profile) + kPull * pull / static_cast<double>(at.size());
  };
  const std::vector<double> origin(group.size(), 0.0);
  const double before = loss(origin);
  Minimum found = nelder_mead(loss, origin, 1.0, 160 + 60 * static_cast<int>(group.size()));
  found = nelder_mead(loss, found.at, 0.3, 120 + 40 * static_cast<int>(group.size()));
  apply(found.value < before ? found.at : origin);
}

// A constant whose value the points do not feel is left out of the profile.
void drop_untouched(const std::vector<const CollectiveMeasurement*>& measured, const Group& group,
                    Profile& profile) {
  for (const Constant& constant : group) {
    auto& entry = profile.networks[constant.entry];
    const double fitted = entry[constant.name];
    const double with = misfit(measured, profile);
    entry[constant.name] = constant.start;
    if (std::abs(misfit(measured, profile) - with) < 1e-6) {
      entry.erase(constant.name);
    } else {
      entry[constant.name] = fitted;
    }
  }
}

}  // namespace

void fit_corrections(const std::vector<CollectiveMeasurement>& measured, Profile& profile) {
  // Tables would answer in the model's place.
  Profile model;
  model.networks = profile.networks;
  const auto fit = [&](const std::vector<Group>& groups,
                       const std::vector<const CollectiveMeasurement*>& chosen) {
    for (const Group& group : groups) {
      fit_group_of(group, chosen, model);
      drop_untouched(chosen, group, model);
    }
  };
  // Inside nodes first: the fabric's part of a collective over nodes is then known.
  std::map<std::string, std::vector<const CollectiveMeasurement*>> inside, outside;
  for (const CollectiveMeasurement& one : measured) {
    const auto graph = topologies::nccl_graph(one.cluster, one.group);
    if (graph.nodes > 1) {
      outside[one.cluster.network.name].push_back(&one);
    } else {
      inside[std::string(topologies::fabric_key(graph, one.cluster.gpu))].push_back(&one);
    }
  }
  const auto any = [](const std::vector<const CollectiveMeasurement*>& all, bool exchange) {
    return std::ranges::any_of(all, [exchange](const CollectiveMeasurement* one) {
      return is_point_to_point(one->collective) == exchange;
    });
  };
  for (const auto& [entry, chosen] : inside) {
    const auto graph = topologies::nccl_graph(chosen.front()->cluster, chosen.front()->group);
    const FabricFit start = topologies::fabric_fit(model, graph, chosen.front()->cluster.gpu);
    fit(fabric_groups(entry, start, any(chosen, false), any(chosen, true)), chosen);
  }
  for (const auto& [entry, chosen] : outside) {
    fit(network_groups(entry, topologies::network_fit(model, entry)), chosen);
  }
  profile.networks = std::move(model.networks);
  std::erase_if(profile.networks, [](const auto& entry) { return entry.second.empty(); });
}

double model_error(const CollectiveMeasurement& measured, const Profile& profile,
                   double from_bytes) {
  Profile model;
  model.networks = profile.networks;
  std::vector<double> errors;
  for (const auto& point : measured.points) {
    if (point.bytes >= from_bytes) {
      errors.push_back(std::abs(model_seconds(measured, model, point.bytes) / point.seconds - 1));
    }
  }
  return median_of(errors);
}

}  // namespace trireme::planner
