#include "runtime/cuda/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace trireme::runtime::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t rounded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Ops that touched a range of the arena last, one a stream.
using LastUsers = std::map<std::uint32_t, std::uint32_t>;

// Free ranges and the last users of every range, both by first byte. Ranges never overlap and cover
// the arena.
class Arena {
 public:
  // The smallest free range that fits, or new room at the end.
  std::int64_t take(std::int64_t bytes) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second >= bytes && (best == free_.end() || range->second < best->second)) {
        best = range;
      }
    }
    if (best == free_.end()) {
      return grow(bytes);
    }
    const auto [at, size] = *best;
    free_.erase(best);
    if (size > bytes) {
      free_[at + bytes] = size - bytes;
    }
    return at;
  }

  void give(std::int64_t at, std::int64_t bytes) {
    auto [range, inserted] = free_.emplace(at, bytes);
    if (range != free_.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == at) {
        before->second += range->second;
        free_.erase(range);
        range = before;
      }
    }
    const auto after = std::next(range);
    if (after != free_.end() && range->first + range->second == after->first) {
      range->second += after->second;
      free_.erase(after);
    }
  }

  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  // Extends a free range at the end, so that the arena grows by no more than is missing.
  std::int64_t grow(std::int64_t bytes) {
    std::int64_t at = size_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == size_) {
        at = last->first;
        free_.erase(last);
      }
    }
    size_ = at + bytes;
    return at;
  }

  std::map<std::int64_t, std::int64_t> free_;
  std::int64_t size_ = 0;
};

// Who used which bytes of the arena last: (first byte, end) to users.
class Occupants {
 public:
  // Collects the users of [at, at + bytes) and forgets them there.
  LastUsers take_over(std::int64_t at, std::int64_t bytes) {
    split(at);
    split(at + bytes);
    LastUsers users;
    auto range = ranges_.lower_bound(at);
    while (range != ranges_.end() && range->first < at + bytes) {
      for (const auto& [stream, op] : range->second) {
        auto& latest = users[stream];
        latest = std::max(latest, op);
      }
      range = ranges_.erase(range);
    }
    return users;
  }

  void leave(std::int64_t at, std::int64_t bytes, const LastUsers& users) {
    take_over(at, bytes);
    ranges_[at] = users;
    if (!ranges_.contains(at + bytes)) {
      ranges_[at + bytes] = {};
    }
  }

 private:
  // Makes `at` the beginning of a range.
  void split(std::int64_t at) {
    auto range = ranges_.upper_bound(at);
    if (range == ranges_.begin()) {
      return;
    }
    range = std::prev(range);
    if (range->first != at) {
      ranges_[at] = range->second;
    }
  }

  std::map<std::int64_t, LastUsers> ranges_;  // from this byte to the next entry's
};

// The last op of every stream that touches each buffer.
std::vector<LastUsers> last_users(const Program& role) {
  std::vector<LastUsers> users(role.buffers.size());
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    for (std::uint32_t k = op.operands.first; k < op.operands.first + op.operands.count; ++k) {
      users[index_of(role.operands[k].buffer)][index_of(op.stream)] = i;
    }
  }
  return users;
}

}  // namespace

MemoryPlan plan_memory(const StepProgram& program, const Program& role) {
  MemoryPlan plan;
  plan.offsets.assign(role.buffers.size(), -1);
  plan.extra_waits.resize(role.ops.size());
  const std::vector<Lifetime> lives = lifetimes(role);
  std::vector<std::vector<std::uint32_t>> born(role.ops.size());
  std::vector<std::vector<std::uint32_t>> dying(role.ops.size());
  for (std::uint32_t i = 0; i < lives.size(); ++i) {
    if (!role.buffers[i].persistent && lives[i].first <= lives[i].last) {
      born[lives[i].first].push_back(i);
      dying[lives[i].last].push_back(i);
    }
  }
  const std::vector<LastUsers> users = last_users(role);
  Arena arena;
  Occupants occupants;
  std::int64_t live = 0;
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    std::set<std::uint32_t> waits;
    for (const std::uint32_t buffer : born[i]) {
      const std::int64_t bytes = rounded(size_of(program, role.buffers[buffer]).value);
      plan.offsets[buffer] = arena.take(bytes);
      live += size_of(program, role.buffers[buffer]).value;
      for (const auto& [stream, op] : occupants.take_over(plan.offsets[buffer], bytes)) {
        if (stream != index_of(role.ops[i].stream)) {
          waits.insert(op);
        }
      }
    }
    for (const std::uint32_t op : waits) {
      plan.extra_waits[i].push_back(OpId(op));
    }
    plan.live_peak_bytes = std::max(plan.live_peak_bytes, live);
    for (const std::uint32_t buffer : dying[i]) {
      const std::int64_t bytes = rounded(size_of(program, role.buffers[buffer]).value);
      live -= size_of(program, role.buffers[buffer]).value;
      arena.give(plan.offsets[buffer], bytes);
      occupants.leave(plan.offsets[buffer], bytes, users[buffer]);
    }
  }
  plan.arena_bytes = arena.size();
  return plan;
}

}  // namespace trireme::runtime::cuda
