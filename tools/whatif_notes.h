// What `whatif` tells of a case in words.
#pragma once

#include <string>

#include "tools/whatif_cases.h"

namespace trireme::tools {

// The largest part of the step, "compute" included.
std::string bottleneck_of(const planner::TimeItems& items);

// Of a case that was planned again in its base's framework: the switches that differ.
void add_switch_notes(const WhatIfCase& base, WhatIfCase& mine);
// Under another framework than the base's, what that one's launch file cannot say is no answer: the
// estimate goes, and a note that begins with `what` says why.
void drop_what_cannot_be_said(const WhatIfCase& base, std::string_view what, WhatIfCase& mine);
// How its layout, its largest part and its verdict differ from the base's.
void add_notes(const WhatIfCase& base, WhatIfCase& mine);

}  // namespace trireme::tools
