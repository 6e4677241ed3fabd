#include "planner/calibrate/nelder_mead.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trireme::planner {

namespace {

struct Vertex {
  std::vector<double> at;
  double value = 0;
};

std::vector<double> between(const std::vector<double>& from, const std::vector<double>& to,
                            double share) {
  std::vector<double> point(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    point[i] = from[i] + share * (to[i] - from[i]);
  }
  return point;
}

std::vector<double> centre_of_all_but_last(const std::vector<Vertex>& simplex) {
  std::vector<double> centre(simplex.front().at.size(), 0.0);
  for (std::size_t v = 0; v + 1 < simplex.size(); ++v) {
    for (std::size_t i = 0; i < centre.size(); ++i) {
      centre[i] += simplex[v].at[i] / static_cast<double>(simplex.size() - 1);
    }
  }
  return centre;
}

}  // namespace

Minimum nelder_mead(const std::function<double(const std::vector<double>&)>& loss,
                    const std::vector<double>& start, double step, int evaluations,
                    double tolerance) {
  Minimum result;
  const auto measure = [&](std::vector<double> at) {
    ++result.evaluations;
    const double value = loss(at);
    return Vertex{std::move(at), value};
  };
  std::vector<Vertex> simplex{measure(start)};
  for (std::size_t i = 0; i < start.size(); ++i) {
    std::vector<double> at = start;
    at[i] += step;
    simplex.push_back(measure(at));
  }
  const auto by_value = [](const Vertex& a, const Vertex& b) { return a.value < b.value; };
  std::stable_sort(simplex.begin(), simplex.end(), by_value);
  while (result.evaluations < evaluations &&
         simplex.back().value - simplex.front().value > tolerance) {
    const std::vector<double> centre = centre_of_all_but_last(simplex);
    Vertex& worst = simplex.back();
    Vertex reflected = measure(between(centre, worst.at, -1.0));
    if (reflected.value < simplex.front().value) {
      Vertex expanded = measure(between(centre, worst.at, -2.0));
      worst = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < simplex[simplex.size() - 2].value) {
      worst = reflected;
    } else {
      const bool outside = reflected.value < worst.value;
      Vertex contracted = measure(between(centre, outside ? reflected.at : worst.at, 0.5));
      if (contracted.value < std::min(reflected.value, worst.value)) {
        worst = contracted;
      } else {
        for (std::size_t v = 1; v < simplex.size(); ++v) {
          simplex[v] = measure(between(simplex.front().at, simplex[v].at, 0.5));
        }
      }
    }
    std::stable_sort(simplex.begin(), simplex.end(), by_value);
  }
  result.at = simplex.front().at;
  result.value = simplex.front().value;
  return result;
}

}  // namespace trireme::planner
