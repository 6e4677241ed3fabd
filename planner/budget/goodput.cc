#include "planner/budget/goodput.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {

namespace {

// A save that is durable later than training goes on: what was done in between is lost too.
double lag_of(const Stops& stops) {
  return std::max(0.0, stops.durable - stops.save);
}

// Saves queue when they follow each other faster than they become durable.
double least_of(const Stops& stops) {
  return std::max({stops.least_interval, lag_of(stops), 1e-3});
}

}  // namespace

double young_interval(const Stops& stops) {
  return std::sqrt(2 * stops.save * stops.mean_between);
}

double daly_interval(const Stops& stops) {
  const double m = stops.mean_between;
  if (stops.save >= 2 * m) {
    return m;
  }
  const double ratio = stops.save / (2 * m);
  return std::sqrt(2 * stops.save * m) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stops.save;
}

double goodput_of(const Stops& stops, double interval) {
  if (stops.mean_between <= 0) {
    return interval > 0 ? interval / (interval + stops.save) : 1;
  }
  const double m = stops.mean_between;
  const double lost = (stops.restart + lag_of(stops)) / m;
  const double wall = m * std::exp(lost) * std::expm1((interval + stops.save) / m);
  return std::isfinite(wall) && wall > 0 ? interval / wall : 0;
}

double best_interval(const Stops& stops) {
  if (stops.mean_between <= 0) {
    return 0;
  }
  // Goodput has one maximum in the logarithm of the interval; Daly's is near it.
  const double guess = std::max(daly_interval(stops), least_of(stops));
  double low = std::log(std::max(least_of(stops), guess / 32));
  double high = std::log(guess * 32);
  constexpr double kGolden = 0.6180339887498949;
  for (int step = 0; step < 80; ++step) {
    const double left = high - kGolden * (high - low);
    const double right = low + kGolden * (high - low);
    (goodput_of(stops, std::exp(left)) < goodput_of(stops, std::exp(right)) ? low : high) =
        goodput_of(stops, std::exp(left)) < goodput_of(stops, std::exp(right)) ? left : right;
  }
  return std::max(least_of(stops), std::exp((low + high) / 2));
}

}  // namespace trireme::planner
