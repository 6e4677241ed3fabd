#include "planner/cost/interval.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/behaviour_fit.h"

namespace trireme::planner {

namespace {

// Share of the interval's logarithm that is left when the profile was measured on the machine: what
// runs said with and without one (docs/gpu_measurements.md).
double left_when_calibrated(const Framework& framework, const topologies::Profile& profile) {
  const bool own_card = profile.machine && std::ranges::find(profile.shipped_parts, "gpus") ==
                                               profile.shipped_parts.end();
  const auto shares = profile.intervals.find("calibrated");
  if (!own_card || shares == profile.intervals.end()) {
    return 1;
  }
  auto share = shares->second.find(behaviour_name(framework));
  if (share == shares->second.end()) {
    share = shares->second.find("other");
  }
  return share == shares->second.end() ? 1 : share->second;
}

}  // namespace

Interval interval_of(const Framework& framework, const topologies::Profile& profile) {
  if (profile.interval) {  // of the profile's own runs
    return {profile.interval->low, profile.interval->high};
  }
  auto found = profile.intervals.find(behaviour_name(framework));
  if (found == profile.intervals.end()) {
    found = profile.intervals.find("other");
  }
  Interval interval;
  if (found != profile.intervals.end()) {
    const auto value = [&](const char* name, double otherwise) {
      const auto entry = found->second.find(name);
      return entry == found->second.end() ? otherwise : entry->second;
    };
    interval.low = value("low", interval.low);
    interval.high = value("high", interval.high);
  }
  const double left = left_when_calibrated(framework, profile);
  return {std::pow(interval.low, left), std::pow(interval.high, left)};
}

Interval interval_of(const Job& job) {
  Interval interval = interval_of(job.framework, job.profile);
  const auto widen = [&](const char* kind) {
    const auto found = job.profile.intervals.find(kind);
    if (!job.profile.interval && found != job.profile.intervals.end()) {
      interval.low = std::min(interval.low, found->second.at("low"));
      interval.high = std::max(interval.high, found->second.at("high"));
    }
  };
  if (job.training.has_adapters()) {
    widen("adapters");
  }
  if (job.offload.any()) {
    widen("offload");
  }
  if (job.model.moe) {
    widen(job.framework.even_routing ? "experts" : "uneven_experts");
  }
  if (job.precision == topologies::Precision::kFp8 ||
      job.precision == topologies::Precision::kFp4) {
    widen("low_precision");
  }
  return interval;
}

}  // namespace trireme::planner
