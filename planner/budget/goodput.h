// How often to save and what failures leave of the time: closed forms for failures that come at a
// constant rate. Sources: Young 1974; Daly, "A higher order estimate of the optimum checkpoint
// interval", 2006.
#pragma once

namespace trireme::planner {

// What stops a run. Seconds.
struct Stops {
  double mean_between = 0;    // failures; 0 = none
  double restart = 0;         // from a failure to training again
  double save = 0;            // training stands still for a save
  double durable = 0;         // from the start of a save until a restart can use it; 0 = at its end
  double least_interval = 1;  // between saves: one step
};

double young_interval(const Stops& stops);
double daly_interval(const Stops& stops);
// Useful over wall time with a save every `interval` useful seconds:
// interval / (M exp(R / M) (exp((interval + save) / M) - 1)), where R holds the work since the last
// durable save that a save on its way adds.
double goodput_of(const Stops& stops, double interval);
// The interval with the highest goodput. Without failures: none is needed, 0.
double best_interval(const Stops& stops);

}  // namespace trireme::planner
