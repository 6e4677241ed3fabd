#include "tools/live_buffers.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::tools {

LiveAtPeak live_at_peak(const StepProgram& program, const trireme::Program& role) {
  const Liveness worst = liveness(program, role);
  const std::vector<Lifetime> lives = lifetimes(role);
  std::map<std::pair<std::string, bool>, LiveBuffers> by_name;
  LiveAtPeak result;
  for (std::size_t i = 0; i < role.buffers.size(); ++i) {
    const Buffer& buffer = role.buffers[i];
    const std::uint32_t peak = index_of(worst.peak_op);
    if (!buffer.persistent && (lives[i].first > peak || lives[i].last < peak)) {
      continue;
    }
    LiveBuffers& entry = by_name[{role.names[buffer.name], buffer.persistent}];
    entry.name = role.names[buffer.name];
    entry.persistent = buffer.persistent;
    ++entry.count;
    entry.bytes += size_of(program, buffer);
    result.bytes += size_of(program, buffer);
  }
  if (!role.ops.empty()) {
    const Op& op = role.ops[index_of(worst.peak_op)];
    result.op = std::string(to_string(op.origin.phase)) + " " + op_label(role, op);
  }
  for (auto& [key, entry] : by_name) {
    result.buffers.push_back(std::move(entry));
  }
  std::stable_sort(result.buffers.begin(), result.buffers.end(),
                   [](const LiveBuffers& a, const LiveBuffers& b) { return a.bytes > b.bytes; });
  return result;
}

}  // namespace trireme::tools
