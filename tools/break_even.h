// Points at which the answer changes, found by bisection: where another layout takes over as a
// resource grows, and how much of each resource the next faster answer needs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/whatif_cases.h"

namespace trireme::tools {

// `--break-even nic_bandwidth` or `nic_bandwidth=0.5x,4x`: which resource, and between which
// factors of it (0.1x and 10x unless said). Throws Error.
struct BreakEvenRange {
  std::string name;
  double low = 0.1, high = 10;
};
BreakEvenRange parse_break_even(const std::string& text);

// Where a text that depends on a factor changes: the factors halfway (of the logarithm) of every
// change that is found, to 0.1 %. It is asked at `grid` factors from low to high, alike in the
// logarithm, and then between neighbours that differ; a text that changes and changes back between
// two neighbours is not seen. `ask` is called from several threads. Requires: 0 < low < high.
struct TextChange {
  double factor = 0;
  std::string before, after;
};
std::vector<TextChange> find_changes(double low, double high, int grid, int threads,
                                     const std::function<std::string(double)>& ask);

// Short form without how layers are dealt out to stages and axes to ranks: those change with every
// few per cent of memory, and hand nothing over. "none" without an estimate.
std::string bare_layout(const WhatIfCase& mine);

// One layout handing over to another.
struct LayoutChange {
  std::string name;                           // of the resource
  double factor = 0;                          // of the base's
  std::string before, after;                  // short forms; "none": nothing fits
  std::optional<planner::Estimate> estimate;  // at the factor
};
// Requires: the request plans again.
std::vector<LayoutChange> layout_changes(const WhatIfRequest& request, const WhatIfCase& base,
                                         const BreakEvenRange& range, int threads);

// What has to be bought of one thing, all else as it is, for a step that is `faster` shorter.
struct Purchase {
  std::string name;      // a resource, "gpus", or "gpu" for another kind of node
  std::string value;     // "1.31x", "128", "hgx-h200"
  bool reaches = false;  // false: `value` is the most that was tried
  WhatIfCase answer;     // with that much
};
// The least factor, up to 16, of every resource of which more helps, to 0.5 %; whole multiples of
// the GPUs; and, on as many GPUs, each kind of node of the presets that reaches it, fastest first.
std::vector<Purchase> purchases(const WhatIfRequest& request, const WhatIfCase& base, double faster,
                                int threads);

// Of the base, and of each purchase on another number of GPUs: a batch or a sequence that divides
// badly, see near_sizes of tools/plan_advice.h. Nothing where the layout is kept.
std::vector<std::string> purchase_remarks(const WhatIfRequest& request, const WhatIfCase& base,
                                          const std::vector<Purchase>& all);

}  // namespace trireme::tools
