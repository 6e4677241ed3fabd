#include "planner/calibrate/prior_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace trireme::planner {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double kBend = 2;        // expected errors at which a residual begins to weigh less
constexpr double kStep = 0.02;     // of a logarithm, for derivatives
constexpr double kFarthest = 0.5;  // of a logarithm in one round
constexpr int kRounds = 12;

std::vector<double> values_at(const VectorXd& at) {
  std::vector<double> values;
  for (const double each : at) {
    values.push_back(std::exp(each));
  }
  return values;
}

VectorXd residuals(const PriorProblem& problem, const VectorXd& at) {
  const std::vector<double> values = values_at(at);
  VectorXd found(static_cast<Index>(problem.moved_by.size()));
  for (Index row = 0; row < found.size(); ++row) {
    found[row] = problem.residual(static_cast<std::size_t>(row), values);
  }
  return found;
}

// One constant after the other, so that a residual's setting up for its values serves all rows.
Eigen::MatrixXd slopes(const PriorProblem& problem, const VectorXd& at, const VectorXd& here) {
  Eigen::MatrixXd slopes = Eigen::MatrixXd::Zero(here.size(), at.size());
  std::vector<double> values = values_at(at);
  for (std::size_t constant = 0; constant < values.size(); ++constant) {
    const double kept = values[constant];
    values[constant] = kept * std::exp(kStep);
    for (std::size_t row = 0; row < problem.moved_by.size(); ++row) {
      if (std::ranges::find(problem.moved_by[row], constant) != problem.moved_by[row].end()) {
        const auto i = static_cast<Index>(row);
        slopes(i, static_cast<Index>(constant)) = (problem.residual(row, values) - here[i]) / kStep;
      }
    }
    values[constant] = kept;
  }
  return slopes;
}

VectorXd of_priors(const PriorProblem& problem, const std::function<double(const Prior&)>& one) {
  VectorXd found(static_cast<Index>(problem.constants.size()));
  for (Index i = 0; i < found.size(); ++i) {
    found[i] = one(problem.constants[static_cast<std::size_t>(i)]);
  }
  return found;
}

struct Normal {
  Eigen::MatrixXd matrix;
  VectorXd gradient;
};

// `pulls`: of the constants against their priors, in widths.
Normal normal_equations(const PriorProblem& problem, const VectorXd& at, VectorXd here,
                        const VectorXd& pulls) {
  Eigen::MatrixXd moved = slopes(problem, at, here);
  for (Index i = 0; i < here.size(); ++i) {
    const double trust = 1 / std::sqrt(1 + here[i] * here[i] / (kBend * kBend));
    moved.row(i) *= trust;
    here[i] *= trust;
  }
  const VectorXd stiffness = of_priors(problem, [](const Prior& p) { return 1 / p.width; });
  Normal normal;
  normal.matrix = moved.transpose() * moved;
  normal.matrix.diagonal() += stiffness.cwiseAbs2();
  normal.gradient = moved.transpose() * here + stiffness.cwiseProduct(pulls);
  return normal;
}

void describe(const Normal& normal, const VectorXd& at, PriorFit& fit) {
  const Eigen::MatrixXd covariance = normal.matrix.inverse();
  fit.values = values_at(at);
  for (Index i = 0; i < at.size(); ++i) {
    fit.standard_errors.push_back(std::sqrt(covariance(i, i)));
    std::vector<double> line;
    for (Index j = 0; j < at.size(); ++j) {
      line.push_back(covariance(i, j) / std::sqrt(covariance(i, i) * covariance(j, j)));
    }
    fit.correlation.push_back(std::move(line));
  }
}

}  // namespace

PriorFit fit_with_priors(const PriorProblem& problem) {
  const VectorXd priors = of_priors(problem, [](const Prior& p) { return std::log(p.value); });
  const VectorXd widths = of_priors(problem, [](const Prior& p) { return p.width; });
  const VectorXd highs = of_priors(problem, [](const Prior& p) { return std::log(p.high); });
  const auto pulls = [&](const VectorXd& at) -> VectorXd {
    return (at - priors).cwiseQuotient(widths);
  };
  const auto loss_of = [&](const VectorXd& here, const VectorXd& at) {
    double sum = pulls(at).squaredNorm();
    for (const double each : here) {
      sum += kBend * kBend * std::log1p(each * each / (kBend * kBend));
    }
    return sum;
  };
  VectorXd at = priors;
  for (std::size_t i = 0; i < problem.start.size(); ++i) {
    at[static_cast<Index>(i)] = std::log(problem.start[i]);
  }
  VectorXd here = residuals(problem, at);
  PriorFit fit;
  fit.loss_before = fit.loss_after = loss_of(here, at);
  Normal normal = normal_equations(problem, at, here, pulls(at));
  double damping = 1e-3;
  for (int round = 0; round < kRounds && damping < 1e3; ++round) {
    Eigen::MatrixXd damped = normal.matrix;
    damped.diagonal() *= 1 + damping;
    const VectorXd move =
        (-damped.ldlt().solve(normal.gradient)).cwiseMax(-kFarthest).cwiseMin(kFarthest);
    const VectorXd next = (at + move).cwiseMin(highs);
    const VectorXd there = residuals(problem, next);
    const double loss = loss_of(there, next);
    if (loss >= fit.loss_after) {
      damping *= 10;
      continue;
    }
    const bool settled = fit.loss_after - loss < 1e-4 * fit.loss_after;
    at = next;
    here = there;
    fit.loss_after = loss;
    damping = std::max(1e-6, damping / 5);
    normal = normal_equations(problem, at, here, pulls(at));
    if (settled) {
      break;
    }
  }
  describe(normal, at, fit);
  return fit;
}

}  // namespace trireme::planner
