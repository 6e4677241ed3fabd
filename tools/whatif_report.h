// What `whatif` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/break_even.h"
#include "tools/program.h"
#include "tools/scaling_curves.h"
#include "tools/table.h"
#include "tools/whatif_cases.h"

namespace trireme::tools {

struct WhatIfAnswer {
  WhatIfCase base;
  std::vector<WhatIfCase> cases;
  std::optional<ScalingCurves> scaling;
  std::vector<BreakEvenRange> ranges;  // that were asked for
  std::vector<LayoutChange> layout_changes;
  double faster = 0;  // share of the step that was asked for; 0: it was not
  std::vector<Purchase> purchases;
  std::vector<std::string> purchase_remarks;
};

// "nic_bandwidth 0.5x, seq 8192"
std::string case_name(const WhatIfCase& mine);

// The tables below the cases, for the text and the page.
Table scaling_table(const ScalingCurve& curve);
// "knee at 512 GPUs: …"
std::string knee_text(const ScalingCurve& curve);
Table layout_change_table(const std::vector<LayoutChange>& changes);
Table purchase_table(const std::vector<Purchase>& purchases);
// Dollars of the base and of the cases that have a price; no rows without the base's or a case's.
Table price_table(const WhatIfAnswer& answer);

void print_whatif_json(const Console& console, const WhatIfAnswer& answer);
void print_whatif(const Console& console, const WhatIfAnswer& answer);

}  // namespace trireme::tools
