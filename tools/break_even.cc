#include "tools/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "planner/plan/plan.h"
#include "tools/fault_options.h"
#include "tools/launchable.h"
#include "tools/plan_advice.h"
#include "tools/plan_report.h"
#include "topologies/cluster.h"

namespace trireme::tools {
namespace {

constexpr double kBreakEvenWidth = 1.001;  // of the last interval, high over low
constexpr double kPurchaseWidth = 1.005;
constexpr double kMostBought = 16;
constexpr int kGrid = 9;

std::string factor_text(double factor) {
  return fmt::format("{:.17g}x", factor);
}

// One interval whose ends differ, halved until each change in it lies in an interval of the width.
void halve(double low, const std::string& at_low, double high, const std::string& at_high,
           const std::function<std::string(double)>& ask, std::vector<TextChange>& found) {
  if (at_low == at_high) {
    return;
  }
  const double middle = std::sqrt(low * high);
  if (high / low <= kBreakEvenWidth) {
    found.push_back({middle, at_low, at_high});
    return;
  }
  const std::string at_middle = ask(middle);
  halve(low, at_low, middle, at_middle, ask, found);
  halve(middle, at_middle, high, at_high, ask, found);
}

bool reaches(const WhatIfCase& mine, double target) {
  return mine.estimate && mine.estimate->memory.fit != planner::Fit::kNo &&
         mine.estimate->time.step_seconds <= target;
}

// The least factor at which the step is at most `target`; the step must not grow with it.
Purchase least_factor(const WhatIfRequest& request, const WhatIfCase& base, const std::string& name,
                      double target) {
  const auto with = [&](double factor) {
    return try_case(request, base, {{name, factor_text(factor)}});
  };
  Purchase purchase{name, fmt::format("{:g}x", kMostBought), false, with(kMostBought)};
  purchase.reaches = reaches(purchase.answer, target);
  double low = 1;
  double high = kMostBought;
  while (purchase.reaches && high / low > kPurchaseWidth) {
    const double middle = std::sqrt(low * high);
    WhatIfCase mine = with(middle);
    if (reaches(mine, target)) {
      high = middle;
      purchase.answer = std::move(mine);
      purchase.value = fmt::format("{:.3f}x", high);
    } else {
      low = middle;
    }
  }
  return purchase;
}

Purchase fewest_gpus(const WhatIfRequest& request, const WhatIfCase& base, double target) {
  Purchase purchase;
  for (int times = 2; times <= static_cast<int>(kMostBought) && !purchase.reaches; ++times) {
    const std::string value = fmt::format("{}", base.job.cluster.gpus * times);
    purchase = {"gpus", value, false, try_case(request, base, {{"gpus", value}})};
    purchase.reaches = reaches(purchase.answer, target);
  }
  return purchase;
}

std::vector<Purchase> other_nodes(const WhatIfRequest& request, const WhatIfCase& base,
                                  double target, int threads) {
  const std::vector<std::string> presets = topologies::cluster_preset_names();
  std::vector<Purchase> all(presets.size());
  parallel_for(threads, all.size(), [&](std::size_t, std::size_t at) {
    all[at] = {"gpu", presets[at], false, try_case(request, base, {{"gpu", presets[at]}})};
    all[at].reaches = reaches(all[at].answer, target);
  });
  all.erase(std::remove_if(all.begin(), all.end(), [](const Purchase& p) { return !p.reaches; }),
            all.end());
  std::stable_sort(all.begin(), all.end(), [](const Purchase& a, const Purchase& b) {
    return a.answer.step_ratio < b.answer.step_ratio;
  });
  return all;
}

}  // namespace

std::string bare_layout(const WhatIfCase& mine) {
  if (!mine.estimate) {
    return "none";
  }
  planner::Plan plan = mine.estimate->plan;
  plan.stage_layers.clear();
  plan.order = planner::Plan{}.order;
  return planner::short_form(plan);
}

BreakEvenRange parse_break_even(const std::string& text) {
  BreakEvenRange range;
  const bool has_range = text.find('=') != std::string::npos;
  const Variation variation = parse_variation(has_range ? text : text + "=0.1x,10x");
  range.name = variation.name;
  std::vector<std::string> names = resource_names();
  names.emplace_back("memory");
  if (std::find(names.begin(), names.end(), range.name) == names.end()) {
    throw Error("--break-even", fmt::format("'{}' is not a resource; there are {}", range.name,
                                            fmt::join(names, ", ")));
  }
  if (variation.values.size() == 2) {
    range.low = parse_factor(variation.values[0], "--break-even " + range.name);
    range.high = parse_factor(variation.values[1], "--break-even " + range.name);
  }
  if (variation.values.size() != 2 || !(range.low >= 1e-3) || !(range.high > range.low) ||
      !(range.high <= 1e3)) {
    throw Error("--break-even",
                fmt::format("'{}' is wrong; two factors from 0.001x to 1000x, the lower first, "
                            "would be right: {}=0.1x,10x",
                            text, range.name));
  }
  return range;
}

std::vector<TextChange> find_changes(double low, double high, int grid, int threads,
                                     const std::function<std::string(double)>& ask) {
  const auto count = static_cast<std::size_t>(std::max(grid, 2));
  std::vector<double> factors(count);
  std::vector<std::string> answers(count);
  for (std::size_t i = 0; i < count; ++i) {
    factors[i] =
        low * std::pow(high / low, static_cast<double>(i) / static_cast<double>(count - 1));
  }
  parallel_for(threads, count,
               [&](std::size_t, std::size_t at) { answers[at] = ask(factors[at]); });
  std::vector<std::vector<TextChange>> between(count - 1);
  parallel_for(threads, count - 1, [&](std::size_t, std::size_t at) {
    halve(factors[at], answers[at], factors[at + 1], answers[at + 1], ask, between[at]);
  });
  std::vector<TextChange> changes;
  for (std::vector<TextChange>& some : between) {
    std::move(some.begin(), some.end(), std::back_inserter(changes));
  }
  return changes;
}

std::vector<LayoutChange> layout_changes(const WhatIfRequest& request, const WhatIfCase& base,
                                         const BreakEvenRange& range, int threads) {
  const auto at = [&](double factor) {
    return work_out_case(request, base, {{range.name, factor_text(factor)}});
  };
  std::vector<LayoutChange> changes;
  for (TextChange& change : find_changes(range.low, range.high, kGrid, threads,
                                         [&](double factor) { return bare_layout(at(factor)); })) {
    changes.push_back({range.name, change.factor, std::move(change.before), std::move(change.after),
                       at(change.factor).estimate});
  }
  return changes;
}

std::vector<Purchase> purchases(const WhatIfRequest& request, const WhatIfCase& base, double faster,
                                int threads) {
  const double target = base.estimate->time.step_seconds * (1 - faster);
  const std::vector<std::string> names = {"peak_flops", "hbm_bandwidth", "nvlink_bandwidth",
                                          "nic_bandwidth", "memory"};
  std::vector<Purchase> all(names.size() + 1);
  parallel_for(threads, all.size(), [&](std::size_t, std::size_t at) {
    all[at] = at < names.size() ? least_factor(request, base, names[at], target)
                                : fewest_gpus(request, base, target);
  });
  std::vector<Purchase> nodes = other_nodes(request, base, target, threads);
  std::move(nodes.begin(), nodes.end(), std::back_inserter(all));
  return all;
}

std::vector<std::string> purchase_remarks(const WhatIfRequest& request, const WhatIfCase& base,
                                          const std::vector<Purchase>& all) {
  std::vector<std::string> remarks;
  if (request.keep_layout || !request.plan_file.empty()) {
    return remarks;
  }
  planner::SearchOptions search;
  fix_layout(request.layout, search);
  search.accepts = what_starts;
  const auto add = [&](const std::string& name, const WhatIfCase& mine) {
    const auto sizes = mine.estimate
                           ? near_sizes(mine.job, search, mine.estimate->time.step_seconds)
                           : std::vector<std::string>{};
    if (!sizes.empty()) {
      remarks.push_back(fmt::format("{}: {}", name, fmt::join(sizes, "; ")));
    }
  };
  add("base", base);
  for (const Purchase& purchase : all) {
    if (purchase.answer.job.cluster.gpus != base.job.cluster.gpus) {
      add(fmt::format("{} {}", purchase.name, purchase.value), purchase.answer);
    }
  }
  return remarks;
}

}  // namespace trireme::tools
