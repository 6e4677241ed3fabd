// Flags: Megatron-LM d98e8a64 training/arguments.py, torchtitan v0.2.2 config/job_config.py,
// PyTorch's allocator notes, accelerate 1.15's dynamo_config.
#include "planner/search/switches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/plan/framework.h"
#include "planner/plan/rules.h"

namespace trireme::planner {
namespace {

constexpr double kNothing = 1e-6;  // of a step: a gain that is not worth a word
constexpr std::string_view kFp8 = "precision=fp8";

struct FrameworkSwitch {
  std::string_view family;  // what a framework's name begins with, or its base
  Switch which;
  bool (*is_on)(const Job&);
};

bool fuses_loss(const Job& job) {
  return job.framework.cross_entropy_fusion;
}
bool compiles(const Job& job) {
  return job.framework.compile;
}
bool overlaps_tensor(const Job& job) {
  return job.framework.tp_comm_overlap;
}
bool overlaps_reduction(const Job& job) {
  return job.framework.overlap_grad_reduce;
}
bool overlaps_gather(const Job& job) {
  return job.framework.overlap_param_gather;
}
bool expands_segments(const Job& job) {
  return job.framework.expandable_segments;
}

// DeepEP and HybridEP are for Hopper and Blackwell of the data centre.
bool dispatches_once(const Job& job) {
  const int card = job.cluster.gpu.compute_capability;
  return !job.model.moe || job.framework.dispatch_once || card < 90 || card > 110;
}
bool overlaps_exchanges(const Job& job) {
  return !job.model.moe || job.framework.expert_overlap;
}

constexpr std::string_view kExpandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";

constexpr FrameworkSwitch kSwitches[] = {
    {"megatron",
     {"fused loss", "cross_entropy_fusion=true", "--cross-entropy-loss-fusion"},
     fuses_loss},
    {"megatron",
     {"gradient reduction beside backward", "overlap_grad_reduce=true", "--overlap-grad-reduce"},
     overlaps_reduction},
    {"megatron",
     {"parameter gather beside forward", "overlap_param_gather=true", "--overlap-param-gather"},
     overlaps_gather},
    {"megatron", {"TP overlap", "tp_comm_overlap=true", "--tp-comm-overlap"}, overlaps_tensor},
    {"megatron",
     {"tokens sent once a node (DeepEP)", "dispatch_once=true",
      "--moe-token-dispatcher-type flex --moe-enable-deepep"},
     dispatches_once},
    {"megatron",
     {"expert exchanges beside another micro-batch", "expert_overlap=true",
      "--overlap-moe-expert-parallel-comm"},
     overlaps_exchanges},
    {"megatron",
     {"messages between stages beside compute", "p2p_overlap_interleaved=true",
      "without --no-overlap-p2p-communication"},
     [](const Job& job) { return job.framework.p2p_overlap_interleaved; }},
    {"megatron",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
    {"megatron",
     {"16-bit gradient reduction", "grad_dtype=bf16", "--grad-reduce-in-bf16", true},
     [](const Job& job) { return job.framework.reduce_bytes < 4; }},
    {"megatron", {"fp8", kFp8, "--fp8-format hybrid", true}, nullptr},
    {"fsdp2", {"compile", "compile=true", "[compile] enable = true"}, compiles},
    {"fsdp2",
     {"fused loss", "cross_entropy_fusion=true", "[compile] components = [\"loss\"]"},
     fuses_loss},
    {"fsdp2",
     {"TP overlap", "tp_comm_overlap=true", "[parallelism] enable_async_tensor_parallel = true"},
     overlaps_tensor},
    {"fsdp2", {"expandable segments", "expandable_segments=true", kExpandable}, expands_segments},
    {"fsdp2", {"fp8", kFp8, "[model] converters = [\"quantize.linear.float8\"]", true}, nullptr},
    {"accelerate",
     {"compile", "compile=true", "dynamo_config: dynamo_backend: INDUCTOR"},
     compiles},
    {"accelerate",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
    {"fsdp1", {"compile", "compile=true", "dynamo_config: dynamo_backend: INDUCTOR"}, compiles},
    {"fsdp1", {"expandable segments", "expandable_segments=true", kExpandable}, expands_segments},
    {"deepspeed",
     {"gradient reduction beside backward", "overlap_grad_reduce=true", "\"overlap_comm\": true"},
     overlaps_reduction},
    {"deepspeed",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
};

std::string_view key_of(std::string_view setting) {
  return setting.substr(0, setting.find('='));
}

// fp8 stands beside 16-bit training on a card that has it.
bool can_be_switched(const Job& job, const FrameworkSwitch& row) {
  using topologies::Precision;
  if (row.is_on == nullptr) {
    return job.precision == Precision::kBf16 &&
           job.cluster.gpu.peak_dense.contains(Precision::kFp8);
  }
  return !row.is_on(job);
}

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

std::vector<Switch> without(const std::vector<Switch>& switches, std::size_t index) {
  std::vector<Switch> rest = switches;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(index));
  return rest;
}

std::optional<Estimate> best_of(const Job& job, SearchOptions options) {
  options.best_only = true;
  options.keep_evaluated = false;
  options.progress = {};
  options.goal = options.goal == Goal::kUtility ? Goal::kTime : options.goal;
  return search(job, options).best;
}

// The gain of a switch that is on in `best`: against its layout without, and, where the switch
// decides the fit or takes memory, the best that is then as sure to fit.
SwitchGain gain_of(const Job& off, const SearchOptions& options, const Estimate& best,
                   const Switch& one) {
  const Estimate same = estimated(off, best.plan);
  SwitchGain gain{.which = one,
                  .applied = true,
                  .gain_seconds = same.time.step_seconds - best.time.step_seconds,
                  .fit_without = same.memory.fit,
                  .makes_fit = same.memory.fit > best.memory.fit};
  const bool takes_memory = same.memory.reserved_high_gib < best.memory.reserved_high_gib;
  if (!gain.makes_fit && !takes_memory) {
    return gain;
  }
  const std::optional<Estimate> other = best_of(off, options);
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

// Leaves out of `on` what brings `best` nothing; the gains of the others.
std::vector<SwitchGain> keep_what_helps(const Job& job, const SearchOptions& options,
                                        const Estimate& best, std::vector<Switch>& on) {
  std::vector<SwitchGain> gains;
  for (std::size_t i = 0; i < on.size();) {
    SwitchGain gain = gain_of(with_switches(job, without(on, i)), options, best, on[i]);
    const double helps =
        std::min(gain.gain_seconds, gain.best_without_seconds.value_or(gain.gain_seconds));
    if (helps > kNothing * best.time.step_seconds || gain.makes_fit) {
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
    if (check_plan(with, best.plan)) {
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

// A program with rows of its own has no others, whatever it is built on.
std::string_view family_of(const Framework& framework) {
  const auto begins = [&](const std::string& name) {
    const auto row =
        std::find_if(std::begin(kSwitches), std::end(kSwitches),
                     [&](const FrameworkSwitch& one) { return name.starts_with(one.family); });
    return row == std::end(kSwitches) ? std::string_view() : row->family;
  };
  const std::string_view own = begins(framework.name);
  return own.empty() ? begins(framework.base) : own;
}

}  // namespace

std::vector<Switch> switches_of(const Job& job, const std::vector<std::string>& given) {
  const std::string_view family = family_of(job.framework);
  std::vector<Switch> found;
  for (const FrameworkSwitch& row : kSwitches) {
    const bool decided = std::any_of(given.begin(), given.end(), [&](const std::string& key) {
      return key == key_of(row.which.setting);
    });
    if (row.family == family && !decided && can_be_switched(job, row)) {
      found.push_back(row.which);
    }
  }
  return found;
}

void switch_on(Job& job, const Switch& one) {
  if (one.setting == kFp8) {
    job.precision = topologies::Precision::kFp8;
    return;
  }
  const std::string_view key = key_of(one.setting);
  apply_setting(job.framework, std::string(key), std::string(one.setting.substr(key.size() + 1)));
}

std::vector<SwitchGain> switch_gains(const Job& job, const Plan& plan,
                                     const std::vector<std::string>& given) {
  const Estimate now = estimated(job, plan);
  std::vector<SwitchGain> gains;
  for (const Switch& one : switches_of(job, given)) {
    Job other = job;
    switch_on(other, one);
    if (check_plan(other, plan)) {
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
      found.switches = keep_what_helps(job, options, *best, free);
      found.job = with_switches(job, free);
    }
    found.result = search(found.job, options);
    settled = !best || !found.result.best || options.goal == Goal::kUtility ||
              found.result.best->plan == best->plan;
    best = found.result.best;
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
      gain = gain_of(with_switches(job, without(on, index++)), options, first, gain.which);
    } else {
      gain.gain_seconds += first.time.step_seconds - best.time.step_seconds;
    }
  }
  sort_by_gain(found.switches);
}

}  // namespace trireme::planner
