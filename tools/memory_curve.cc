#include "tools/memory_curve.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace trireme::tools {
namespace {

constexpr std::size_t kKept = 4;  // names of each sort that are told apart
constexpr double kGib = 1 << 30;

// Buffers of one name.
struct Names {
  std::vector<std::string> names;
  std::vector<bool> persistent;
  std::vector<std::size_t> of_buffer;
};

Names names_of(const trireme::Program& role) {
  Names found;
  std::map<std::pair<bool, std::string>, std::size_t> index;
  for (const Buffer& buffer : role.buffers) {
    const std::pair<bool, std::string> key = {!buffer.persistent, role.names[buffer.name]};
    const auto [at, is_new] = index.try_emplace(key, found.names.size());
    if (is_new) {
      found.names.push_back(key.second);
      found.persistent.push_back(buffer.persistent);
    }
    found.of_buffer.push_back(at->second);
  }
  return found;
}

// For each op, bytes that each of its names gains (or loses) before it.
using Changes = std::vector<std::vector<std::pair<std::size_t, double>>>;

Changes changes_of(const StepProgram& program, const trireme::Program& role, const Names& names) {
  Changes changes(role.ops.size() + 1);
  const std::vector<Lifetime> lives = lifetimes(role);
  for (std::size_t i = 0; i < role.buffers.size(); ++i) {
    const Buffer& buffer = role.buffers[i];
    const auto bytes = static_cast<double>(size_of(program, buffer).value);
    if (buffer.persistent) {
      changes.front().emplace_back(names.of_buffer[i], bytes);
    } else if (lives[i].first <= lives[i].last) {
      changes[lives[i].first].emplace_back(names.of_buffer[i], bytes);
      changes[lives[i].last + 1].emplace_back(names.of_buffer[i], -bytes);
    }
  }
  return changes;
}

// Where each name goes in the curve: the largest of each sort stay themselves.
std::vector<std::size_t> places_of(const Names& names, const std::vector<double>& worst,
                                   MemoryCurve& curve) {
  std::vector<std::size_t> order(names.names.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(!names.persistent[a], -worst[a]) < std::pair(!names.persistent[b], -worst[b]);
  });
  std::vector<std::size_t> places(order.size());
  std::size_t kept[2] = {0, 0};
  for (const bool persistent : {true, false}) {
    for (const std::size_t name : order) {
      if (names.persistent[name] != persistent) {
        continue;
      }
      if (kept[persistent ? 1 : 0]++ < kKept) {
        curve.names.push_back(names.names[name] + (persistent ? " (kept)" : ""));
      } else if (kept[persistent ? 1 : 0] == kKept + 1) {
        curve.names.emplace_back(persistent ? "others kept" : "others");
      }
      places[name] = curve.names.size() - 1;
    }
  }
  return places;
}

}  // namespace

MemoryCurve memory_curve(const StepProgram& program, const trireme::Program& role,
                         std::span<const OpTiming> timings, std::size_t samples) {
  MemoryCurve curve;
  const Names names = names_of(role);
  const Changes changes = changes_of(program, role, names);
  std::vector<double> now(names.names.size());
  std::vector<double> worst = now;
  for (const auto& change : changes) {
    for (const auto& [name, bytes] : change) {
      now[name] += bytes;
      worst[name] = std::max(worst[name], now[name]);
    }
  }
  const std::vector<std::size_t> places = places_of(names, worst, curve);
  double end = 0;
  for (const OpTiming& timing : timings) {
    end = std::max(end, to_seconds(timing.end - SimTime{}).value);
  }
  std::vector<double> held(curve.names.size());
  std::vector<double> fullest(samples, -1);
  std::vector<std::vector<double>> at_fullest(samples);
  double time = 0;
  for (std::size_t op = 0; op < std::min(role.ops.size(), timings.size()); ++op) {
    for (const auto& [name, bytes] : changes[op]) {
      held[places[name]] += bytes / kGib;
    }
    // Ops of other streams may begin before those issued earlier; memory is in issue order.
    time = std::max(time, to_seconds(timings[op].start - SimTime{}).value);
    const double all = std::accumulate(held.begin(), held.end(), 0.0);
    const auto sample = std::min(
        static_cast<std::size_t>(time / std::max(end, 1e-12) * static_cast<double>(samples)),
        samples - 1);
    if (all > fullest[sample]) {
      fullest[sample] = all;
      at_fullest[sample] = held;
    }
    if (all > curve.peak_gib * (1 + 1e-12)) {
      curve.peak_gib = all;
      curve.peak_seconds = time;
      curve.peak_op =
          std::string(to_string(role.ops[op].origin.phase)) + " " + op_label(role, role.ops[op]);
    }
  }
  curve.gib.resize(curve.names.size());
  for (std::size_t i = 0; i < samples; ++i) {
    if (at_fullest[i].empty()) {
      continue;
    }
    curve.seconds.push_back((static_cast<double>(i) + 0.5) * end / static_cast<double>(samples));
    for (std::size_t name = 0; name < curve.names.size(); ++name) {
      curve.gib[name].push_back(at_fullest[i][name]);
    }
  }
  return curve;
}

}  // namespace trireme::tools
