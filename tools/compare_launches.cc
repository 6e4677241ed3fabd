#include "tools/compare_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/rendezvous.h"
#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"
#include "tools/request.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using models::Part;

constexpr std::array<const char*, 2> kPasses = {"forward", "backward"};

std::size_t index(LaunchKind kind) {
  return static_cast<std::size_t>(kind);
}

// Passes over memory that are neither of these are elementwise.
constexpr std::pair<Part, LaunchKind> kKinds[] = {
    {Part::kAttentionNorm, LaunchKind::kNorm},    {Part::kMlpNorm, LaunchKind::kNorm},
    {Part::kHeadNorm, LaunchKind::kNorm},         {Part::kSoftmax, LaunchKind::kSoftmax},
    {Part::kQkvLayout, LaunchKind::kConcatenate}, {Part::kAttentionLayout, LaunchKind::kCopy},
    {Part::kQkvBias, LaunchKind::kReduce},        {Part::kAttentionOutputBias, LaunchKind::kReduce},
    {Part::kMlpBias, LaunchKind::kReduce}};

LaunchKind kind_of(Part part) {
  const auto found =
      std::ranges::find_if(kKinds, [part](const auto& one) { return one.first == part; });
  return found == std::end(kKinds) ? LaunchKind::kElementwise : found->second;
}

void add(const models::PassWork& work, KindCounts& counts) {
  counts[index(LaunchKind::kProduct)] += static_cast<double>(work.matmuls.size());
  counts[index(LaunchKind::kAttention)] += static_cast<double>(work.attention.size());
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    counts[index(kind_of(pass.part))] += pass.kernels;
  }
}

// Collectives inside a layer, of tensor, context and expert parallelism.
void add_collectives(const planner::Job& job, const planner::Plan& plan,
                     std::array<KindCounts, 2>& counts) {
  const StepProgram program = planner::lower(job, plan);
  std::int32_t layer = -1;
  for (const Op& op : program.roles.front().ops) {
    layer = layer < 0 ? op.origin.layer : layer;
    const bool forward = op.origin.phase == Phase::kForward;
    const bool inside = forward || op.origin.phase == Phase::kBackward;
    if (inside && layer >= 0 && op.origin.layer == layer && op.origin.micro_batch == 0 &&
        group_of(op.kind) != kNoGroup) {
      counts[forward ? 0 : 1][index(LaunchKind::kCollective)] += 1;
    }
  }
}

std::array<KindCounts, 2> counts_of(const planner::Job& job, const planner::Plan& plan) {
  std::array<KindCounts, 2> counts{};
  const models::LayerWork work = models::layer_work(
      planner::padded_model(job, plan), 0,
      planner::shard_of(job, plan, planner::timed_sequence(job, plan)), planner::kernels_of(job));
  add(work.forward, counts[0]);
  if (plan.recompute != planner::Recompute::kNone) {
    const bool whole = plan.recompute == planner::Recompute::kFull;
    add(models::repeated_work(work.forward,
                              {whole ? models::kWholeLayer : plan.recompute_modules, false}),
        counts[1]);
  }
  add(work.input_gradient, counts[1]);
  add(work.weight_gradient, counts[1]);
  add_collectives(job, plan, counts);
  return counts;
}

std::map<std::int32_t, LayerLaunches> layers_of(const ProfiledPass& pass) {
  std::map<std::int32_t, LayerLaunches> layers;
  for (const ProfiledLaunch& launch : pass.launches) {
    if (launch.layer >= 0) {
      layers[launch.layer].counts[index(launch.kind)] += 1;
      layers[launch.layer].gpu_seconds += launch.gpu_seconds;
    }
  }
  return layers;
}

