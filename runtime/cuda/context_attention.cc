#include "runtime/cuda/context_attention.h"

#include <array>
#include <limits>

#include "core/program.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/context.h"

namespace trireme::runtime::cuda {
namespace {

using Bf16 = __nv_bfloat16;

std::size_t rounded_up(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 255) / 256 * 256);
}

void* address_of(const void* pointer) {
  return const_cast<void*>(pointer);
}

struct Sizes {
  std::int64_t own, chunk, width, out,
      keys;  // tokens here, of a chunk; elements of a row of qkv, y, kv
  explicit Sizes(const ContextCall& c)
      : own(c.sequence / c.ranks),
        chunk(own / 2),
        width((c.heads + 2 * c.kv_heads) * c.head_size),
        out(c.heads * c.head_size),
        keys(2 * c.kv_heads * c.head_size) {}
};

}  // namespace

// A chunk's queries, `row` of the own tokens on, over keys from `first_key` on.
struct ContextAttention::Piece {
  std::int64_t row = 0, first_key = 0;
  AttentionPiece shape;
};

namespace {

// Its own keys, causal; and those before, if any.
AttentionPiece piece_of(const ContextCall& c, std::int64_t keys, bool causal) {
  const Sizes s(c);
  return {.batch = c.batch,
          .queries = s.chunk,
          .keys = keys,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_size = c.head_size,
          .value_size = c.head_size,
          .causal = causal,
          .q_row = s.width,
          .q_batch = s.own * s.width,
          .kv_row = s.keys,
          .kv_batch = c.sequence * s.keys,
          .y_row = s.out,
          .y_batch = s.own * s.out,
          .lse_head = s.own,
          .dq_row = s.out,
          .dq_batch = s.chunk * s.out,
          .dkv_row = s.keys,
          .dkv_batch = keys * s.keys};
}

}  // namespace

std::byte* ContextAttention::scratch(std::size_t bytes) {
  if (bytes > scratch_.bytes()) {
    check(cudaDeviceSynchronize(), "attention scratch");
    scratch_ = DeviceBytes();
    scratch_ = DeviceBytes(bytes, "attention scratch");
  }
  return scratch_.data();
}

const ContextAttention::Plans& ContextAttention::plans_for(const AttentionPiece& piece) {
  std::shared_ptr<Plans>& plans = plans_[piece];
  if (plans == nullptr) {
    auto made = std::make_shared<Plans>();
    AttentionPiece forward =
        piece;  // a part's statistics and, beside others, its output are packed
    forward.lse_head = piece.queries;
    if (!piece.causal) {
      forward.y_batch = piece.queries * piece.y_row;
    }
    made->forward = attention_forward_graph(forward);
    made->backward = attention_backward_graph(piece);
    std::string reason;
    if (!made->forward.graph.build(handle_, reason) ||
        !made->backward.graph.build(handle_, reason)) {
      throw Error("context parallelism", "cuDNN has no plan for attention of " +
                                             std::to_string(piece.queries) + " queries over " +
                                             std::to_string(piece.keys) + " keys: " + reason);
    }
    plans = made;
  }
  return *plans;
}

void ContextAttention::piece_forward(const ContextCall& c, const Piece& piece, const Bf16* qkv,
                                     const Bf16* kv, Bf16* y, float* lse, std::byte* workspace,
                                     cudaStream_t stream) {
  const Sizes s(c);
  const AttentionForwardGraph& made = plans_for(piece.shape).forward;
  auto scale = static_cast<float>(c.scale);
  float masked = -std::numeric_limits<float>::infinity();
  const Bf16* keys = kv + piece.first_key * s.keys;
  std::vector<std::pair<CudnnGraph::Tensor, void*>> pointers = {
      {made.q, address_of(qkv + piece.row * s.width)},
      {made.k, address_of(keys)},
      {made.v, address_of(keys + s.keys / 2)},
      {made.y, y},
      {made.lse, lse},
      {made.scale, &scale}};
  if (piece.shape.causal) {
    pointers.emplace_back(made.masked, &masked);
  }
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  made.graph.execute(handle_, pointers, workspace);
}

