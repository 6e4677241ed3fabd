#include "planner/cost/interval.h"

namespace trireme::planner {

Interval interval_of(const Framework& framework, const topologies::Cluster& cluster,
                     const topologies::Profile& profile) {
  static_cast<void>(framework);
  static_cast<void>(cluster);
  static_cast<void>(profile);
  return {};
}

}  // namespace trireme::planner
