#include "planner/calibrate/collective_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/check.h"
#include "planner/calibrate/correction_fit.h"
#include "planner/calibrate/least_squares.h"
#include "topologies/measured_collective.h"

namespace trireme::planner {
namespace {

using topologies::CollectiveTable;

constexpr double kMebibyte = 1 << 20;
// What one more regime must save, as a sum of relative errors, so that noise makes none.
constexpr double kRegimePrice = 0.03;
constexpr std::size_t kMostRegimes = 4;
// Times within this factor of the least are the host's when the host timed.
constexpr double kCollectiveHostFloor = 1.3;

std::vector<CollectiveTable::Point> merged(const CollectiveMeasurement& measured) {
  std::map<double, std::vector<double>> by_size;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveTable::Point& point : measured.points) {
    by_size[point.bytes].push_back(point.seconds);
    least = std::min(least, point.seconds);
  }
  std::vector<CollectiveTable::Point> points;
  for (const auto& [bytes, seconds] : by_size) {
    const double median = median_of(seconds);
    if (!measured.host_timed || median > kCollectiveHostFloor * least) {
      points.push_back({bytes, median});
    }
  }
  return points;
}

struct Segment {
  CollectiveTable::Regime regime;
  double error = 0;  // sum of relative errors
};

Segment fit_segment(const std::vector<CollectiveTable::Point>& points, std::size_t first,
                    std::size_t last) {
  std::vector<std::vector<double>> rows;
  std::vector<double> seconds;
  for (std::size_t i = first; i <= last; ++i) {
    rows.push_back({1.0, points[i].bytes});
    seconds.push_back(points[i].seconds);
  }
  if (first == last) {  // one point cannot tell latency from rate
    rows.front()[1] = 0;
  }
  const std::vector<double> costs = robust_costs(rows, seconds);
  Segment segment;
  segment.regime.up_to_bytes = points[last].bytes;
  segment.regime.latency = Seconds(costs[0]);
  segment.regime.rate = BytesPerSecond(costs[1] > 0 ? 1 / costs[1] : 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    segment.error += std::abs((costs[0] + costs[1] * rows[i][1]) / seconds[i] - 1);
  }
  return segment;
}

// Cheapest split of the points into runs: dynamic programming over where each run ends.
std::vector<CollectiveTable::Regime> split(const std::vector<CollectiveTable::Point>& points) {
  const std::size_t n = points.size();
  struct State {
    double cost = std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    Segment last;
  };
  std::vector<std::vector<State>> best(kMostRegimes + 1, std::vector<State>(n + 1));
  best[0][0].cost = 0;
  for (std::size_t end = 1; end <= n; ++end) {
    for (std::size_t begin = 0; begin < end; ++begin) {
      // A run of one size is not a regime, unless there is no other size.
      if (end - begin < std::min<std::size_t>(n, 2)) {
        continue;
      }
      const Segment segment = fit_segment(points, begin, end - 1);
      for (std::size_t used = 1; used <= kMostRegimes; ++used) {
        const double cost = best[used - 1][begin].cost + segment.error + kRegimePrice;
        if (cost < best[used][end].cost) {
          best[used][end] = {cost, begin, segment};
        }
      }
    }
  }
  std::size_t used = 1;
  for (std::size_t k = 1; k <= kMostRegimes; ++k) {
    if (best[k][n].cost < best[used][n].cost) {
      used = k;
    }
  }
  std::vector<CollectiveTable::Regime> regimes;
  for (std::size_t end = n; used > 0; --used) {
    regimes.push_back(best[used][end].last.regime);
    end = best[used][end].from;
  }
  std::ranges::reverse(regimes);
  return regimes;
}

std::string name_of(const CollectiveMeasurement& measured) {
  const topologies::GroupShape& group = measured.group;
  const bool one_node = group.ranks_per_node >= group.ranks;
  return fmt::format("{} over {} {}", topologies::to_string(measured.collective), group.ranks,
                     one_node
                         ? "in one node"
                         : fmt::format("on {} nodes", (group.ranks + group.ranks_per_node - 1) /
                                                          group.ranks_per_node));
}

double regimes_error(const CollectiveTable& table, double from) {
  std::vector<double> errors;
  for (const CollectiveTable::Point& point : table.points) {
    if (point.bytes >= from) {
      errors.push_back(
          std::abs(topologies::regime_seconds(table, point.bytes) / point.seconds - 1));
    }
  }
  return median_of(errors);
}

}  // namespace

CollectiveTable fit_table(const CollectiveMeasurement& measured) {
  TRIREME_CHECK(!measured.points.empty());
  CollectiveTable table;
  const bool one_node = measured.group.ranks_per_node >= measured.group.ranks;
  table.operation = topologies::to_string(measured.collective);
  table.gpu = measured.cluster.gpu.name;
  table.network = one_node ? "" : measured.cluster.network.name;
  table.ranks = measured.group.ranks;
  table.ranks_per_node = std::min(measured.group.ranks, measured.group.ranks_per_node);
  table.source = measured.source;
  table.points = merged(measured);
  if (!table.points.empty()) {
    table.regimes = split(table.points);
    table.residual = regimes_error(table, 0);
  }
  return table;
}

std::vector<CollectiveFitReport> fit_collectives(const std::vector<CollectiveMeasurement>& measured,
                                                 topologies::Profile& profile) {
  std::vector<CollectiveMeasurement> kept;
  std::vector<CollectiveFitReport> reports;
  std::vector<CollectiveTable> tables;
  for (const CollectiveMeasurement& one : measured) {
    CollectiveTable table = fit_table(one);
    if (table.points.empty()) {
      continue;
    }
    kept.push_back(one);
    kept.back().points = table.points;
    reports.push_back({.name = name_of(one),
                       .regimes_error = regimes_error(table, kMebibyte),
                       .model_error_before = model_error(one, profile, kMebibyte),
                       .points = static_cast<int>(table.points.size())});
    tables.push_back(std::move(table));
  }
  fit_corrections(kept, profile);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    reports[i].model_error_after = model_error(kept[i], profile, kMebibyte);
  }
  for (CollectiveTable& table : tables) {
    // A new measurement of the same group takes the old one's place.
    std::erase_if(profile.collectives, [&table](const CollectiveTable& old) {
      return old.operation == table.operation && old.gpu == table.gpu &&
             old.network == table.network && old.ranks == table.ranks &&
             old.ranks_per_node == table.ranks_per_node;
    });
    profile.collectives.push_back(std::move(table));
  }
  return reports;
}

}  // namespace trireme::planner