void ContextAttention::forward(const ContextCall& c, const Bf16* qkv, const Bf16* kv, Bf16* y,
                               float* lse, cudaStream_t stream) {
  const Sizes s(c);
  for (std::int64_t h = 0; h < 2; ++h) {
    const std::int64_t row = h * s.chunk;
    const std::int64_t before = context_position(row, c.sequence, c.ranks, c.place);
    const Piece own{row, before, piece_of(c, s.chunk, true)};
    const Piece others{row, 0, piece_of(c, std::max<std::int64_t>(before, 1), false)};
    const std::size_t lse_bytes = rounded_up(c.batch * c.heads * s.chunk * 4);
    const std::size_t y_bytes = rounded_up(c.batch * s.chunk * s.out * 2);
    std::int64_t workspace = plans_for(own.shape).forward.graph.workspace_bytes();
    if (before > 0) {
      workspace = std::max(workspace, plans_for(others.shape).forward.graph.workspace_bytes());
    }
    std::byte* memory = scratch(2 * lse_bytes + y_bytes + static_cast<std::size_t>(workspace));
    auto* own_lse = reinterpret_cast<float*>(memory);
    auto* other_lse = reinterpret_cast<float*>(memory + lse_bytes);
    auto* other_y = reinterpret_cast<Bf16*>(memory + 2 * lse_bytes);
    std::byte* rest = memory + 2 * lse_bytes + y_bytes;
    piece_forward(c, own, qkv, kv, y + row * s.out, own_lse, rest, stream);
    if (before > 0) {
      piece_forward(c, others, qkv, kv, other_y, other_lse, rest, stream);
    }
    merge_softmax(stream, {c.batch, s.chunk, c.heads, c.head_size, s.own * s.out, s.own},
                  before > 0 ? other_y : nullptr, own_lse, other_lse, y + row * s.out, lse + row);
  }
}

// With the output and the statistics over all keys, a part's gradients are its share of the whole.
void ContextAttention::piece_backward(const ContextCall& c, const Piece& piece, const Bf16* dy,
                                      const Bf16* qkv, const Bf16* kv, const Bf16* y,
                                      const float* lse, Bf16* dqkv, Bf16* dkv,
                                      cudaStream_t stream) {
  const Sizes s(c);
  const AttentionBackwardGraph& made = plans_for(piece.shape).backward;
  auto scale = static_cast<float>(c.scale);
  float masked = -std::numeric_limits<float>::infinity();
  float one = 1.0F;
  const std::int64_t queries = c.batch * s.chunk;
  const std::int64_t keys = piece.shape.keys;
  const std::array<std::size_t, 4> parts = {
      rounded_up(queries * c.heads * 4), rounded_up(queries * s.out * 4),
      rounded_up(queries * s.out * 2), rounded_up(c.batch * keys * s.keys * 2)};
  std::byte* memory = scratch(parts[0] + parts[1] + parts[2] + parts[3] +
                              static_cast<std::size_t>(made.graph.workspace_bytes()));
  std::byte* dq_sum = memory + parts[0];
  auto* dq = reinterpret_cast<Bf16*>(dq_sum + parts[1]);
  auto* dkeys = reinterpret_cast<Bf16*>(dq_sum + parts[1] + parts[2]);
  const Bf16* from = kv + piece.first_key * s.keys;
  std::vector<std::pair<CudnnGraph::Tensor, void*>> pointers = {
      {made.q, address_of(qkv + piece.row * s.width)},
      {made.k, address_of(from)},
      {made.v, address_of(from + s.keys / 2)},
      {made.y, address_of(y + piece.row * s.out)},
      {made.dy, address_of(dy + piece.row * s.out)},
      {made.lse, address_of(lse + piece.row)},
      {made.dq, dq},
      {made.dk, dkeys},
      {made.dv, dkeys + s.keys / 2},
      {made.scale, &scale},
      {made.one, &one},
      {made.softmax_sum, memory},
      {made.dq_sum, dq_sum}};
  if (piece.shape.causal) {
    pointers.emplace_back(made.masked, &masked);
  }
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  made.graph.execute(handle_, pointers, memory + parts[0] + parts[1] + parts[2] + parts[3]);
  add_rows(stream, {c.batch, s.chunk, s.out, s.chunk * s.out, s.out, s.own * s.width, s.width}, dq,
           dqkv + piece.row * s.width);
  add_rows(stream, {c.batch, keys, s.keys, keys * s.keys, s.keys, c.sequence * s.keys, s.keys},
           dkeys, dkv + piece.first_key * s.keys);
}

void ContextAttention::backward(const ContextCall& c, const Bf16* dy, const Bf16* qkv,
                                const Bf16* kv, const Bf16* y, const float* lse, Bf16* dqkv,
                                Bf16* dkv, cudaStream_t stream) {
  const Sizes s(c);
  const auto clear = [&](Bf16* rows, std::int64_t elements) {
    check(cudaMemsetAsync(rows, 0, static_cast<std::size_t>(elements) * sizeof(Bf16), stream),
          "attention gradient");
  };
  clear(dqkv, c.batch * s.own * s.width);
  clear(dkv, c.batch * c.sequence * s.keys);
  for (std::int64_t h = 0; h < 2; ++h) {
    const std::int64_t row = h * s.chunk;
    const std::int64_t before = context_position(row, c.sequence, c.ranks, c.place);
    piece_backward(c, {row, before, piece_of(c, s.chunk, true)}, dy, qkv, kv, y, lse, dqkv, dkv,
                   stream);
    if (before > 0) {
      piece_backward(c, {row, 0, piece_of(c, before, false)}, dy, qkv, kv, y, lse, dqkv, dkv,
                     stream);
    }
  }
}

}  // namespace trireme::runtime::cuda
