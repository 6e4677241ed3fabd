// Linear fits whose coefficients are costs, so none may be negative, and whose points may hold
// outliers.
#pragma once

#include <vector>

namespace trireme::planner {

// x >= 0 that minimises |A x - b|; `rows` of A have equal length. Lawson and Hanson 1974, ch. 23.
std::vector<double> nonnegative_least_squares(const std::vector<std::vector<double>>& rows,
                                              const std::vector<double>& b);

// As above for relative errors, weighed down beyond `scale` (Huber): every b must be positive.
std::vector<double> robust_costs(const std::vector<std::vector<double>>& rows,
                                 const std::vector<double>& b, double scale = 0.05);

double median_of(std::vector<double> values);  // 0 for none

}  // namespace trireme::planner
