#include "tools/profiler_trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "tools/gunzip.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestTrace = std::size_t{1} << 30U;
constexpr double kMicrosecond = 1e-6;
constexpr std::size_t kSmallestPass = 40;  // launches; fewer lie between passes

constexpr std::array<const char*, kLaunchKinds> kNames = {
    "product", "attention", "softmax", "norm",       "elementwise", "copy", "concatenate",
    "reduce",  "fused",     "fill",    "collective", "optimizer",   "other"};

// The first whose word the kernel's name holds, in lower case.
struct KindWord {
  LaunchKind kind;
  std::string_view word;
};
constexpr KindWord kWords[] = {
    {LaunchKind::kCollective, "nccl"},        {LaunchKind::kProduct, "gemm"},
    {LaunchKind::kProduct, "cutlass"},        {LaunchKind::kProduct, "nvjet"},
    {LaunchKind::kProduct, "splitk"},         {LaunchKind::kProduct, "xmma"},
    {LaunchKind::kAttention, "flash"},        {LaunchKind::kAttention, "fmha"},
    {LaunchKind::kAttention, "sdpa"},         {LaunchKind::kAttention, "attention"},
    {LaunchKind::kSoftmax, "softmax"},        {LaunchKind::kNorm, "layer_norm"},
    {LaunchKind::kNorm, "layernorm"},         {LaunchKind::kNorm, "rms_norm"},
    {LaunchKind::kNorm, "rmsnorm"},           {LaunchKind::kNorm, "gammabeta"},
    {LaunchKind::kNorm, "cuapply"},           {LaunchKind::kNorm, "cucompute"},
    {LaunchKind::kOptimizer, "multi_tensor"}, {LaunchKind::kOptimizer, "adam"},
    {LaunchKind::kFused, "triton"},           {LaunchKind::kReduce, "reduce"},
    {LaunchKind::kReduce, "lpnorm"},          {LaunchKind::kConcatenate, "catarray"},
    {LaunchKind::kConcatenate, "chunk_cat"},  {LaunchKind::kCopy, "copy"},
    {LaunchKind::kElementwise, "elementwise"}};

LaunchKind kind_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  const auto found = std::ranges::find_if(
      kWords, [&](const KindWord& one) { return name.find(one.word) != std::string::npos; });
  return found == std::end(kWords) ? LaunchKind::kOther : found->kind;
}

// What the GPU did for a launch.
struct Work {
  LaunchKind kind = LaunchKind::kOther;
  double seconds = 0, end = 0;
};
// A call of CUDA's from a thread. Times in microseconds, as the file has them.
struct Call {
  double start = 0, end = 0;
  std::int64_t thread = 0;
  std::optional<Work> work;
  double waited = 0;
};

struct Events {
  std::map<std::int64_t, Work> work;      // by correlation
  std::vector<Call> calls;                // in order
  std::map<std::int64_t, bool> backward;  // threads that run autograd's nodes
};

std::int64_t correlation_of(const json& event) {
  const auto arguments = event.find("args");
  return arguments == event.end() ? -1 : arguments->value("correlation", std::int64_t{-1});
}

bool is_complete(const json& event) {
  return event.is_object() && event.value("ph", "") == "X" && event.contains("cat");
}

void add_work(const json& event, const std::string& category, Events& events) {
  Work work;
  work.kind = category == "gpu_memset"   ? LaunchKind::kFill
              : category == "gpu_memcpy" ? LaunchKind::kCopy
                                         : kind_of(event.value("name", ""));
  work.seconds = event.value("dur", 0.0) * kMicrosecond;
  work.end = event.value("ts", 0.0) + event.value("dur", 0.0);
  events.work[correlation_of(event)] = work;
}

std::int64_t thread_of(const json& event) {
  const auto found = event.find("tid");
  return found != event.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

Events events_of(const json& list) {
  Events events;
  for (const json& event : list) {
    if (!is_complete(event)) {
      continue;
    }
    const std::string category = event.at("cat").get<std::string>();
    if (category == "kernel" || category == "gpu_memset" || category == "gpu_memcpy") {
      add_work(event, category, events);
    } else if (category == "cpu_op" &&
               event.value("name", "").starts_with("autograd::engine::evaluate_function")) {
      events.backward[thread_of(event)] = true;
    }
  }
  for (const json& event : list) {
    const std::string category = is_complete(event) ? event.at("cat").get<std::string>() : "";
    if (category != "cuda_runtime" && category != "cuda_driver") {
      continue;
    }
    Call call;
    call.start = event.value("ts", 0.0);
    call.end = call.start + event.value("dur", 0.0);
    call.thread = thread_of(event);
    const auto work = events.work.find(correlation_of(event));
    if (work != events.work.end()) {
      call.work = work->second;
    }
    const bool waits = event.value("name", "").find("Synchronize") != std::string::npos;
    call.waited = waits ? call.end - call.start : 0;
    if (call.work || waits) {
      events.calls.push_back(call);
    }
  }
  std::ranges::sort(events.calls, {}, &Call::start);
  return events;
}

// Runs of launches from one thread; waits stand in the run that they end in.
std::vector<std::vector<Call>> runs_of(const std::vector<Call>& calls) {
  std::vector<std::vector<Call>> runs;
  for (const Call& call : calls) {
    if (call.work && (runs.empty() || runs.back().front().thread != call.thread)) {
      runs.emplace_back();
    }
    if (!runs.empty() && (call.work || runs.back().front().thread == call.thread)) {
      runs.back().push_back(call);
    }
  }
  std::erase_if(runs, [](const std::vector<Call>& run) {
    return static_cast<std::size_t>(std::ranges::count_if(
               run, [](const Call& call) { return call.work.has_value(); })) < kSmallestPass;
  });
  return runs;
}

// The first launches of cores of attention: fused kernels where there are any (the backward of one
// is several, close together), else softmaxes.
std::vector<std::size_t> cores_of(const std::vector<ProfiledLaunch>& launches, bool backward) {
  const bool fused = std::ranges::any_of(
      launches, [](const ProfiledLaunch& launch) { return launch.kind == LaunchKind::kAttention; });
  const LaunchKind kind = fused ? LaunchKind::kAttention : LaunchKind::kSoftmax;
  const std::size_t one_core = fused ? 8 : 0;  // launches that one may spread over
  std::vector<std::size_t> cores;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (launches[i].kind == kind && (cores.empty() || i - cores.back() > one_core)) {
      cores.push_back(i);
    }
  }
  // The loss may have a softmax too, behind the last layer: a distance that no two layers have.
  const auto distance = [&](std::size_t i) { return cores[i + 1] - cores[i]; };
  if (!fused && cores.size() > 3) {
    const std::size_t end = cores.size() - 2;
    if (backward && distance(0) != distance(1)) {
      cores.erase(cores.begin());
    } else if (!backward && distance(end) != distance(end - 1)) {
      cores.pop_back();
    }
  }
  return cores;
}

