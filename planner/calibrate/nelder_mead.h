// Downhill simplex search (Nelder and Mead 1965) for the few constants of the fits: no gradients,
// so that robust losses are allowed.
#pragma once

#include <functional>
#include <vector>

namespace trireme::planner {

struct Minimum {
  std::vector<double> at;
  double value = 0;
  int evaluations = 0;
};

// From `start`, with a first simplex of size `step` along each coordinate; stops after
// `evaluations` or when the simplex' values agree within `tolerance`. Deterministic.
Minimum nelder_mead(const std::function<double(const std::vector<double>&)>& loss,
                    const std::vector<double>& start, double step, int evaluations,
                    double tolerance = 1e-6);

}  // namespace trireme::planner
