#include "planner/calibrate/fit.h"

#include <algorithm>
#include <cmath>

#include "planner/calibrate/nelder_mead.h"
#include "planner/cost/time.h"

namespace trireme::planner {

namespace {

double& slot(const FitConstant& constant, const std::string& entry, topologies::Profile& profile) {
  switch (constant.owner) {
    case FitConstant::Owner::kGpu:
      return profile.gpus[entry].constants[constant.name];
    case FitConstant::Owner::kFramework:
      return profile.frameworks[entry][constant.name];
    case FitConstant::Owner::kNetwork:
      break;
  }
  return profile.networks[entry][constant.name];
}

// Constants move on a logarithmic scale between their bounds.
double from_unit(const FitConstant& constant, double unit) {
  const double inside = 1.0 / (1.0 + std::exp(-unit));
  return constant.low * std::pow(constant.high / constant.low, inside);
}

double to_unit(const FitConstant& constant, double value) {
  const double span = std::log(constant.high / constant.low);
  const double inside =
      std::clamp(std::log(std::max(value, constant.low) / constant.low) / span, 0.02, 0.98);
  return std::log(inside / (1.0 - inside));
}

void put(const FitGroup& group, const std::vector<double>& units, topologies::Profile& profile) {
  for (std::size_t i = 0; i < group.constants.size(); ++i) {
    const double value = from_unit(group.constants[i], units[i]);
    for (const std::string& entry : group.constants[i].entries) {
      slot(group.constants[i], entry, profile) = value;
    }
  }
}

struct WeighedCase {
  Job job;
  Plan plan;
  double measured = 0;
  double weight = 0;
};

// Absolute log error, rounded at 1 % and bending off beyond 40 %: outliers must not pull.
double row_loss(double predicted, double measured) {
  const double error = std::abs(std::log(predicted / measured));
  const double rounded = std::sqrt(error * error + 1e-4) - 1e-2;
  return 0.4 * std::tanh(rounded / 0.4);
}

}  // namespace

FitReport fit_group(const FitGroup& group, const std::vector<ValidationCase>& cases,
                    const std::string& left_out, int evaluations, topologies::Profile& profile) {
  std::vector<WeighedCase> rows;
  for (const FitSource& source : group.sources) {
    if (source.source == left_out) {
      continue;
    }
    const auto belongs = [&](const ValidationCase& one) {
      return one.row.source == source.source && is_gated_row(one) && is_fit_row(one.row);
    };
    const auto count = std::count_if(cases.begin(), cases.end(), belongs);
    for (const ValidationCase& one : cases) {
      if (belongs(one)) {
        rows.push_back({one.found.job, one.found.plan, *one.measured_seconds,
                        1.0 / (source.target * static_cast<double>(count))});
      }
    }
  }
  FitReport report;
  report.rows = static_cast<int>(rows.size());
  if (!left_out.empty()) {
    for (const FitConstant& constant : group.constants) {
      for (const std::string& entry : constant.entries) {
        slot(constant, entry, profile) = constant.prior;
      }
    }
  }
  if (rows.empty()) {
    return report;
  }
  topologies::Profile trial = profile;
  for (auto& named : trial.gpus) {
    const auto is_of = [&named](const WeighedCase& row) {
      return row.job.cluster.gpu.name == named.first;
    };
    if (!std::any_of(rows.begin(), rows.end(), is_of)) {
      named.second.matmuls.clear();
    }
  }
  const auto loss = [&](const std::vector<double>& units) {
    put(group, units, trial);
    double sum = 0;
    TimeEstimate estimate;
    for (WeighedCase& row : rows) {
      row.job.profile = trial;
      TimeModel(row.job).estimate(row.plan, estimate);
      sum += row.weight * row_loss(estimate.step_seconds, row.measured);
    }
    return sum;
  };
  std::vector<double> start;
  for (const FitConstant& constant : group.constants) {
    start.push_back(to_unit(constant, slot(constant, constant.entries.front(), profile)));
  }
  report.loss_before = loss(start);
  Minimum best = nelder_mead(loss, start, 0.6, evaluations / 2, 1e-5);
  best =
      nelder_mead(loss, best.at, -0.4, evaluations / 2, 1e-5);  // once more, out of a flat simplex
  report.loss_after = best.value;
  put(group, best.at, profile);
  return report;
}

}  // namespace trireme::planner
