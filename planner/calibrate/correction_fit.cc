#include "planner/calibrate/correction_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/calibrate/least_squares.h"
#include "planner/calibrate/prior_fit.h"
#include "topologies/corrections.h"
#include "topologies/nccl_graph.h"

namespace trireme::planner {
namespace {

using topologies::CorrectionPrior;
using topologies::FabricFit;
using topologies::NetworkFit;
using topologies::Profile;

constexpr double kError = 0.06;            // expected of a point's logarithm
constexpr double kIndependentPoints = 12;  // as many as points of one table count for at most
// A constant so far is that of machines of the same kind: it says more than one of any kind.
constexpr double kSameKind = 0.5;
// Of its prior's width that is left to a constant that no point feels.
constexpr double kUntouched = 0.98;

double model_seconds(const CollectiveMeasurement& one, const Profile& profile, double bytes) {
  return topologies::collective_time(one.cluster, profile, one.collective, one.group,
                                     Bytes(static_cast<std::int64_t>(bytes)),
                                     topologies::CostFamily::kNccl, false)
      .time.value;
}

// Constants of the entries that tables speak of, each entry's in a row.
class Constants {
 public:
  // Indices of the entry's constants.
  std::vector<std::size_t> of(const std::string& entry,
                              const std::vector<CorrectionPrior>& corrections, double width_scale) {
    auto [at, added] = indices_.try_emplace(entry);
    for (const CorrectionPrior& one : added ? corrections : std::vector<CorrectionPrior>()) {
      at->second.push_back(priors.size());
      priors.push_back({one.value, one.width * width_scale, one.high});
      fitted.push_back({entry, std::string(one.name)});
    }
    return at->second;
  }
  std::vector<Prior> priors;
  std::vector<FittedCorrection> fitted;

 private:
  std::map<std::string, std::vector<std::size_t>> indices_;
};

struct Point {
  const CollectiveMeasurement* table = nullptr;
  double bytes = 0, seconds = 0, weight = 0;
};

}  // namespace

std::vector<FittedCorrection> fitted_corrections(const std::vector<CollectiveMeasurement>& measured,
                                                 const Profile& profile, bool anew) {
  Constants constants;
  PriorProblem problem;
  std::vector<Point> points;
  for (const CollectiveMeasurement& one : measured) {
    const auto graph = topologies::nccl_graph(one.cluster, one.group);
    const FabricFit fabric = topologies::fabric_fit(profile, graph, one.cluster.gpu);
    const NetworkFit network = topologies::network_fit(profile, one.cluster.network.name);
    const double width_scale = anew ? 1 : kSameKind;
    std::vector<std::size_t> moved_by =
        constants.of(std::string(topologies::fabric_key(graph, one.cluster.gpu)),
                     corrections_of(anew ? FabricFit{} : fabric), width_scale);
    if (graph.nodes > 1) {
      const auto more = constants.of(one.cluster.network.name,
                                     corrections_of(anew ? NetworkFit{} : network), width_scale);
      moved_by.insert(moved_by.end(), more.begin(), more.end());
    }
    const auto count = static_cast<double>(one.points.size());
    for (const auto& point : one.points) {
      points.push_back({&one, point.bytes, point.seconds,
                        std::sqrt(std::min(1.0, kIndependentPoints / count)) / kError});
      problem.moved_by.push_back(moved_by);
    }
  }
  // Tables would answer in the model's place.
  Profile model;
  model.networks = profile.networks;
  problem.constants = constants.priors;
  problem.residual = [&](std::size_t row, const std::vector<double>& values) {
    for (const std::size_t moved : problem.moved_by[row]) {
      const FittedCorrection& constant = constants.fitted[moved];
      model.networks[constant.entry][constant.name] = values[moved];
    }
    const Point& point = points[row];
    return point.weight * std::log(model_seconds(*point.table, model, point.bytes) / point.seconds);
  };
  const PriorFit fit = fit_with_priors(problem);
  std::vector<FittedCorrection> felt;
  for (std::size_t i = 0; i < fit.values.size(); ++i) {
    if (fit.standard_errors[i] < kUntouched * constants.priors[i].width) {
      felt.push_back({constants.fitted[i].entry, constants.fitted[i].name, fit.values[i],
                      fit.standard_errors[i]});
    }
  }
  return felt;
}

void fit_corrections(const std::vector<CollectiveMeasurement>& measured, Profile& profile) {
  for (const FittedCorrection& one : fitted_corrections(measured, profile, false)) {
    profile.networks[one.entry][one.name] = one.value;
  }
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
