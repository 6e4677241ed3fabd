#include "planner/search/switches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/plan/framework.h"
#include "planner/plan/rules.h"
#include "planner/search/switched_plan.h"

namespace trireme::planner {
namespace {

constexpr double kNothing = 1e-6;  // of a step: a gain that is not worth a word
void sort_by_gain(std::vector<SwitchGain>& gains) {
  std::stable_sort(gains.begin(), gains.end(), [](const SwitchGain& a, const SwitchGain& b) {
    return std::pair(a.applied, a.gain_seconds) > std::pair(b.applied, b.gain_seconds);
  });
}

Estimate estimated(const Job& job, const Plan& plan) {
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  return estimate;
}

Job with_switches(Job job, const std::vector<Switch>& switches) {
  for (const Switch& one : switches) {
    switch_on(job, one);
  }
  return job;
}

// And without those that need it.
std::vector<Switch> without(const std::vector<Switch>& switches, std::size_t index) {
  std::vector<Switch> rest = switches;
  const std::string_view setting = switches[index].setting;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(index));
  std::erase_if(rest, [&](const Switch& other) {
    return !other.needs.empty() && setting.starts_with(other.needs);
  });
  return rest;
}

bool is_refused(const Job& with, const Plan& plan, const Switch& one) {
  return lacks_its_need(with, one) || check_plan(with, plan);
}

// `known`: a layout whose time a search may begin with, of this job or not.
std::optional<Estimate> best_of(const Job& job, SearchOptions options,
                                const Estimate* known = nullptr) {
  options.best_only = true;
  options.keep_evaluated = false;
  options.progress = {};
  options.goal = options.goal == Goal::kUtility ? Goal::kTime : options.goal;
  if (known != nullptr && known->memory.fit == Fit::kFits) {
    options.known =
        options.goal == Goal::kMemory ? known->memory.allocated_gib : known->time.step_seconds;
    if (std::optional<Estimate> best = search(job, options).best) {
      return best;
    }
    options.known.reset();  // the job cannot have it
  }
  return search(job, options).best;
}

bool takes_memory(const Estimate& without, const Estimate& with) {
  return without.memory.reserved_high_gib < with.memory.reserved_high_gib;
}

// The gain of a switch that is on in `best`: against its layout without, and, where the switch
// decides the fit or takes memory, the best that is then as sure to fit. Without `options` no other
// layout is looked for.
SwitchGain gain_of(const Job& off, const SearchOptions* options, const Estimate& best,
                   const Switch& one) {
  const Estimate same = estimated(off, best.plan);
  SwitchGain gain{.which = one,
                  .applied = true,
                  .gain_seconds = same.time.step_seconds - best.time.step_seconds,
                  .fit_without = same.memory.fit,
                  .makes_fit = same.memory.fit > best.memory.fit};
  if (!gain.makes_fit && !takes_memory(same, best)) {
    return gain;
  }
  const std::optional<Estimate> other =
      options == nullptr ? std::nullopt : best_of(off, *options, &same);
  const bool as_sure = other && other->memory.fit <= best.memory.fit;
  gain.decides_fit = gain.makes_fit && !as_sure;
  if (gain.makes_fit) {
    gain.gain_seconds =
        as_sure ? std::max(0.0, other->time.step_seconds - best.time.step_seconds) : 0;
  } else if (as_sure && !(other->plan == best.plan)) {
    gain.best_without_seconds = other->time.step_seconds - best.time.step_seconds;
  }
  return gain;
}

// The one rule of which switches are on: all, but those that slow the layout, make it less sure to
// fit, or take memory for nothing.
bool stays_on(const SwitchGain& gain, const Job& off, const Estimate& best) {
  const double least = kNothing * best.time.step_seconds;
  const double helps =
      std::min(gain.gain_seconds, gain.best_without_seconds.value_or(gain.gain_seconds));
  if (gain.fit_without < best.memory.fit) {
    return false;
  }
  if (gain.which.trades) {
    return gain.makes_fit || helps > least;
  }
  return gain.makes_fit || helps > least ||
         (helps >= -least && !takes_memory(estimated(off, best.plan), best));
}

// Leaves out of `on` what does not help `best` and is not harmless; the gains of the others.
std::vector<SwitchGain> keep_what_helps(const Job& job, const SearchOptions* options,
                                        const Estimate& best, std::vector<Switch>& on) {
  std::vector<SwitchGain> gains;
  for (std::size_t i = 0; i < on.size();) {
    const Job off = with_switches(job, without(on, i));
    const SwitchGain gain = gain_of(off, options, best, on[i]);
    if (stays_on(gain, off, best)) {
      gains.push_back(gain);
      ++i;
    } else {
      on = without(on, i);
    }
  }
  return gains;
}

// Adds to `on` what helps `best` as it stands, of what was left out for another layout's sake;
// false when nothing does.
bool take_back(const Job& job, const Estimate& best, const std::vector<Switch>& all,
               std::vector<Switch>& on) {
  const std::size_t before = on.size();
  for (const Switch& one : all) {
    const auto is_it = [&](const Switch& other) { return other.setting == one.setting; };
    if (std::any_of(on.begin(), on.end(), is_it)) {
      continue;
    }
    Job with = with_switches(job, on);
    switch_on(with, one);
    if (is_refused(with, best.plan, one)) {
      continue;
    }
    const Estimate then = estimated(with, best.plan);
    if (then.memory.fit <= best.memory.fit &&
        best.time.step_seconds - then.time.step_seconds > kNothing * best.time.step_seconds) {
      on.push_back(one);
    }
  }
  return on.size() > before;
}

// Whether some layout without `one` is better than the best with all of `on`.
bool is_worth_leaving_out(const Job& job, SearchOptions options, const Estimate& best,
                          const std::vector<Switch>& on, std::size_t one) {
  if (options.goal == Goal::kUtility || best.memory.fit != Fit::kFits) {
    return false;
  }
  options.best_only = true;
  options.keep_evaluated = false;
  options.progress = {};
  options.known =
      options.goal == Goal::kMemory ? best.memory.allocated_gib : best.time.step_seconds;
  const std::optional<Estimate> other = search(with_switches(job, without(on, one)), options).best;
  return other && other->memory.fit == Fit::kFits &&
         (options.goal == Goal::kMemory
              ? other->memory.allocated_gib < best.memory.allocated_gib
              : other->time.step_seconds < (1 - kNothing) * best.time.step_seconds);
}

// Leaves out of `on` a switch that trades, where the best layouts are without it; false: none is.
bool leave_out_trades(const Job& job, const SearchOptions& options, const Estimate& best,
                      std::vector<Switch>& on) {
  for (std::size_t i = 0; i < on.size(); ++i) {
    if (on[i].trades && is_worth_leaving_out(job, options, best, on, i)) {
      on = without(on, i);
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_idle(const SwitchGain& gain) {
  constexpr double kMicrosecond = 1e-6;
  return gain.applied && gain.gain_seconds < kMicrosecond && !gain.makes_fit;
}

std::vector<SwitchGain> switch_gains(const Job& job, const Plan& plan,
                                     const std::vector<std::string>& given) {
  const Estimate now = estimated(job, plan);
  std::vector<SwitchGain> gains;
  for (const Switch& one : switches_of(job, given)) {
    Job other = job;
    switch_on(other, one);
    if (is_refused(other, plan, one)) {
      continue;
    }
    const Estimate then = estimated(other, plan);
    const double gain = now.time.step_seconds - then.time.step_seconds;
    const bool decides = then.memory.fit < now.memory.fit;
    if (gain > kNothing * now.time.step_seconds || decides) {
      gains.push_back({.which = one,
                       .gain_seconds = gain,
                       .decides_fit = decides,
                       .fit_without = now.memory.fit,
                       .makes_fit = decides});
    }
  }
  sort_by_gain(gains);
  return gains;
}

SwitchedPlan switched_for(const Job& job, const Plan& plan, const std::vector<std::string>& given) {
  std::vector<Switch> on;
  for (const Switch& one : switches_of(job, given)) {
    if (one.changes_numerics) {
      continue;
    }
    on.push_back(one);
    if (is_refused(with_switches(job, on), plan, one)) {
      on.pop_back();
    }
  }
  const std::vector<Switch> all = on;
  SwitchedPlan found;
  const auto leave_out = [&] {
    // What is left out may have been all that spoke against another.
    for (std::size_t before = on.size() + 1; before != on.size();) {
      before = on.size();
      found.estimate = estimated(with_switches(job, on), plan);
      found.switches = keep_what_helps(job, nullptr, found.estimate, on);
    }
  };
  leave_out();
  // Left out beside one that was itself left out later (TP overlap, for memory that there is
  // again).
  if (take_back(job, found.estimate, all, on)) {
    leave_out();
  }
  found.job = with_switches(job, on);
  sort_by_gain(found.switches);
  return found;
}

std::optional<SwitchedPlan> switches_that_fit(const Job& job, const Plan& plan,
                                              const std::vector<std::string>& given) {
  std::vector<Switch> on;
  for (const Switch& one : switches_of(job, given)) {
    Job with = with_switches(job, on);
    switch_on(with, one);
    const bool same_precision = with.precision == job.precision;  // which is what was asked for
    if (same_precision && !is_refused(with, plan, one)) {
      on.push_back(one);
    }
  }
  const auto with = [&](const std::vector<Switch>& some) {
    return estimated(with_switches(job, some), plan);
  };
  Estimate found = with(on);
  if (found.memory.fit >= estimated(job, plan).memory.fit) {
    return std::nullopt;
  }
  // Those that keep the numbers are the last to go.
  std::stable_sort(on.begin(), on.end(), [](const Switch& a, const Switch& b) {
    return a.changes_numerics > b.changes_numerics;
  });
  for (std::size_t i = 0; i < on.size();) {
    Estimate fewer = with(without(on, i));
    if (fewer.memory.fit <= found.memory.fit) {
      on = without(on, i);
      found = std::move(fewer);
    } else {
      ++i;
    }
  }
  SwitchedPlan answer{.job = with_switches(job, on), .estimate = std::move(found), .switches = {}};
  for (std::size_t i = 0; i < on.size(); ++i) {
    answer.switches.push_back(
        gain_of(with_switches(job, without(on, i)), nullptr, answer.estimate, on[i]));
  }
  return answer;
}

SwitchedSearch search_with_switches(const Job& job, const SearchOptions& options,
                                    const std::vector<std::string>& given) {
  std::vector<Switch> free;
  std::vector<Switch> offered;
  for (const Switch& one : switches_of(job, given)) {
    (one.changes_numerics ? offered : free).push_back(one);
  }
  SwitchedSearch found{.job = with_switches(job, free), .result = {}, .switches = {}};
  const std::vector<Switch> all = free;
  std::optional<Estimate> best = free.empty() ? std::nullopt : best_of(found.job, options);
  // A switch may slow one layout and help another: without what brings the best nothing, another
  // may be the best.
  bool taken_back = false;
  for (bool settled = false; !settled;) {
    if (best) {
      found.switches = keep_what_helps(job, &options, *best, free);
      found.job = with_switches(job, free);
    }
    found.result = search(found.job, options);
    settled = !best || !found.result.best || options.goal == Goal::kUtility ||
              found.result.best->plan == best->plan;
    best = found.result.best;
    if (settled && best && leave_out_trades(job, options, *best, free)) {
      found.job = with_switches(job, free);
      best = best_of(found.job, options, &*best);
      settled = false;
      taken_back = true;  // not again by what the layout at hand would gain
    }
    if (settled && best && !taken_back && take_back(job, *best, all, free)) {
      taken_back = true;
      settled = false;
      best = estimated(with_switches(job, free), best->plan);
    }
  }
  if (!found.result.best) {
    return found;
  }
  for (const Switch& one : offered) {
    Job other = found.job;
    switch_on(other, one);
    const std::optional<Estimate> then = best_of(other, options);
    const double gain = then ? found.result.best->time.step_seconds - then->time.step_seconds : 0;
    if (gain > kNothing * found.result.best->time.step_seconds) {
      found.switches.push_back({.which = one, .gain_seconds = gain});
    }
  }
  sort_by_gain(found.switches);
  return found;
}

void measure_gains(const Job& job, const SearchOptions& options, const Estimate& best,
                   SwitchedSearch& found) {
  std::vector<Switch> on;
  for (const SwitchGain& gain : found.switches) {
    if (gain.applied) {
      on.push_back(gain.which);
    }
  }
  const Estimate& first = *found.result.best;
  std::size_t index = 0;
  for (SwitchGain& gain : found.switches) {
    if (gain.applied) {
      gain = gain_of(with_switches(job, without(on, index++)), &options, first, gain.which);
    } else {
      gain.gain_seconds += first.time.step_seconds - best.time.step_seconds;
    }
  }
  sort_by_gain(found.switches);
}

}  // namespace trireme::planner
