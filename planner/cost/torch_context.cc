#include "planner/cost/torch_context.h"

namespace trireme::planner {

using models::Implementation;

bool has_torch_context(const Framework& framework) {
  return framework.implementation == Implementation::kEagerTorch ||
         framework.implementation == Implementation::kCompiledTorch;
}

// Bytes an element, read and written, in the order of the code. Keys are two tensors of `keys` / 2.
Bytes torch_context_traffic(const TorchContext& s, topologies::Pass pass) {
  const double others = s.ranks - 1;
  double bytes = 0;
  if (pass == topologies::Pass::kForward) {
    const double cast = 6;             // a step's output to fp32; the sum back to 16 bits
    const double merge = 12 + 8 + 12;  // its difference to the sum, weighted, taken away
    const double joined = 4;           // keys and values made one buffer, for each exchange
    bytes = s.output * (2 * cast + others * (cast + merge)) + s.keys * others * joined;
  } else {
    const double cleared = 4, cast = 6;  // fp32 sums of gradients; those of the queries at the end
    const double added = 10;             // a 16-bit gradient to its fp32 sum
    const double half = added / 2 + 8;   // to one half of a sum, which is then copied whole
    const double joined = 4, travels = 8;  // keys as above; gradients made one buffer, each step
    bytes = s.output * (cleared + s.ranks * added + cast) +
            s.keys * (cleared + added + others * (half + joined) + s.ranks * travels + cast);
  }
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace trireme::planner
