#include "planner/cost/interval.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

namespace {

// What makes a job's prediction less certain than its framework's, by the profile's names.
std::vector<std::string> kinds_of(const Job& job) {
  std::vector<std::string> kinds;
  if (job.training.has_adapters()) {
    kinds.emplace_back("adapters");
  }
  if (job.offload.any()) {
    kinds.emplace_back("offload");
  }
  if (job.model.moe) {
    kinds.emplace_back(job.framework.even_routing ? "experts" : "uneven_experts");
  }
  if (job.precision == topologies::Precision::kFp8 ||
      job.precision == topologies::Precision::kFp4) {
    kinds.emplace_back("low_precision");
  }
  return kinds;
}

void widen(const std::map<std::string, double>& by, Interval& interval) {
  interval.low = std::min(interval.low, by.at("low"));
  interval.high = std::max(interval.high, by.at("high"));
}

// Of a framework whose runs of every kind of the job were seen: "megatron-bridge experts".
std::optional<Interval> interval_of_recipes(const Job& job, const std::vector<std::string>& kinds) {
  Interval interval{1, 1};
  for (const std::string& kind : kinds) {
    const auto found = job.profile.intervals.find(job.framework.name + " " + kind);
    if (found == job.profile.intervals.end()) {
      return std::nullopt;
    }
    widen(found->second, interval);
  }
  return kinds.empty() ? std::nullopt : std::optional<Interval>(interval);
}

}  // namespace

Interval interval_of(const Job& job) {
  Interval interval = interval_of(job.framework, job.profile);
  if (job.profile.interval) {
    return interval;
  }
  const std::vector<std::string> kinds = kinds_of(job);
  if (const auto recipes = interval_of_recipes(job, kinds)) {
    return *recipes;
  }
  for (const std::string& kind : kinds) {
    const auto found = job.profile.intervals.find(kind);
    if (found != job.profile.intervals.end()) {
      widen(found->second, interval);
    }
  }
  return interval;
}

}  // namespace trireme::planner
