// A prediction and a measurement joined: the step, memory, and op by op.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/compare_side.h"
#include "tools/table.h"

namespace trireme::tools {

// Two numbers for the same thing; the error is relative to the measurement.
struct Pair {
  double predicted = 0, measured = 0;
  [[nodiscard]] double difference() const { return predicted - measured; }
  [[nodiscard]] std::optional<double> error() const {
    return measured > 0 ? std::optional(difference() / measured) : std::nullopt;
  }
};

struct JoinedOp {
  OpKey key;
  std::string category;
  Pair transfer, skew;  // seconds of all its instances in one step
  double count = 0;
};

struct Comparison {
  ComparedSide predicted, measured;
  std::optional<Pair> step, memory;
  std::map<std::string, Pair> transfer_by_category,
      skew_by_category;         // summed over ops, mean over stages
  std::vector<JoinedOp> ops;    // worst first
  std::vector<JoinedOp> kinds;  // all layers and micro-batches of an op together; worst first
  std::size_t only_predicted = 0, only_measured = 0;
};

std::optional<Pair> pair_of(const std::optional<double>& predicted,
                            const std::optional<double>& measured);

// Fills step, memory and ops of a comparison whose sides are read.
void join_sides(Comparison& comparison);

// The parts of either side's step, those that are nothing on both left out.
std::vector<std::pair<std::string, Pair>> exposed_parts(const Comparison& comparison);
// Of a side's step that lies outside any op, in seconds and as a share; of it that is exposed
// communication. Empty without a trace.
std::optional<double> unattributed(const ComparedSide& side);
std::optional<double> unattributed_share(const ComparedSide& side);
std::optional<double> communication_share(const ComparedSide& side);

// "+3.1 %" of the measurement; "-" where nothing was measured.
std::string error_text(const Pair& pair);
// Step, memory, exposed communication and what lies outside any op, a row each.
Table comparison_totals(const Comparison& comparison);

}  // namespace trireme::tools
