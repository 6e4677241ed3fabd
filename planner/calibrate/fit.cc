#include "planner/calibrate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/time.h"
#include "topologies/gpu_fit.h"

namespace trireme::planner {

namespace {

constexpr double kIndependentRows = 12;  // as many as rows of one source count for at most
constexpr double kBend = 2;              // expected errors at which a row begins to weigh less
constexpr double kStep = 0.02;           // of a logarithm, for derivatives
constexpr double kFarthest = 0.5;        // of a logarithm in one round
constexpr int kRounds = 12;

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
      if (one.row.source != source.source || source.source == left_out || !is_gated_row(one) ||
          !is_fit_row(one.row)) {
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

class Problem {
 public:
  Problem(std::vector<FitConstant> constants, std::vector<FitRow> rows)
      : constants_(std::move(constants)), rows_(std::move(rows)) {}

  [[nodiscard]] Eigen::Index count() const { return static_cast<Eigen::Index>(constants_.size()); }

  // Weighed residuals of the rows at the logarithms `at`.
  Eigen::VectorXd residuals(const Eigen::VectorXd& at) {
    Eigen::VectorXd found(static_cast<Eigen::Index>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      found[static_cast<Eigen::Index>(i)] = residual(rows_[i], at);
    }
    return found;
  }

  Eigen::MatrixXd slopes(const Eigen::VectorXd& at, const Eigen::VectorXd& here) {
    Eigen::MatrixXd slopes = Eigen::MatrixXd::Zero(here.size(), count());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      for (const std::size_t moved : rows_[i].moved_by) {
        Eigen::VectorXd shifted = at;
        shifted[static_cast<Eigen::Index>(moved)] += kStep;
        slopes(row, static_cast<Eigen::Index>(moved)) =
            (residual(rows_[i], shifted) - here[row]) / kStep;
      }
    }
    return slopes;
  }

  // Of the constants against their priors, in widths.
  [[nodiscard]] Eigen::VectorXd pulls(const Eigen::VectorXd& at) const {
    Eigen::VectorXd found(count());
    for (Eigen::Index i = 0; i < count(); ++i) {
      const FitConstant& constant = constants_[static_cast<std::size_t>(i)];
      found[i] = (at[i] - std::log(constant.prior)) / constant.width;
    }
    return found;
  }

  [[nodiscard]] Eigen::VectorXd stiffness() const {
    Eigen::VectorXd found(count());
    for (Eigen::Index i = 0; i < count(); ++i) {
      found[i] = 1 / constants_[static_cast<std::size_t>(i)].width;
    }
    return found;
  }

  static double bent(double residual) {
    return kBend * kBend * std::log1p(residual * residual / (kBend * kBend));
  }

  [[nodiscard]] double loss(const Eigen::VectorXd& residuals, const Eigen::VectorXd& at) const {
    double sum = pulls(at).squaredNorm();
    for (const double each : residuals) {
      sum += bent(each);
    }
    return sum;
  }

 private:
  double residual(FitRow& row, const Eigen::VectorXd& at) const {
    for (const std::size_t moved : row.moved_by) {
      const FitConstant& constant = constants_[moved];
      for (const std::string& entry : constant.entries) {
        slot(constant, entry, row.job.profile) = std::exp(at[static_cast<Eigen::Index>(moved)]);
      }
    }
    TimeEstimate estimate;
    TimeModel(row.job).estimate(row.plan, estimate);
    return row.weight * std::log(estimate.step_seconds / row.measured);
  }

  std::vector<FitConstant> constants_;
  std::vector<FitRow> rows_;
};

struct Normal {
  Eigen::MatrixXd matrix;
  Eigen::VectorXd gradient;
};

Normal normal_equations(Problem& problem, const Eigen::VectorXd& at, const Eigen::VectorXd& here) {
  Eigen::MatrixXd slopes = problem.slopes(at, here);
  Eigen::VectorXd residuals = here;
  for (Eigen::Index i = 0; i < here.size(); ++i) {
    const double trust = 1 / std::sqrt(1 + here[i] * here[i] / (kBend * kBend));
    slopes.row(i) *= trust;
    residuals[i] *= trust;
  }
  const Eigen::VectorXd stiffness = problem.stiffness();
  Normal normal;
  normal.matrix = slopes.transpose() * slopes;
  normal.matrix.diagonal() += stiffness.cwiseAbs2();
  normal.gradient = slopes.transpose() * residuals + stiffness.cwiseProduct(problem.pulls(at));
  return normal;
}

void describe(const Normal& normal, const Eigen::VectorXd& at, FitReport& report) {
  const Eigen::MatrixXd covariance = normal.matrix.inverse();
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    report.values.push_back(std::exp(at[i]));
    report.standard_errors.push_back(std::sqrt(covariance(i, i)));
    std::vector<double> line;
    for (Eigen::Index j = 0; j < at.size(); ++j) {
      line.push_back(covariance(i, j) / std::sqrt(covariance(i, i) * covariance(j, j)));
    }
    report.correlation.push_back(std::move(line));
  }
}

}  // namespace

FitReport fit_constants_to_rows(const std::vector<ValidationCase>& cases,
                                const std::string& left_out, topologies::Profile& profile) {
  const std::vector<FitConstant> constants = fit_constants();
  // Tables of measured products say more of a card than its constants: rows are judged with them.
  Problem problem(constants, rows_of(cases, left_out, constants, profile));
  Eigen::VectorXd at(problem.count());
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    at[i] = std::log(constants[static_cast<std::size_t>(i)].prior);
  }
  Eigen::VectorXd here = problem.residuals(at);
  FitReport report;
  report.rows = static_cast<int>(here.size());
  report.loss_before = report.loss_after = problem.loss(here, at);
  Normal normal = normal_equations(problem, at, here);
  double damping = 1e-3;
  for (int round = 0; round < kRounds && damping < 1e3; ++round) {
    Eigen::MatrixXd damped = normal.matrix;
    damped.diagonal() *= 1 + damping;
    const Eigen::VectorXd move =
        (-damped.ldlt().solve(normal.gradient)).cwiseMax(-kFarthest).cwiseMin(kFarthest);
    const Eigen::VectorXd next = at + move;
    const Eigen::VectorXd there = problem.residuals(next);
    const double loss = problem.loss(there, next);
    if (loss >= report.loss_after) {
      damping *= 10;
      continue;
    }
    const bool settled = report.loss_after - loss < 1e-4 * report.loss_after;
    at = next;
    here = there;
    report.loss_after = loss;
    damping = std::max(1e-6, damping / 5);
    normal = normal_equations(problem, at, here);
    if (settled) {
      break;
    }
  }
  describe(normal, at, report);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    for (const std::string& entry : constants[i].entries) {
      slot(constants[i], entry, profile) = report.values[i];
    }
  }
  return report;
}

}  // namespace trireme::planner
