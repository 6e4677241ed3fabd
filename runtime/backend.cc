#include "runtime/backend.h"

#include <fmt/format.h>

namespace trireme::runtime {

std::string describe_op(const Program& role, OpId id) {
  if (index_of(id) >= role.ops.size()) {
    return "no op";
  }
  const Op& op = role.ops[index_of(id)];
  return fmt::format("op {} ({} {} on stream {})", index_of(id), kind_name(op.kind),
                     op_label(role, op), role.streams[index_of(op.stream)]);
}

}  // namespace trireme::runtime
