// What `budget` prints.
#pragma once

#include "tools/budget_offers.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {

// Indices of the answers; -1: none answers.
struct BudgetChoice {
  std::ptrdiff_t cheapest = -1;  // before the deadline
  std::ptrdiff_t fastest = -1;   // within the dollars
  std::ptrdiff_t least = -1;     // fewest GPUs that it fits on
};
BudgetChoice choose(const std::vector<OfferAnswer>& answers);

// How offers that differ by their number of nodes scale, failures included.
struct FamilyPoint {
  std::size_t answer = 0;  // index of the answers
  double speedup = 0;      // tokens a day over the first's
  double efficiency = 0;   // tokens a GPU-hour over the first's
};
struct OfferFamily {
  std::string name;
  std::vector<FamilyPoint> points;        // those answered, by GPUs
  std::optional<std::int64_t> knee_gpus;  // see knee_of of tools/scaling_curves.h
};
// In the order of the offers; of those with an answer.
std::vector<OfferFamily> families_of(const std::vector<OfferAnswer>& answers);

// Whether every offer has one.
bool has_prices(const std::vector<OfferAnswer>& answers);
// Pairs that cannot be told apart, in dollars, or in days without prices.
std::vector<std::pair<std::size_t, std::size_t>> alike(const std::vector<OfferAnswer>& answers);
// Of the cheapest and those whose dollars cannot be told apart from its: the one with the fewest
// days, where these can be told apart from the cheapest's. Else -1.
std::ptrdiff_t fastest_alike(const std::vector<OfferAnswer>& answers, const BudgetChoice& choice);
std::string dollars_text(double dollars);
std::string days_text(double days);  // "18.8 days", "5.3 h"

Table budget_table(const std::vector<OfferAnswer>& answers);
// Which is cheapest, fastest, smallest, and which cannot be told apart: a line each.
std::vector<std::string> budget_remarks(const BudgetRequest& request,
                                        const std::vector<OfferAnswer>& answers);

// What is assumed of failures and of the batch, beside the options that say otherwise.
std::string assumptions_text(const BudgetRequest& request);
// How often a run stops, and the options that say so.
std::string failures_text(const BudgetRequest& request);

void print_budget_json(const Console& console, const BudgetRequest& request,
                       const std::vector<OfferAnswer>& answers);
void print_budget(const Console& console, const BudgetRequest& request,
                  const std::vector<OfferAnswer>& answers);

}  // namespace trireme::tools
