// What `whatif` works out for each case: the job as changed, its layout kept or planned again, and
// how it compares.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/search/switches.h"
#include "tools/options.h"
#include "tools/variation.h"

namespace trireme::tools {

struct WhatIfRequest {
  std::string plan_file;
  JobOptions job;
  LayoutOptions layout;
  bool keep_layout = false;
  bool simulate = false;            // judge every case by simulation
  double dollars_per_gpu_hour = 0;  // of the base's machine; 0: not given
};

// By resource: change of ln(step) over change of ln(resource), the layout kept; -1: the step
// shrinks as it grows.
using Elasticities = std::map<std::string, double>;

struct WhatIfCase {
  std::vector<Change> changes;
  planner::Job job;
  std::optional<planner::Estimate> estimate;  // empty: no layout, see the notes
  double step_ratio = 0;                      // to the base
  double dollars_per_gpu_hour = 0;            // 0: no price was given for this machine
  Elasticities elasticity;
  std::vector<std::string> notes;
  std::vector<planner::SwitchGain> switches;  // of what was planned
  planner::Framework asked;                   // before they were switched on
};

// The base: the given layout, or the best one. Throws Error when there is none.
WhatIfCase work_out_base(const WhatIfRequest& request, int threads);
// A case beside the base. Changes named "straggler" and "slow_link" are simulated. Throws Error on
// a change whose value is none; a case that has no legal or fitting layout is an answer with a
// note.
WhatIfCase work_out_case(const WhatIfRequest& request, const WhatIfCase& base,
                         const std::vector<Change>& changes);

// The same, but a machine that cannot be (nodes without a network between them, a card without the
// precision) is an answer with a note too.
WhatIfCase try_case(const WhatIfRequest& request, const WhatIfCase& base,
                    const std::vector<Change>& changes);

// Of a case with a price and a layout, else 0.
double dollars_per_million_tokens(const WhatIfCase& mine);
// The price per GPU and hour at which a token costs what it costs on the base; 0 without its price.
double break_even_price(const WhatIfCase& base, const WhatIfCase& mine);

}  // namespace trireme::tools