// What repeats from core to core is a layer: it begins as far before its core as the launches
// before two cores are of the same kinds. `known`: how many the forward had; a backward that
// repeats the forward has two cores a layer, and begins with the last layer.
std::int32_t find_layers(std::vector<ProfiledLaunch>& launches, bool backward, std::int32_t known) {
  const std::vector<std::size_t> cores = cores_of(launches, backward);
  if (cores.size() < 2) {
    return 0;
  }
  const std::size_t each =
      known > 0 && cores.size() >= 2 * static_cast<std::size_t>(known) - 1 ? 2 : 1;
  const std::size_t middle = cores.size() / 2 / each * each;
  const std::size_t length = cores[std::min(middle + each, cores.size() - 1)] - cores[middle];
  // Of the first two, as what comes before the layers ends it; where those are unlike (units that
  // are gathered ahead), of two in the middle.
  const auto alike_before = [&](std::size_t core, std::size_t other) {
    std::size_t before = 0;
    while (before < length && before < std::min(core, other) &&
           launches[core - before - 1].kind == launches[other - before - 1].kind) {
      ++before;
    }
    return before;
  };
  std::size_t before = alike_before(cores[0], cores[each]);
  if (4 * before < length && middle >= each) {
    before = std::min(cores[0], alike_before(cores[middle - each], cores[middle]));
  }
  const std::size_t layers = (cores.size() + each - 1) / each;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t first = cores[layer * each] - before;
    const std::size_t last =
        layer + 1 < layers ? cores[(layer + 1) * each] - before : first + length;
    for (std::size_t i = first; i < std::min(last, launches.size()); ++i) {
      launches[i].layer = static_cast<std::int32_t>(backward ? layers - 1 - layer : layer);
    }
  }
  return static_cast<std::int32_t>(layers);
}

ProfiledPass pass_of(const std::vector<Call>& run) {
  ProfiledPass pass;
  for (const Call& call : run) {
    pass.waited_seconds += call.waited * kMicrosecond;
    if (call.work) {
      pass.launches.push_back({call.work->kind, call.work->seconds, -1});
    }
  }
  pass.host_seconds = (run.back().end - run.front().start) * kMicrosecond - pass.waited_seconds;
  return pass;
}

}  // namespace

const char* to_string(LaunchKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_profiler_trace(const std::string& path, const json& json) {
  return path.ends_with(".gz") ||
         (json.is_object() && json.contains("traceEvents") &&
          (json.contains("deviceProperties") || json.contains("schemaVersion")));
}

json read_maybe_gzipped_json(const std::string& path) {
  if (!path.ends_with(".gz")) {
    return read_json_file(path);
  }
  const std::string packed = read_file(path, "a trace of PyTorch's profiler", kLongestTrace);
  return parse_json(gunzip(packed, path, kLongestTrace), path);
}

ProfiledStep parse_profiler_trace(const json& json, const std::string& path) {
  const auto list = json.is_object() ? json.find("traceEvents") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) {
    throw Error(path, "is no trace of PyTorch's profiler: it has no traceEvents");
  }
  const Events events = events_of(*list);
  const auto runs = runs_of(events.calls);
  if (runs.empty()) {
    throw Error(path,
                "has no launches of CUDA; profile with activities=[ProfilerActivity.CPU, "
                "ProfilerActivity.CUDA]");
  }
  ProfiledStep step;
  std::int32_t micro_batch = 0, layers = 0;
  double last = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ProfiledPass pass = pass_of(runs[i]);
    const bool backward = events.backward.count(runs[i].front().thread) > 0;
    pass.phase = backward              ? Phase::kBackward
                 : i + 1 < runs.size() ? Phase::kForward
                                       : Phase::kOptimizer;
    pass.micro_batch = pass.phase == Phase::kOptimizer ? -1 : micro_batch;
    micro_batch += backward ? 1 : 0;
    if (pass.phase != Phase::kOptimizer) {
      const std::int32_t found = find_layers(pass.launches, backward, layers);
      layers = backward ? layers : found;
    }
    for (const Call& call : runs[i]) {
      last = std::max(last, call.work ? std::max(call.end, call.work->end) : call.end);
    }
    step.passes.push_back(std::move(pass));
  }
  step.seconds = (last - runs.front().front().start) * kMicrosecond;
  return step;
}

}  // namespace trireme::tools
