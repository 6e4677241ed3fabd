#include "runtime/cuda/call.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/context_attention.h"

namespace trireme::runtime::cuda {
namespace {

// Between a token's row of queries, keys and values and one of keys and values alone.
void run_keys(const Call& c) {
  const std::int64_t keys = c.dim(2) * (c.dim(3) + c.dim(4));
  const std::int64_t queries = c.dim(1) * c.dim(3);
  need_vectors(c, queries);
  need_vectors(c, keys);
  if (c.work.kernel == Kernel::kKeysOut) {
    copy_rows(c.stream(), {1, c.dim(0), keys, 0, queries + keys, 0, keys}, c.compute(0) + queries,
              c.compute(1));
  } else {
    add_rows(c.stream(), {1, c.dim(0), keys, 0, keys, 0, queries + keys}, c.compute(0),
             c.compute(1) + queries);
  }
}

// Each rank's rows of a sequence are two chunks.
void run_order(const Call& c) {
  const std::int64_t batch = c.dim(0);
  const std::int64_t sequence = c.dim(1);
  const std::int64_t width = c.dim(2);
  const std::int64_t ranks = c.dim(3);
  const std::int64_t own = sequence / ranks;
  need_vectors(c, width);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (const std::int64_t row : {std::int64_t{0}, own / 2}) {
      const std::int64_t brought = (rank * batch * own + row) * width;
      const std::int64_t ordered = context_position(row, sequence, ranks, rank) * width;
      const RowMove in{batch, own / 2, width, own * width, width, sequence * width, width};
      const RowMove out{batch, own / 2, width, sequence * width, width, own * width, width};
      if (c.flag(4)) {
        copy_rows(c.stream(), out, c.compute(0) + ordered, c.compute(1) + brought);
      } else {
        copy_rows(c.stream(), in, c.compute(0) + brought, c.compute(1) + ordered);
      }
    }
  }
}

// Of each row the i-th of equal parts of its q heads, its k heads and its v heads.
void run_spread(const Call& c) {
  const std::int64_t tokens = c.dim(0);
  const std::int64_t queries = c.dim(1) * c.dim(3);
  const std::int64_t keys = c.dim(2) * c.dim(3);
  const std::int64_t ranks = c.dim(4);
  const std::int64_t values = c.dim(2) * c.dim(6);
  const std::int64_t row = queries + keys + values;
  need_vectors(c, queries / ranks);
  need_vectors(c, keys / ranks);
  need_vectors(c, values / ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t at = 0;
    std::int64_t block = rank * tokens * row / ranks;
    for (const std::int64_t part : {queries, keys, values}) {
      const std::int64_t own = part / ranks;
      if (own > 0) {
        const RowMove out{1, tokens, own, 0, row, 0, row / ranks};
        const RowMove back{1, tokens, own, 0, row / ranks, 0, row};
        const std::int64_t place = at + rank * own;
        if (c.flag(5)) {
          copy_rows(c.stream(), back, c.compute(0) + block, c.compute(1) + place);
        } else {
          copy_rows(c.stream(), out, c.compute(0) + place, c.compute(1) + block);
        }
      }
      at += part;
      block += own;
    }
  }
}

// The place from which the keys of this step came lies so many before this one.
void run_ring(const Call& c) {
  if (c.work.kernel == Kernel::kRingMerge) {
    const RingShape call{
        .batch = c.dim(0), .tokens = c.dim(1), .place = c.place(4), .step = c.dim(5)};
    merge_ring(c.stream(), {c.dim(0), c.dim(1), call.first_query(), c.dim(2), c.dim(3), !c.flag(6)},
               c.compute(0), c.master(1), c.master(2), c.master(3));
    return;
  }
  need_vectors(c, c.dim(4));
  need_vectors(c, c.dim(5));
  const RingShape call{c.dim(0),   c.dim(1), c.dim(2),
                       c.dim(3),   c.dim(4), c.dim(5),
                       c.place(6), c.dim(7), c.attention_scale(c.dim(4))};
  ContextAttention& attention = c.context.attention->context();
  if (c.work.kernel == Kernel::kRingAttentionForward) {
    attention.ring_forward(call, c.compute(0), c.compute(1), c.compute(2), c.master(3), c.stream());
  } else {
    attention.ring_backward(call, c.compute(0), c.compute(1), c.compute(2), c.compute(3),
                            c.master(4), c.compute(5), c.compute(6), c.stream());
  }
}

}  // namespace

void run_context(const Call& c) {
  const Kernel kernel = c.work.kernel;
  if (kernel == Kernel::kRingAttentionForward || kernel == Kernel::kRingMerge ||
      kernel == Kernel::kRingAttentionBackward) {
    run_ring(c);
    return;
  }
  if (kernel == Kernel::kKeysOut || kernel == Kernel::kKeysIn) {
    run_keys(c);
    return;
  }
  if (kernel == Kernel::kRowsInOrder) {
    run_order(c);
    return;
  }
  if (kernel == Kernel::kSpreadHeads) {
    run_spread(c);
    return;
  }
  need_vectors(c, c.dim(4));
  if (c.dim(5) > 0 && c.dim(5) < c.dim(1)) {
    throw Error("context parallelism", "layers with a sliding window do not run on a GPU under it");
  }
  const ContextCall call{c.dim(0), c.dim(1), c.dim(2),   c.dim(3),
                         c.dim(4), c.dim(7), c.place(6), c.attention_scale(c.dim(4))};
  ContextAttention& attention = c.context.attention->context();
  if (kernel == Kernel::kContextAttentionForward) {
    attention.forward(call, c.compute(0), c.compute(1), c.compute(2), c.master(3), c.stream());
  } else {
    attention.backward(call, c.compute(0), c.compute(1), c.compute(2), c.compute(3), c.master(4),
                       c.compute(5), c.compute(6), c.stream());
  }
}

}  // namespace trireme::runtime::cuda
