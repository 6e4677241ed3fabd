// What is told of a case beside its figures: how it differs from the base.
#include "tools/whatif_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cost/time_items.h"
#include "tools/launchable.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::kTimeItems;
using planner::TimeItem;
using planner::TimeItems;

double share(const Estimate& estimate, double TimeItems::*part) {
  return 100 * estimate.time.exposed.*part / estimate.time.step_seconds;
}

// The switches that are on in one and not in the other.
std::string switched_beside(const WhatIfCase& one, const WhatIfCase& other) {
  std::vector<std::string_view> flags;
  for (const planner::SwitchGain& gain : one.switches) {
    const bool shared = std::any_of(
        other.switches.begin(), other.switches.end(), [&](const planner::SwitchGain& also) {
          return also.applied && also.which.setting == gain.which.setting;
        });
    if (gain.applied && !shared) {
      flags.push_back(gain.which.flag);
    }
  }
  return fmt::format("{}", fmt::join(flags, ", "));
}

}  // namespace

std::string bottleneck_of(const TimeItems& items) {
  const auto largest = std::max_element(
      kTimeItems.begin(), kTimeItems.end(),
      [&](const TimeItem& a, const TimeItem& b) { return items.*a.part < items.*b.part; });
  return largest->name;
}

void add_switch_notes(const WhatIfCase& base, WhatIfCase& mine) {
  if (const std::string more = switched_beside(mine, base); !more.empty()) {
    mine.notes.push_back("switched on beside the base's: " + more);
  }
  if (const std::string fewer = switched_beside(base, mine); !fewer.empty()) {
    mine.notes.push_back("without the base's " + fewer + ", which does not help here");
  }
}

void drop_what_cannot_be_said(const WhatIfCase& base, std::string_view what, WhatIfCase& mine) {
  if (!mine.estimate || full_name(mine.job.framework) == full_name(base.job.framework)) {
    return;
  }
  if (const std::string refusal = export_refusal(mine.job, mine.estimate->plan); !refusal.empty()) {
    mine.estimate.reset();
    mine.notes = {fmt::format("{}: {}", what, refusal)};
  }
}

void add_notes(const WhatIfCase& base, WhatIfCase& mine) {
  const Estimate& before = *base.estimate;
  const Estimate& now = *mine.estimate;
  if (!(now.plan == before.plan)) {
    mine.notes.push_back(fmt::format("layout {} becomes {}", planner::short_form(before.plan),
                                     planner::short_form(now.plan)));
  }
  if (now.memory.fit == planner::Fit::kNo) {
    mine.notes.push_back(verdict(now.memory));
  }
  const std::string old_bottleneck = bottleneck_of(before.time.exposed);
  const std::string bottleneck = bottleneck_of(now.time.exposed);
  if (bottleneck != old_bottleneck) {
    mine.notes.push_back(fmt::format("{} became the largest part of the step, before {}",
                                     bottleneck, old_bottleneck));
  }
  const TimeItem* grown = nullptr;
  double most = 1;  // per cent of the step: less is not worth a word
  for (const TimeItem& item : kTimeItems) {
    const double growth = share(now, item.part) - share(before, item.part);
    if (growth > most) {
      most = growth;
      grown = &item;
    }
  }
  if (grown != nullptr) {
    mine.notes.push_back(fmt::format("{} grows from {:.1f} % to {:.1f} % of the step", grown->name,
                                     share(before, grown->part), share(now, grown->part)));
  }
}

}  // namespace trireme::tools
