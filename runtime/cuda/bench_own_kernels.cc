// The runtime's own memory-bound kernels at the sizes of training: names as core/kernels.h has
// them, traffic as core/kernel_work.h counts it (rows' and columns' vectors aside).
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/kernels.h"
#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/experts.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/narrow.h"

namespace trireme::runtime::cuda {
namespace {

constexpr std::int64_t kHeadSize = 128;
constexpr std::int64_t kTableRows = 32768;
// Of a rank's routed experts: four a token, from two senders.
constexpr std::int64_t kChosen = 4;
constexpr std::int64_t kSenders = 2;
constexpr std::int64_t kExperts = 16;

struct Extent {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// The operands of one run, one after the other; successive runs use successive sets of them, so
// that none is in the cache.
class OperandSet {
 public:
  std::size_t bf16(std::int64_t count) { return take(count, sizeof(Bf16)); }
  std::size_t fp32(std::int64_t count) { return take(count, sizeof(float)); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t take(std::int64_t count, std::size_t width) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * width + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes_ = 0;
};

// Where one run's operands begin.
struct Base {
  std::byte* data;
  [[nodiscard]] Bf16* bf16(std::size_t at) const { return reinterpret_cast<Bf16*>(data + at); }
  [[nodiscard]] float* fp32(std::size_t at) const { return reinterpret_cast<float*>(data + at); }
};

struct KernelRun {
  std::string kernel;
  Extent extent;
  std::int64_t traffic = 0;
  OperandSet operands;
  std::function<void(const Base&)> queue;
};

// What all kernels of one extent share.
struct Shared {
  cudaStream_t stream;
  Scratch scratch;
  const std::int32_t* tokens;
  const std::int32_t* experts = nullptr;  // chosen ones, of kSenders * kExperts
  std::int32_t* places = nullptr;         // of the rows that chose, by expert
  std::int32_t* counts = nullptr;         // of each expert's rows
};

void add_norms(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  for (const bool centred : {false, true}) {
    OperandSet set;
    const std::size_t x = set.bf16(e.elements());
    const std::size_t y = set.bf16(e.elements());
    const std::size_t weight = set.bf16(e.columns);
    const std::size_t bias = set.bf16(e.columns);
    const std::size_t mean = set.fp32(e.rows);
    const std::size_t rstd = set.fp32(e.rows);
    runs.push_back({centred ? "layer_norm_forward" : "rms_norm_forward", e, 4 * e.elements(), set,
                    [=](const Base& at) {
                      if (centred) {
                        layer_norm_forward(shared.stream, at.bf16(x), at.bf16(weight),
                                           at.bf16(bias), at.bf16(y), at.fp32(mean), at.fp32(rstd),
                                           e.rows, e.columns);
                      } else {
                        rms_norm_forward(shared.stream, at.bf16(x), at.bf16(weight), at.bf16(y),
                                         at.fp32(rstd), e.rows, e.columns);
                      }
                    }});
    const std::size_t dy = set.bf16(e.elements());
    const std::size_t dx = set.bf16(e.elements());
    const std::size_t dweight = set.fp32(e.columns);
    const std::size_t dbias = set.fp32(e.columns);
    runs.push_back({centred ? "layer_norm_backward" : "rms_norm_backward", e, 8 * e.elements(), set,
                    [=](const Base& at) {
                      norm_backward(shared.stream,
                                    {at.bf16(dy), at.bf16(x), at.bf16(weight),
                                     centred ? at.fp32(mean) : nullptr, at.fp32(rstd), at.bf16(y),
                                     at.bf16(dx), at.fp32(dweight),
                                     centred ? at.fp32(dbias) : nullptr, e.rows, e.columns, true},
                                    shared.scratch);
                    }});
  }
}

// Grouped heads: four of the queries to one of keys and one of values.
void add_heads(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  const std::int64_t all = e.columns / kHeadSize;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, all / 6);
  const std::int64_t heads = all - 2 * kv_heads;
  OperandSet set;
  const std::size_t x = set.bf16(e.elements());
  RotaryTurns turns;
  turns.pairs = kHeadSize / 2;
  for (int j = 0; j < turns.pairs; ++j) {
    turns.frequencies[j] = std::pow(500000.0F, -2.0F * static_cast<float>(j) / kHeadSize);
  }
  for (const bool inverse : {false, true}) {
    runs.push_back({inverse ? "rotary_backward" : "rotary_forward", e,
                    4 * e.rows * (heads + kv_heads) * kHeadSize, set, [=](const Base& at) {
                      rotary(shared.stream, at.bf16(x),
                             {e.rows, heads + kv_heads, kHeadSize, all * kHeadSize},
                             {e.rows, e.rows, 0, 0}, turns, inverse);
                    }});
  }
  const std::size_t y = set.bf16(e.elements());
  const std::size_t q_weight = set.bf16(kHeadSize);
  const std::size_t k_weight = set.bf16(kHeadSize);
  const std::size_t rstd = set.fp32(e.rows * (heads + kv_heads));
  HeadNorm norm{};
  norm.rows = e.rows;
  norm.heads = heads;
  norm.kv_heads = kv_heads;
  norm.head_size = kHeadSize;
  norm.accumulate = true;
  const auto bound = [=](const Base& at) {
    HeadNorm call = norm;
    call.x = call.input = at.bf16(x);
    call.output = at.bf16(y);
    call.q_weight = at.bf16(q_weight);
    call.k_weight = at.bf16(k_weight);
    call.rstd = at.fp32(rstd);
    return call;
  };
  runs.push_back({"head_norm_forward", e, 4 * e.elements(), set,
                  [=](const Base& at) { head_norm_forward(shared.stream, bound(at)); }});
  const std::size_t dy = set.bf16(e.elements());
  const std::size_t dq = set.fp32(kHeadSize);
  const std::size_t dk = set.fp32(kHeadSize);
  runs.push_back({"head_norm_backward", e, 6 * e.elements(), set, [=](const Base& at) {
                    HeadNorm call = bound(at);
                    call.input = at.bf16(dy);
                    call.dq_weight = at.fp32(dq);
                    call.dk_weight = at.fp32(dk);
                    head_norm_backward(shared.stream, call, shared.scratch);
                  }});
}

void add_activations(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::size_t up = set.bf16(2 * e.elements());
  const std::size_t y = set.bf16(e.elements());
  const std::size_t dup = set.bf16(2 * e.elements());
  runs.push_back({"swiglu_forward", e, 6 * e.elements(), set, [=](const Base& at) {
                    swiglu_forward(shared.stream, at.bf16(up), at.bf16(y), e.rows, e.columns);
                  }});
  runs.push_back({"swiglu_backward", e, 10 * e.elements(), set, [=](const Base& at) {
                    swiglu_backward(shared.stream, at.bf16(y), at.bf16(up), at.bf16(dup), e.rows,
                                    e.columns);
                  }});
  runs.push_back({"gelu_forward", e, 4 * e.elements(), set, [=](const Base& at) {
                    gelu_forward(shared.stream, at.bf16(up), at.bf16(y), e.elements());
                  }});
  runs.push_back({"gelu_backward", e, 6 * e.elements(), set, [=](const Base& at) {
                    gelu_backward(shared.stream, at.bf16(y), at.bf16(up), at.bf16(dup),
                                  e.elements());
                  }});
}

void add_sums(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::size_t y = set.bf16(e.elements());
  const std::size_t bias = set.bf16(e.columns);
  const std::size_t dbias = set.fp32(e.columns);
  runs.push_back({"bias_forward", e, 4 * e.elements(), set, [=](const Base& at) {
                    bias_forward(shared.stream, at.bf16(y), at.bf16(bias), e.rows, e.columns);
                  }});
  runs.push_back({"bias_backward", e, 2 * e.elements(), set, [=](const Base& at) {
                    bias_backward(shared.stream, at.bf16(y), at.fp32(dbias), e.rows, e.columns,
                                  true, shared.scratch);
                  }});
  const std::size_t x = set.bf16(e.elements());
  runs.push_back({"add", e, 6 * e.elements(), set, [=](const Base& at) {
                    add(shared.stream, at.bf16(y), static_cast<const Bf16*>(at.bf16(x)),
                        e.elements());
                  }});
}

// The gradient is added to a table that was cleared before.
void add_embeddings(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::size_t y = set.bf16(e.elements());
  const std::size_t table = set.fp32(kTableRows * e.columns);
  runs.push_back({"embedding_forward", e, e.rows * (4 + 4 * e.columns), set, [=](const Base& at) {
                    embedding_forward(shared.stream, shared.tokens, at.bf16(table), at.bf16(y),
                                      e.rows, e.columns, kTableRows, 0);
                  }});
  runs.push_back({"embedding_backward", e, e.rows * (4 + 10 * e.columns), set, [=](const Base& at) {
                    embedding_backward(shared.stream, shared.tokens, at.bf16(y), at.fp32(table),
                                       e.rows, e.columns, kTableRows, 0, true);
                  }});
}

void add_states(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::int64_t count = e.elements();
  const std::size_t gradient = set.fp32(count);
  const std::size_t weight = set.bf16(count);
  const std::size_t sum = set.fp32(1);
  runs.push_back({"cast", e, 6 * count, set, [=](const Base& at) {
                    cast(shared.stream, static_cast<const float*>(at.fp32(gradient)),
                         at.bf16(weight), count);
                  }});
  runs.push_back({"squared_norm", e, 4 * count, set, [=](const Base& at) {
                    squared_norm(shared.stream,
                                 {at.fp32(gradient), at.fp32(sum), count, 0, count, 1.0, 1.0},
                                 shared.scratch);
                  }});
  const std::size_t master = set.fp32(count);
  const std::size_t moment1 = set.fp32(count);
  const std::size_t moment2 = set.fp32(count);
  for (const bool casts : {false, true}) {
    runs.push_back(
        {casts ? "adamw_cast" : "adamw", e, (casts ? 30 : 28) * count, set, [=](const Base& at) {
           adamw(shared.stream, {at.fp32(gradient), at.fp32(sum), at.fp32(master), at.fp32(moment1),
                                 at.fp32(moment2), casts ? at.bf16(weight) : nullptr, count, 1e-4,
                                 0.9, 0.95, 1e-8, 0.1, 1});
         }});
  }
}

// Columns are a rank's rows of the vocabulary.
void add_losses(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::size_t logits = set.bf16(e.elements());
  const std::size_t maximum = set.fp32(e.rows);
  const std::size_t sums = set.fp32(2 * e.rows);
  runs.push_back({"logit_statistics", e, 2 * e.elements(), set, [=](const Base& at) {
                    logit_statistics(shared.stream, at.bf16(logits), shared.tokens,
                                     at.fp32(maximum), at.fp32(sums), e.rows, e.columns, e.columns,
                                     0);
                  }});
  runs.push_back({"cross_entropy_backward", e, 4 * e.elements(), set, [=](const Base& at) {
                    cross_entropy_backward(shared.stream, at.bf16(logits), at.fp32(maximum),
                                           at.fp32(sums), shared.tokens, e.rows, e.columns,
                                           e.columns, 0, static_cast<double>(e.rows));
                  }});
}

// Rows that experts are chosen for, moved among their places. Bytes as the program's operands have
// them; of `places` a call writes what the ones behind it read.
void add_expert_moves(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const ExpertRows rows{e.rows / kChosen, kChosen, e.columns};
  const std::int64_t tokens = rows.tokens * e.columns;
  const std::size_t x = set.bf16(tokens);
  const std::size_t y = set.bf16(e.elements());
  const std::size_t weights = set.fp32(e.rows);
  const std::int64_t places = 4 * e.rows;
  runs.push_back({"expert_places", e, 2 * places + 4 * kSenders * kExperts, set, [=](const Base&) {
                    expert_places(shared.stream, e.rows, kSenders * kExperts, shared.experts,
                                  shared.places, shared.counts);
                  }});
  runs.push_back(
      {"permute_rows", e, 2 * (tokens + e.elements()) + places, set, [=](const Base& at) {
         permute_rows(shared.stream, rows, at.bf16(x), shared.places, at.bf16(y));
       }});
  runs.push_back(
      {"combine_rows", e, 2 * (tokens + e.elements()) + 2 * places, set, [=](const Base& at) {
         combine_rows(shared.stream, rows, at.bf16(y), shared.places, at.fp32(weights), at.bf16(x));
       }});
  const std::size_t moved = set.bf16(e.elements());
  const std::size_t d_weights = set.fp32(e.rows);
  runs.push_back({"combine_backward", e, 2 * (tokens + 2 * e.elements()) + 3 * places, set,
                  [=](const Base& at) {
                    combine_backward(shared.stream, rows, at.bf16(x), at.bf16(y), shared.places,
                                     at.fp32(weights), at.bf16(moved), at.fp32(d_weights));
                  }});
  runs.push_back({"regroup_rows", e, 4 * e.elements(), set, [=](const Base& at) {
                    regroup_rows(shared.stream, kSenders, kExperts, e.columns, shared.counts,
                                 at.bf16(y), at.bf16(moved), false);
                  }});
}

// Scales and casts of products in 8 bits: of a matrix, and of the rows that the run before gave to
// experts.
void add_narrow(const Shared& shared, const Extent& e, std::vector<KernelRun>& runs) {
  OperandSet set;
  const std::size_t x = set.bf16(e.elements());
  const std::size_t scale = set.fp32(1);
  const std::size_t rows = set.bf16(e.elements());
  const std::size_t turned = set.bf16(e.elements());
  struct Form {
    const char* name;
    std::int64_t bytes;  // of an element
    bool rows, turned;
  };
  for (const bool routed : {false, true}) {
    const std::string prefix = routed ? "expert_narrow_" : "narrow_";
    const ArrivedRows arrived =
        routed ? ArrivedRows{shared.counts, kSenders, kExperts} : ArrivedRows{};
    runs.push_back({prefix + "scale", e, 2 * e.elements(), set, [=](const Base& at) {
                      narrow_scale(shared.stream, at.bf16(x), at.fp32(scale), e.elements(),
                                   NumberFormat::kE4m3, e.columns, arrived);
                    }});
    for (const Form& form :
         {Form{"cast", 3, true, false}, {"turned", 3, false, true}, {"both", 4, true, true}}) {
      const std::int64_t width = routed ? narrow_width(e.rows, kExperts) : e.rows;
      runs.push_back(
          {prefix + form.name, e, form.bytes * e.elements(), set, [=](const Base& at) {
             const auto codes = [&](bool wanted, std::size_t where) {
               return wanted ? reinterpret_cast<std::uint8_t*>(at.data + where) : nullptr;
             };
             narrow_cast(shared.stream, {at.bf16(x), at.fp32(scale), codes(form.rows, rows),
                                         codes(form.turned, turned), e.rows, e.columns,
                                         NumberFormat::kE4m3, width, arrived});
           }});
    }
  }
}

void measure_run(Bench& bench, const KernelRun& run, Microbenchmarks& found) {
  const std::size_t sets = std::clamp<std::size_t>(kRotation / run.operands.bytes(), 1, 16);
  const DeviceBytes memory = bench.random(run.operands.bytes() * sets);
  const Timing timing = time_on_stream(bench.stream(), bench.watch(), [&](int i) {
    run.queue({memory.data() + static_cast<std::size_t>(i) % sets * run.operands.bytes()});
  });
  check(cudaGetLastError(), run.kernel.c_str());
  found.kernels.push_back(
      {run.kernel, run.extent.rows, run.extent.columns, Bytes(run.traffic), timing});
}

}  // namespace

void measure_own_kernels(Bench& bench, Microbenchmarks& found) {
  constexpr std::int64_t kMostRows = 16384;
  std::vector<std::int32_t> host(kMostRows);
  for (std::size_t i = 0; i < host.size(); ++i) {  // all rows of the table, far from each other
    host[i] = static_cast<std::int32_t>(i * 12007 % kTableRows);
  }
  const DeviceBytes tokens(host.size() * sizeof(std::int32_t), "tokens");
  check(cudaMemcpy(tokens.data(), host.data(), tokens.bytes(), cudaMemcpyHostToDevice), "tokens");
  for (std::int32_t& row : host) {
    row = static_cast<std::int32_t>(row / kSenders % (kSenders * kExperts));
  }
  const DeviceBytes experts(host.size() * sizeof(std::int32_t), "experts");
  check(cudaMemcpy(experts.data(), host.data(), experts.bytes(), cudaMemcpyHostToDevice),
        "experts");
  const DeviceBytes places(host.size() * sizeof(std::int32_t), "places");
  const DeviceBytes counts(kSenders * kExperts * sizeof(std::int32_t), "counts");
  const DeviceBytes scratch(scratch_bytes(kMostRows), "partial sums");
  const Shared shared{bench.stream(),
                      {reinterpret_cast<float*>(scratch.data()), scratch.bytes()},
                      reinterpret_cast<const std::int32_t*>(tokens.data()),
                      reinterpret_cast<const std::int32_t*>(experts.data()),
                      reinterpret_cast<std::int32_t*>(places.data()),
                      reinterpret_cast<std::int32_t*>(counts.data())};
  std::vector<KernelRun> runs;
  for (const Extent& extent :
       {Extent{1024, 2048}, Extent{4096, 2048}, Extent{kMostRows, 2048}, Extent{4096, 8192}}) {
    add_norms(shared, extent, runs);
    add_heads(shared, extent, runs);
    add_activations(shared, extent, runs);
    add_sums(shared, extent, runs);
    add_embeddings(shared, extent, runs);
    add_states(shared, extent, runs);
    add_expert_moves(shared, extent, runs);
    add_narrow(shared, extent, runs);
  }
  for (const Extent& extent : {Extent{1024, kTableRows}, Extent{4096, kTableRows},
                               Extent{8192, kTableRows}, Extent{2048, 4 * kTableRows}}) {
    add_losses(shared, extent, runs);
  }
  for (const KernelRun& run : runs) {
    bench.progress(0.66, "own kernels: " + run.kernel);
    measure_run(bench, run, found);
  }
}

}  // namespace trireme::runtime::cuda
