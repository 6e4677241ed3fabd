#include "planner/calibrate/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace trireme::planner {
namespace {

// Least squares over the columns in `active`; the others stay zero.
Eigen::VectorXd solve_active(const Eigen::MatrixXd& a, const Eigen::VectorXd& b,
                             const std::vector<bool>& active) {
  std::vector<Eigen::Index> columns;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (active[i]) {
      columns.push_back(static_cast<Eigen::Index>(i));
    }
  }
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  if (columns.empty()) {
    return x;
  }
  Eigen::MatrixXd part(a.rows(), static_cast<Eigen::Index>(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    part.col(static_cast<Eigen::Index>(i)) = a.col(columns[i]);
  }
  const Eigen::VectorXd solved = part.colPivHouseholderQr().solve(b);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    x[columns[i]] = solved[static_cast<Eigen::Index>(i)];
  }
  return x;
}

// Moves from `x` towards `wanted` until a coefficient reaches zero, which leaves the active set.
void step_back(Eigen::VectorXd& x, const Eigen::VectorXd& wanted, std::vector<bool>& active) {
  double share = 1;
  Eigen::Index leaving = -1;
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    if (active[static_cast<std::size_t>(i)] && wanted[i] <= 0) {
      const double reach = x[i] / (x[i] - wanted[i]);
      if (leaving < 0 || reach < share) {
        share = reach;
        leaving = i;
      }
    }
  }
  x += share * (wanted - x);
  x[leaving] = 0;
  active[static_cast<std::size_t>(leaving)] = false;
}

Eigen::VectorXd solve(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  // Columns of one length, so that seconds and seconds per byte weigh alike.
  const Eigen::VectorXd norms = a.colwise().norm().transpose().cwiseMax(1e-300);
  const Eigen::MatrixXd scaled = a * norms.cwiseInverse().asDiagonal();
  std::vector<bool> active(static_cast<std::size_t>(a.cols()), false);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  const double tolerance = 1e-12 * std::max(b.norm(), 1e-300);
  for (Eigen::Index round = 0; round < 3 * a.cols(); ++round) {
    const Eigen::VectorXd gain = scaled.transpose() * (b - scaled * x);
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < gain.size(); ++i) {
      if (!active[static_cast<std::size_t>(i)] && gain[i] > tolerance &&
          (best < 0 || gain[i] > gain[best])) {
        best = i;
      }
    }
    if (best < 0) {
      break;
    }
    active[static_cast<std::size_t>(best)] = true;
    Eigen::VectorXd wanted = solve_active(scaled, b, active);
    while (std::ranges::any_of(wanted, [&](const double& value) {
      return value <= 0 && active[static_cast<std::size_t>(&value - wanted.data())];
    })) {
      step_back(x, wanted, active);
      wanted = solve_active(scaled, b, active);
    }
    x = wanted;
  }
  return x.cwiseQuotient(norms);
}

}  // namespace

std::vector<double> nonnegative_least_squares(const std::vector<std::vector<double>>& rows,
                                              const std::vector<double>& b) {
  TRIREME_CHECK(rows.size() == b.size());
  if (rows.empty()) {
    return {};
  }
  Eigen::MatrixXd a(static_cast<Eigen::Index>(rows.size()),
                    static_cast<Eigen::Index>(rows.front().size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TRIREME_CHECK(rows[i].size() == rows.front().size());
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      a(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = rows[i][j];
    }
  }
  const Eigen::VectorXd x =
      solve(a, Eigen::Map<const Eigen::VectorXd>(b.data(), static_cast<Eigen::Index>(b.size())));
  return {x.begin(), x.end()};
}

std::vector<double> robust_costs(const std::vector<std::vector<double>>& rows,
                                 const std::vector<double>& b, double scale) {
  std::vector<double> weights(b.size(), 1.0);
  std::vector<double> x;
  for (int round = 0; round < 12; ++round) {
    std::vector<std::vector<double>> scaled = rows;
    std::vector<double> ones(b.size());
    for (std::size_t i = 0; i < b.size(); ++i) {
      TRIREME_CHECK(b[i] > 0);
      for (double& value : scaled[i]) {
        value *= weights[i] / b[i];
      }
      ones[i] = weights[i];
    }
    x = nonnegative_least_squares(scaled, ones);
    for (std::size_t i = 0; i < b.size(); ++i) {
      double fitted = 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        fitted += rows[i][j] * x[j];
      }
      const double error = std::abs(fitted / b[i] - 1);
      weights[i] = error <= scale ? 1.0 : std::sqrt(scale / error);
    }
  }
  return x;
}

double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace trireme::planner
