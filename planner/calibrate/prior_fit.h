// Least squares with priors: positive constants, each known to within a width before any point,
// against residuals of measurements. Gauss-Newton with damping on the logarithms of the constants;
// residuals beyond two expected errors weigh less (Cauchy's loss).
#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace trireme::planner {

struct Prior {
  double value = 1;    // what the constant is without a point
  double width = 0.1;  // standard deviation of its logarithm without a point
  double high = std::numeric_limits<double>::infinity();
};

struct PriorProblem {
  std::vector<Prior> constants;
  std::vector<double> start;  // where the search begins; empty: at the priors
  // Which constants (indices) move each residual.
  std::vector<std::vector<std::size_t>> moved_by;
  // A residual, in units of the error expected of it, at `values` of the constants.
  std::function<double(std::size_t row, const std::vector<double>& values)> residual;
};

struct PriorFit {
  double loss_before = 0, loss_after = 0;
  std::vector<double> values;           // of the constants, in their order
  std::vector<double> standard_errors;  // of their logarithms
  std::vector<std::vector<double>> correlation;
};

PriorFit fit_with_priors(const PriorProblem& problem);

}  // namespace trireme::planner
