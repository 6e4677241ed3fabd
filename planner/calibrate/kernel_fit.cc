#include "planner/calibrate/kernel_fit.h"

#include <set>

#include "planner/calibrate/least_squares.h"

namespace trireme::planner {
namespace {

struct Points {
  std::vector<std::vector<double>> rows;  // 1, bytes
  std::vector<double> seconds;
  std::set<std::int64_t> sizes;
};

}  // namespace

std::map<std::string, topologies::KernelFit> fit_kernels(const std::vector<KernelSample>& samples) {
  std::map<std::string, Points> all;
  for (const KernelSample& sample : samples) {
    Points& points = all[sample.kernel];
    points.rows.push_back({1.0, static_cast<double>(sample.traffic.value)});
    points.seconds.push_back(sample.timing.median.value);
    points.sizes.insert(sample.traffic.value);
  }
  std::map<std::string, topologies::KernelFit> fits;
  for (const auto& [name, points] : all) {
    if (points.sizes.size() < 2) {
      continue;
    }
    const std::vector<double> costs = robust_costs(points.rows, points.seconds, 0.1);
    if (costs[1] > 0) {
      fits[name] = {Seconds(costs[0]), BytesPerSecond(1 / costs[1])};
    }
  }
  return fits;
}

}  // namespace trireme::planner
