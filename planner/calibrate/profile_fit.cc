#include "planner/calibrate/profile_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "planner/calibrate/kernel_fit.h"
#include "planner/calibrate/least_squares.h"
#include "planner/calibrate/matmul_fit.h"
#include "planner/calibrate/point_errors.h"
#include "planner/cost/host_machine.h"
#include "topologies/collective_cost.h"
#include "topologies/measured_collective.h"
#include "topologies/op_cost.h"

namespace trireme::planner {
namespace {

using topologies::GpuFit;
using topologies::OpCost;
using topologies::Profile;

// Points within this factor of the least time of their kind are the host's when the host timed.
constexpr double kKernelHostFloor = 1.6;

template <typename Sample, typename Time>
void drop_host_bound(std::vector<Sample>& samples, Time&& time) {
  double least = std::numeric_limits<double>::infinity();
  for (const Sample& sample : samples) {
    least = std::min(least, time(sample));
  }
  std::erase_if(samples, [&](const Sample& s) { return time(s) < kKernelHostFloor * least; });
}

Microbenchmarks device_bound(Microbenchmarks points) {
  drop_host_bound(points.matmuls, [](const MatmulSample& s) { return s.timing.median.value; });
  drop_host_bound(points.passes, [](const PassSample& s) { return s.timing.median.value; });
  return points;
}

// seconds = kernel + traffic / rate over all passes.
void fit_passes(const Microbenchmarks& points, const topologies::Gpu& gpu, bool host_timed,
                GpuFit& fit) {
  if (points.passes.size() < 2) {
    return;
  }
  std::vector<std::vector<double>> rows;
  std::vector<double> seconds;
  for (const PassSample& pass : points.passes) {
    rows.push_back({1.0, static_cast<double>(pass.traffic.value)});
    seconds.push_back(pass.timing.median.value);
  }
  const std::vector<double> costs = robust_costs(rows, seconds, 0.1);
  if (costs[1] > 0) {
    fit.constants["memory_efficiency"] =
        std::clamp(1 / (costs[1] * gpu.memory_bandwidth.value), 0.05, 1.0);
  }
  if (!host_timed) {  // else it is the host's time to issue
    fit.constants["kernel_seconds"] = std::clamp(costs[0], 5e-7, 2e-5);
  }
}

// Bytes per second of the copies of one direction; 0: none were measured.
double copy_rate(const Microbenchmarks& points, std::string_view direction) {
  std::vector<double> rates;
  for (const CopySample& sample : points.copies) {
    if (sample.direction == direction) {
      rates.push_back(static_cast<double>(sample.bytes.value) / sample.timing.median.value);
    }
  }
  return rates.empty() ? 0 : median_of(rates);
}

// Bytes per second between a GPU and pinned memory on its host, and of the memory of one socket
// that the GPUs measured share (planner/cost/host_machine.h).
void fit_host_copies(const Microbenchmarks& points, topologies::Cluster cluster, GpuFit& fit) {
  cluster.gpus = std::max<std::int64_t>(1, points.machine.gpus);
  const double ranks = ranks_of_socket(cluster);
  const double together = copy_rate(points, "both_ways");
  const double alone = copy_rate(points, "both_ways_alone");
  const std::pair<const char*, double> found[] = {
      {"host_rate", copy_rate(points, "host_to_device")},
      {"host_both_rate", alone > 0 ? alone : together},
      {"host_copies_rate", ranks > 1 ? 2 * ranks * together : 0}};
  for (const auto& [constant, rate] : found) {
    if (rate > 0) {
      fit.constants[constant] = rate;
    }
  }
}

// "cudnn": the vendor's kernel; "flash": FlashAttention-2 as PyTorch ships it; others are no fused
// kernel.
void fit_attention(const Microbenchmarks& points, const topologies::Cluster& cluster,
                   Profile& profile, GpuFit& fit) {
  for (const bool portable : {false, true}) {
    const char* constant = portable ? "portable_attention_efficiency" : "attention_efficiency";
    const OpCost cost(cluster, profile);
    std::vector<double> ratios;
    for (const AttentionSample& sample : points.attention) {
      if (is_fused(sample) && is_portable(sample) == portable) {
        ratios.push_back(predicted_seconds(sample, topologies::Pass::kForward, cost) /
                         sample.forward.median.value);
      }
    }
    if (!ratios.empty()) {
      fit.constants[constant] =
          std::clamp(fit.constants.at(constant) * median_of(ratios), 0.005, 1.0);
    }
  }
  for (const AttentionSample& sample : points.attention) {
    if (is_fused(sample)) {
      fit.attention.push_back({sample.batch, sample.heads, sample.kv_heads, sample.sequence,
                               sample.head_size, sample.forward.median, sample.backward.median,
                               is_portable(sample)});
    }
  }
  profile.gpus[cluster.gpu.name] = fit;
}

std::vector<CollectiveMeasurement> collectives_of(const Microbenchmarks& points,
                                                  const ProfileFitSettings& settings) {
  std::map<std::pair<std::int64_t, topologies::Collective>, CollectiveMeasurement> found;
  for (const CollectiveSample& sample : points.collectives) {
    const auto collective = topologies::find_collective(sample.operation);
    if (!collective) {
      continue;
    }
    CollectiveMeasurement& one = found[{sample.ranks, *collective}];
    one.cluster = settings.cluster;
    one.cluster.gpus = std::max(one.cluster.gpus, sample.ranks);
    one.group = topologies::group_shape(one.cluster, sample.ranks, 1);
    one.collective = *collective;
    one.source = settings.source;
    one.host_timed = settings.host_timed;
    one.points.push_back({static_cast<double>(sample.bytes.value), sample.timing.median.value});
  }
  std::vector<CollectiveMeasurement> measured;
  measured.reserve(found.size());
  for (auto& [key, one] : found) {
    measured.push_back(std::move(one));
  }
  return measured;
}

// Of this project's runtime; the shipped ones at first.
std::map<std::string, double>& own_constants(Profile& profile) {
  return profile.frameworks
      .try_emplace("trireme", topologies::shipped_profile().frameworks.at("trireme"))
      .first->second;
}

void fit_overlap(const Microbenchmarks& points, Profile& profile) {
  std::vector<double> shares;
  for (const OverlapSample& sample : points.overlaps) {
    const double compute = sample.compute_beside.median.value / sample.compute_alone.median.value;
    const double collective =
        sample.collective_beside.median.value / sample.collective_alone.median.value;
    profile.overlaps.push_back({sample.operation, compute - 1, collective - 1});
    // What compute loses for each second that the collective takes alone: beside compute it takes
    // longer, and all that time compute is slower.
    shares.push_back(std::max(0.0, collective * (1 - 1 / compute)));
  }
  if (!shares.empty()) {
    own_constants(profile)["overlap_slowdown"] = std::clamp(median_of(shares), 0.0, 0.9);
  }
}

// Bytes per second of messages of 1 MiB and more, where what a message costs beside them is small.
void fit_messages(const Microbenchmarks& points, Profile& profile) {
  std::vector<double> rates;
  for (const CollectiveSample& sample : points.messages) {
    if (sample.bytes.value >= std::int64_t{1} << 20) {
      rates.push_back(static_cast<double>(sample.bytes.value) / sample.timing.median.value);
    }
  }
  if (!rates.empty()) {
    own_constants(profile)["message_rate"] = median_of(rates);
  }
}

// What the fit starts from: the profile that is built on, where it knows this card, less the tables
// that are measured anew; else the card's shipped constants.
GpuFit start_of(const Microbenchmarks& points, const ProfileFitSettings& settings) {
  const topologies::Gpu& gpu = settings.cluster.gpu;
  const auto known = settings.base.gpus.find(gpu.name);
  GpuFit fit;
  if (known != settings.base.gpus.end()) {
    fit = known->second;
    fit.source += "; " + settings.source;
    for (const MatmulSample& sample : points.matmuls) {
      std::erase_if(fit.matmuls, [&sample](const topologies::MatmulPoint& point) {
        return point.precision == sample.precision;
      });
    }
    if (!points.grouped.empty()) {
      fit.grouped.clear();
    }
    if (std::ranges::any_of(points.attention, is_fused)) {
      fit.attention.clear();
    }
  } else {
    fit = topologies::fit_for(gpu, topologies::shipped_profile());
    fit.matmuls.clear();
    fit.grouped.clear();
    fit.attention.clear();
    fit.kernels.clear();
    fit.source = settings.source;
  }
  fit.measured = true;
  fit.compute_capability = gpu.compute_capability;
  return fit;
}

bool measures_device(const Microbenchmarks& points) {
  return !points.matmuls.empty() || !points.grouped.empty() || !points.attention.empty() ||
         !points.passes.empty() || !points.kernels.empty();
}

}  // namespace

ProfileFit fit_profile(const Microbenchmarks& points, const ProfileFitSettings& settings) {
  if (!measures_device(points) && points.collectives.empty()) {
    throw Error(settings.source, "holds no measured point");
  }
  const topologies::Gpu& gpu = settings.cluster.gpu;
  const Microbenchmarks used = settings.host_timed ? device_bound(points) : points;
  ProfileFit result;
  Profile& profile = result.profile;
  profile.name = gpu.name + ", " + settings.source;
  profile.machine = points.machine;
  profile.topology = settings.cluster.name;
  profile.points = std::make_shared<const Microbenchmarks>(points);
  if (measures_device(used)) {
    GpuFit fit = start_of(used, settings);
    fit_passes(used, gpu, settings.host_timed, fit);
    fit_host_copies(used, settings.cluster, fit);
    const double launch = points.launch.median.value;
    if (launch > 0 && !settings.host_timed) {
      fit.constants["launch_seconds"] = std::clamp(launch, 5e-7, 1e-4);
    }
    for (const auto& [name, kernel] : fit_kernels(used.kernels)) {
      fit.kernels[name] = kernel;
    }
    profile.gpus[gpu.name] = fit;
    fit_matmuls(used.matmuls, settings.cluster, profile, fit);
    fit_grouped(used.grouped, settings.cluster, profile, fit);
    fit_attention(used, settings.cluster, profile, fit);
    result.lines = errors_on_points(used, settings.cluster, profile);
  }
  result.collectives = fit_collectives(collectives_of(used, settings), profile);
  fit_overlap(points, profile);
  fit_messages(points, profile);
  for (const FitLine& line : result.lines) {
    profile.residuals[line.what] = line.residual;
  }
  for (const CollectiveFitReport& report : result.collectives) {
    profile.residuals[report.name] = report.regimes_error;
  }
  return result;
}

}  // namespace trireme::planner
