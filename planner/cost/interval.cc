#include "planner/cost/interval.h"

#include "planner/cost/behaviour_fit.h"

namespace trireme::planner {

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
  return interval;
}

}  // namespace trireme::planner
