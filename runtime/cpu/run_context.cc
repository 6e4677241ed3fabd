#include "runtime/cpu/run_context.h"

#include "runtime/cpu/context.h"
#include "runtime/cpu/ring.h"

namespace trireme::runtime::cpu {

template <typename T>
void run_context(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kRowsInOrder) {
    rows_in_order<T>({.batch = c.dim("B"), .sequence = c.dim("S"), .ranks = c.dim("C")}, c.dim("W"),
                     c.at(0), c.at(1), c.dim("inverse") != 0);
    return;
  }
  ContextShape s{.heads = c.dim("A"), .kv_heads = c.dim("K"), .head_dim = c.dim("D")};
  if (kernel == Kernel::kSpreadHeads) {
    s.v_dim = c.dim("V");
    s.ranks = c.dim("C");
    spread_heads<T>(c.dim("T"), s, c.at(0), c.at(1), c.dim("inverse") != 0);
    return;
  }
  if (kernel == Kernel::kKeysOut || kernel == Kernel::kKeysIn) {
    s.v_dim = c.dim("V");
    kernel == Kernel::kKeysOut ? keys_out<T>(c.dim("T"), s, c.at(0), c.at(1))
                               : keys_in<T>(c.dim("T"), s, c.at(0), c.at(1));
    return;
  }
  s.batch = c.dim("B");
  s.sequence = c.dim("S");
  s.ranks = c.dim("C");
  s.v_dim = s.head_dim;
  s.window = c.dim("window");
  s.place = c.place("context");
  s.scale = c.attention_scale(s.head_dim);
  if (kernel == Kernel::kContextAttentionForward) {
    context_attention_forward<T>(s, c.at(0), c.at(1), c.at(2), c.at(3));
  } else {
    context_attention_backward<T>(s, c.at(0), c.at(1), c.at(2), c.at(3), c.at(4), c.at(5), c.at(6));
  }
}

template <typename T>
void run_ring(const Call<T>& c, Kernel kernel) {
  RingShape s{.batch = c.dim("B"),
              .tokens = c.dim("S"),
              .heads = c.dim("A"),
              .v_dim = c.dim("V"),
              .place = c.place("context"),
              .step = c.dim("step")};
  if (kernel == Kernel::kRingMerge) {
    ring_merge<T>(s, c.at(0), c.at(1), c.at(2), c.at(3));
    return;
  }
  s.kv_heads = c.dim("K");
  s.head_dim = c.dim("D");
  s.scale = c.attention_scale(s.head_dim);
  if (kernel == Kernel::kRingAttentionForward) {
    ring_attention_forward<T>(s, c.at(0), c.at(1), c.at(2), c.at(3));
  } else {
    ring_attention_backward<T>(s, c.at(0), c.at(1), c.at(2), c.at(3), c.at(4), c.at(5), c.at(6));
  }
}

template void run_context<float>(const Call<float>&, Kernel);
template void run_context<double>(const Call<double>&, Kernel);
template void run_ring<float>(const Call<float>&, Kernel);
template void run_ring<double>(const Call<double>&, Kernel);

}  // namespace trireme::runtime::cpu
