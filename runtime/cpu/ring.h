// Attention round a ring of context ranks: of this rank's queries over the keys and values of one
// member at a time, merged by their statistics. core/kernels.h says what each does.
#pragma once

#include "runtime/ring_shape.h"

namespace trireme::runtime::cpu {

template <typename T>
void ring_attention_forward(const RingShape& shape, const T* qkv, const T* kv, T* y, T* lse);
template <typename T>
void ring_merge(const RingShape& shape, const T* y, const T* lse, T* sum, T* all);
template <typename T>
void ring_attention_backward(const RingShape& shape, const T* dy, const T* qkv, const T* kv,
                             const T* y, const T* lse, T* dqkv, T* dkv);

}  // namespace trireme::runtime::cpu
