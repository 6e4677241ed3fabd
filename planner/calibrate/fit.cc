#include "planner/calibrate/fit.h"

#include <algorithm>
#include <cmath>

#include "planner/calibrate/prior_fit.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/cost/time.h"
#include "topologies/gpu_fit.h"

namespace trireme::planner {

namespace {

constexpr double kIndependentRows = 12;  // as many as rows of one source count for at most

double& slot(const FitConstant& constant, const std::string& entry, topologies::Profile& profile) {
  return constant.owner == FitConstant::Owner::kGpu
             ? profile.gpus.at(entry).constants[constant.name]
             : profile.frameworks.at(entry)[constant.name];
}

struct FitRow {
  Job job;
  Plan plan;
  double measured = 0, weight = 0;
  std::vector<std::size_t> moved_by;  // indices of constants
};

bool moves(const FitConstant& constant, const Job& job) {
  const auto has = [&](const std::string& entry) {
    return std::ranges::find(constant.entries, entry) != constant.entries.end();
  };
  if (constant.owner == FitConstant::Owner::kFramework) {
    return has(behaviour_name(job.framework)) || has(job.framework.constants);
  }
  const topologies::GpuFit fit = topologies::fit_for(job.cluster.gpu, job.profile);
  return std::ranges::any_of(constant.entries, [&](const std::string& entry) {
    return job.cluster.gpu.name == entry || fit.source.find(entry) != std::string::npos;
  });
}

std::vector<FitRow> rows_of(const std::vector<ValidationCase>& cases, const std::string& left_out,
                            const std::vector<FitConstant>& constants,
                            const topologies::Profile& profile) {
  std::vector<FitRow> rows;
  for (const FitSource& source : fit_sources()) {
    const auto first = static_cast<std::ptrdiff_t>(rows.size());
    for (const ValidationCase& one : cases) {
      if (one.row.source != source.source || source.source == left_out || !is_gated_row(one)) {
        continue;
      }
      FitRow row{one.found.job, one.found.plan, *one.measured_seconds, 0, {}};
      row.job.profile = profile;
      for (std::size_t i = 0; i < constants.size(); ++i) {
        if (moves(constants[i], row.job)) {
          row.moved_by.push_back(i);
        }
      }
      rows.push_back(std::move(row));
    }
    const auto count = static_cast<double>(rows.size()) - static_cast<double>(first);
    for (auto row = rows.begin() + first; row != rows.end(); ++row) {
      row->weight = std::sqrt(std::min(1.0, kIndependentRows / count)) / source.error;
    }
  }
  return rows;
}

double residual(FitRow& row, const std::vector<FitConstant>& constants,
                const std::vector<double>& values) {
  for (const std::size_t moved : row.moved_by) {
    for (const std::string& entry : constants[moved].entries) {
      slot(constants[moved], entry, row.job.profile) = values[moved];
    }
  }
  TimeEstimate estimate;
  TimeModel(row.job).estimate(row.plan, estimate);
  return row.weight * std::log(estimate.step_seconds / row.measured);
}

}  // namespace

bool is_fitted_source(const std::string& source) {
  return std::ranges::any_of(fit_sources(),
                             [&](const FitSource& one) { return one.source == source; });
}

FitReport fit_constants_to_rows(const std::vector<ValidationCase>& cases,
                                const std::string& left_out, topologies::Profile& profile) {
  const std::vector<FitConstant> constants = fit_constants();
  // Tables of measured products say more of a card than its constants: rows are judged with them.
  std::vector<FitRow> rows = rows_of(cases, left_out, constants, profile);
  PriorProblem problem;
  for (const FitConstant& constant : constants) {
    problem.constants.push_back({constant.prior, constant.width});
    problem.start.push_back(slot(constant, constant.entries.front(), profile));
  }
  for (const FitRow& row : rows) {
    problem.moved_by.push_back(row.moved_by);
  }
  problem.residual = [&](std::size_t row, const std::vector<double>& values) {
    return residual(rows[row], constants, values);
  };
  FitReport report{fit_with_priors(problem), static_cast<int>(rows.size())};
  for (std::size_t i = 0; i < constants.size(); ++i) {
    for (const std::string& entry : constants[i].entries) {
      slot(constants[i], entry, profile) = report.values[i];
    }
  }
  return report;
}

}  // namespace trireme::planner