double sum(const KindCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

void find_unlike(const ProfiledPass& pass, const std::map<std::int32_t, LayerLaunches>& layers,
                 LaunchComparison& comparison) {
  std::vector<double> all;
  for (const auto& [layer, launches] : layers) {
    all.push_back(sum(launches.counts));
  }
  if (all.empty()) {
    return;
  }
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  for (const auto& [layer, launches] : layers) {
    if (std::abs(sum(launches.counts) - *middle) > 1) {
      comparison.unlike.push_back(
          {pass.phase, pass.micro_batch, layer, sum(launches.counts), *middle});
    }
  }
}

void add_theirs(LaunchComparison& comparison) {
  std::array<double, 2> seen{};
  for (const ProfiledPass& pass : comparison.step.passes) {
    if (pass.phase == Phase::kOptimizer) {
      continue;
    }
    const std::size_t direction = pass.phase == Phase::kForward ? 0 : 1;
    const auto layers = layers_of(pass);
    comparison.layers_found = std::max(comparison.layers_found, layers.size());
    for (const auto& [layer, launches] : layers) {
      seen[direction] += 1;
      for (std::size_t kind = 0; kind < launches.counts.size(); ++kind) {
        comparison.theirs[direction][kind] += launches.counts[kind];
      }
    }
    find_unlike(pass, layers, comparison);
  }
  for (std::size_t direction = 0; direction < 2; ++direction) {
    for (double& count : comparison.theirs[direction]) {
      count /= std::max(1.0, seen[direction]);
    }
  }
}

double gpu_seconds(const ProfiledPass& pass) {
  double seconds = 0;
  for (const ProfiledLaunch& launch : pass.launches) {
    seconds += launch.gpu_seconds;
  }
  return seconds;
}

std::string pass_name(const ProfiledPass& pass) {
  return pass.phase == Phase::kOptimizer
             ? std::string("end of the step")
             : fmt::format("{} mb{}", pass.phase == Phase::kForward ? "forward" : "backward",
                           pass.micro_batch);
}

// "copy 8.4, fill 3.8": kinds of a pass of which the one side has more.
std::string surplus(const KindCounts& more, const KindCounts& less) {
  constexpr double kLeast = 0.05;
  std::vector<std::string> words;
  for (std::size_t kind = 0; kind < more.size(); ++kind) {
    if (more[kind] - less[kind] > kLeast) {
      words.push_back(fmt::format("{} {:.3g}", to_string(static_cast<LaunchKind>(kind)),
                                  more[kind] - less[kind]));
    }
  }
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

LaunchComparison compare_launches(const std::string& plan_file, const nlohmann::json& trace,
                                  const std::string& trace_path) {
  Request request = make_request(plan_file, {}, {});
  complete(request.job, request.plan);
  LaunchComparison comparison;
  comparison.plan = plan_file;
  comparison.trace = trace_path;
  comparison.step = parse_profiler_trace(trace, trace_path);
  comparison.measured_seconds = comparison.step.seconds;
  planner::Estimate estimate;
  planner::Estimator(request.job).estimate(request.plan, estimate);
  comparison.predicted_seconds = estimate.time.step_seconds;
  comparison.layers_of_model =
      static_cast<std::size_t>(request.job.model.layers / request.plan.pipeline);
  comparison.ours = counts_of(request.job, request.plan);
  add_theirs(comparison);
  return comparison;
}

Json launches_json(const LaunchComparison& c) {
  Json passes = Json::array();
  for (const ProfiledPass& pass : c.step.passes) {
    passes.push_back({{"pass", pass_name(pass)},
                      {"launches", pass.launches.size()},
                      {"host_seconds", pass.host_seconds},
                      {"waited_seconds", pass.waited_seconds},
                      {"gpu_seconds", gpu_seconds(pass)}});
  }
  Json kinds = Json::array();
  for (std::size_t direction = 0; direction < 2; ++direction) {
    for (std::size_t kind = 0; kind < kLaunchKinds; ++kind) {
      const double ours = c.ours[direction][kind];
      const double theirs = c.theirs[direction][kind];
      if (ours > 0 || theirs > 0) {
        kinds.push_back({{"pass", kPasses[direction]},
                         {"kind", to_string(static_cast<LaunchKind>(kind))},
                         {"predicted_launches", ours},
                         {"measured_launches", theirs}});
      }
    }
  }
  Json unlike = Json::array();
  for (const LaunchComparison::Unlike& one : c.unlike) {
    unlike.push_back({{"pass", kPasses[one.phase == Phase::kForward ? 0 : 1]},
                      {"micro_batch", one.micro_batch},
                      {"layer", one.layer},
                      {"launches", one.launches},
                      {"median_launches", one.median}});
  }
  return {{"predicted", {{"file", c.plan}, {"source", "plan"}}},
          {"measured", {{"file", c.trace}, {"source", "PyTorch profiler"}}},
          {"step",
           {{"predicted_seconds", c.predicted_seconds},
            {"measured_seconds", c.measured_seconds},
            {"error", c.predicted_seconds / c.measured_seconds - 1}}},
          {"layers", {{"predicted", c.layers_of_model}, {"measured", c.layers_found}}},
          {"passes", passes},
          {"launches_of_a_layer", kinds},
          {"unlike_layers", unlike}};
}

void print_launches(const Console& console, const LaunchComparison& c) {
  print_heading(console, fmt::format("{} against {} (PyTorch profiler)", c.plan, c.trace));
  fmt::print(
      console.out,
      "step {} predicted, {} in the trace, whose profiler slows the host down; {} layers, {} "
      "found\n",
      duration_text(c.predicted_seconds), duration_text(c.measured_seconds), c.layers_of_model,
      c.layers_found);
  Table passes{.head = {"pass", "launches", "host", "waited for the GPU", "GPU", "us a launch"},
               .rows = {}};
  for (const ProfiledPass& pass : c.step.passes) {
    const auto launches = static_cast<double>(pass.launches.size());
    passes.rows.push_back({pass_name(pass), fmt::format("{}", pass.launches.size()),
                           duration_text(pass.host_seconds), duration_text(pass.waited_seconds),
                           duration_text(gpu_seconds(pass)),
                           fmt::format("{:.0f}", 1e6 * pass.host_seconds / launches)});
  }
  print_table(console, passes);
  Table kinds{
      .head = {"launches of a layer", "forward: model", "trace", "backward: model", "trace"},
      .rows = {}};
  for (std::size_t kind = 0; kind < kLaunchKinds; ++kind) {
    const std::array<double, 4> row = {c.ours[0][kind], c.theirs[0][kind], c.ours[1][kind],
                                       c.theirs[1][kind]};
    if (std::ranges::any_of(row, [](double count) { return count > 0; })) {
      kinds.rows.push_back({to_string(static_cast<LaunchKind>(kind))});
      for (const double count : row) {
        kinds.rows.back().push_back(fmt::format("{:.3g}", count));
      }
    }
  }
  print_heading(console, "A layer and micro-batch, by kind (mean of the trace's)");
  print_table(console, kinds);
  for (std::size_t direction = 0; direction < 2; ++direction) {
    fmt::print(console.out, "{}: the trace has {} more; the model has {} more\n",
               kPasses[direction], surplus(c.theirs[direction], c.ours[direction]),
               surplus(c.ours[direction], c.theirs[direction]));
  }
  for (const LaunchComparison::Unlike& one : c.unlike) {
    fmt::print(console.out, "layer {} of {} mb{}: {} launches where {} are usual\n", one.layer,
               kPasses[one.phase == Phase::kForward ? 0 : 1], one.micro_batch, one.launches,
               one.median);
  }
}

}  // namespace trireme::tools
