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

Table budget_table(const std::vector<OfferAnswer>& answers);
// Which is cheapest, fastest, smallest, and which cannot be told apart: a line each.
std::vector<std::string> budget_remarks(const BudgetRequest& request,
                                        const std::vector<OfferAnswer>& answers);

Json budget_json(const BudgetRequest& request, const std::vector<OfferAnswer>& answers);
void print_budget(const Console& console, const BudgetRequest& request,
                  const std::vector<OfferAnswer>& answers);

}  // namespace trireme::tools
