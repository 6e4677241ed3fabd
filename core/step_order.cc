#include "core/step_order.h"

namespace trireme {

std::vector<std::vector<OpId>> ops_by_stream(const Program& role) {
  std::vector<std::vector<OpId>> streams(role.streams.size());
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    streams[index_of(role.ops[i].stream)].push_back(static_cast<OpId>(i));
  }
  return streams;
}

}  // namespace trireme
