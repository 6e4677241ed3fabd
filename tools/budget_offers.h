// What `budget` works out: each offer's best layout, days, dollars and energy with failures, and
// which offers can be told apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/budget/checkpoint.h"
#include "planner/budget/failures.h"
#include "planner/budget/whole_run.h"
#include "planner/cost/estimate.h"
#include "tools/options.h"

namespace trireme::tools {

// A cluster, with a price or without (0), as `--offer CLUSTER[=PRICE[,loss=RATE]]` says it.
struct Offer {
  std::string name;
  std::string family;  // "dgx-h100x8..64" of an offer that came with others; else empty
  double dollars_per_gpu_hour = 0;
  double losses_per_node_hour = 0;  // of spot machines
};
// One offer, or of "dgx-h100x8..64=2.50" one for 8, 16, 32 and 64 nodes; the last is always among
// them. Throws Error.
std::vector<Offer> parse_offers(const std::string& text);

struct Range {
  double value = 0, low = 0, high = 0;
};

struct BudgetRequest {
  JobOptions job;  // without a cluster
  LayoutOptions layout;
  std::vector<Offer> offers;
  std::optional<double> tokens, deadline_seconds, dollars;
  planner::FailureRate failures;
  std::optional<double> mean_between_seconds;  // over the rate
  double restart_seconds = 600;
  std::optional<double> save_seconds;  // that training waits; over what storage says
  planner::Storage storage;
  std::optional<double> interval_seconds;  // between saves; else the best one
  planner::Repairs repairs;
  double straggle = 0;  // share of the time that slow parts cost
  std::uint64_t seed = 1;
  int trials = 2000;
  int threads = 2;
};

// What spare nodes are worth where a failed node is taken to be replaced at once.
struct SparesWorth {
  double days_without = 0;  // with none; infinite: the run does not end
  // Of those that bring it within a twentieth of the answer, the cheapest number, paid for; without
  // a price the fewest.
  std::int64_t spares = 0;
  double days = 0, dollars = 0;  // with them
};

struct OfferAnswer {
  Offer offer;
  planner::Job job;
  std::optional<planner::Estimate> estimate;
  std::string reason;  // why there is none, or why the run does not end
  double tokens = 0;   // of the run
  Range days, dollars;
  double step_low_ratio = 1, step_high_ratio = 1;  // of the step's interval
  double gpu_hours = 0, energy_kwh = 0, goodput = 0, interval_seconds = 0, failures = 0,
         mean_between_seconds = 0;
  std::int64_t spare_gpus = 0;  // that wait and are paid for
  planner::Checkpoint checkpoint;
  double daly_seconds = 0, young_seconds = 0;
  std::optional<SparesWorth> spares;  // where free replacement decides the answer
  bool in_time = true, in_dollars = true;
  std::vector<std::string> sizes;  // see near_sizes of tools/plan_advice.h
  [[nodiscard]] bool answered() const { return reason.empty() && estimate.has_value(); }
};

// The batch all offers train with: as given, else about four million tokens, and at least a
// sequence for each GPU of the largest offer.
std::int64_t common_batch(const BudgetRequest& request);

// One answer an offer, in their order. `done` is called on the caller's thread as offers finish.
std::vector<OfferAnswer> work_out_offers(const BudgetRequest& request,
                                         const std::function<void(double)>& done);

// Whether the interval of the difference of what they cost (or take, without prices) holds zero.
// Errors of the step that offers on the same GPU share cancel in it.
bool cannot_be_told_apart(const OfferAnswer& a, const OfferAnswer& b, bool by_dollars);

}  // namespace trireme::tools
