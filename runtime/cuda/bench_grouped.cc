// Products of experts in one launch, with as many rows an expert as training has.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/grouped_products.h"

namespace trireme::runtime::cuda {
namespace {

// Half as many rows to half as many again, and all of them as many as if each expert had `rows`,
// which is what a sample says of it.
constexpr std::int64_t rows_of(std::int64_t expert, std::int64_t experts, std::int64_t rows) {
  constexpr std::int64_t kScatter = 37;  // neighbours are unlike, too
  const std::int64_t more = 2 * (expert * kScatter % experts) - (experts - 1);
  return rows + more * rows / (2 * experts);
}

std::vector<std::int32_t> unlike_counts(std::int64_t experts, std::int64_t rows) {
  std::vector<std::int32_t> counts;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    counts.push_back(static_cast<std::int32_t>(rows_of(expert, experts, rows)));
  }
  return counts;
}

// Eight experts had a sixteenth fewer than their sample said.
constexpr bool are_all_there(std::int64_t experts, std::int64_t rows) {
  std::int64_t all = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    all += rows_of(expert, experts, rows);
  }
  return all == experts * rows;
}
static_assert(are_all_there(8, 64) && are_all_there(32, 64) && are_all_there(64, 64) &&
              are_all_there(8, 4096) && are_all_there(64, 4096));

// The products of a sample, with operands that are not yet placed.
GroupedProducts products_of(const GroupedSample& sample) {
  const bool summed = sample.layout == MatmulLayout::kWeightGradient;
  return {.m = sample.m,
          .n = sample.n,
          .k = sample.k,
          .experts = sample.experts,
          .rows_summed = summed,
          .transpose_b = sample.layout == MatmulLayout::kForward,
          .accumulate = sample.adds,
          .output_fp32 = summed};
}

std::size_t aligned_bytes(std::int64_t elements, std::int64_t width) {
  constexpr std::int64_t kAlignment = 256;
  return static_cast<std::size_t>((elements * width + kAlignment - 1) / kAlignment * kAlignment);
}

class GroupedBench {
 public:
  GroupedBench(Bench& bench, std::int64_t experts, std::int64_t rows) : bench_(bench) {
    const std::vector<std::int32_t> counts = unlike_counts(experts, rows);
    for (const std::int32_t count : counts) {
      rows_ += count;
    }
    counts_ = DeviceBytes(counts.size() * sizeof(std::int32_t), "counts of rows");
    check(cudaMemcpy(counts_.data(), counts.data(), counts_.bytes(), cudaMemcpyHostToDevice),
          "counts of rows");
  }

  // Median of runs over operands that rotate through more than the L2 cache.
  Timing time(const GroupedSample& sample) {
    GroupedProducts p = products_of(sample);
    p.rows = rows_;
    p.counts = reinterpret_cast<const std::int32_t*>(counts_.data());
    const std::size_t a = aligned_bytes(rows_ * (p.rows_summed ? p.m : p.k), 2);
    const std::size_t b = aligned_bytes(p.n * (p.rows_summed ? rows_ : p.experts * p.k), 2);
    const std::size_t c =
        aligned_bytes(p.n * (p.rows_summed ? p.experts * p.m : rows_), p.rows_summed ? 4 : 2);
    const std::size_t sets = std::clamp<std::size_t>(kRotation / (a + b + c), 1, 16);
    const DeviceBytes firsts = bench_.random(a * sets);
    const DeviceBytes seconds = bench_.random(b * sets);
    const DeviceBytes results(c * sets, "benchmark results");
    check(cudaMemset(results.data(), 0, results.bytes()), "benchmark results");
    return time_on_stream(bench_.stream(), bench_.watch(), [&](int run) {
      const std::size_t set = static_cast<std::size_t>(run) % sets;
      p.a = firsts.data() + set * a;
      p.b = seconds.data() + set * b;
      p.c = results.data() + set * c;
      grouped_products(p, bench_.workspace(), bench_.stream());
    });
  }

 private:
  Bench& bench_;
  std::int64_t rows_ = 0;
  DeviceBytes counts_;
};

struct Weights {
  std::int64_t out, in;
};

std::array<GroupedSample, 4> samples_of(std::int64_t experts, std::int64_t rows, const Weights& w) {
  return {{{experts, rows, w.out, w.in, MatmulLayout::kForward, false, {}},
           {experts, rows, w.in, w.out, MatmulLayout::kInputGradient, false, {}},
           {experts, w.out, w.in, rows, MatmulLayout::kWeightGradient, false, {}},
           {experts, w.out, w.in, rows, MatmulLayout::kWeightGradient, true, {}}}};
}

bool has_grouped_products(const Bench& bench) {
  constexpr std::int64_t kAny = 128;
  return can_group({.a = bench.workspace(),
                    .b = bench.workspace(),
                    .c = bench.workspace(),
                    .m = kAny,
                    .n = kAny,
                    .k = kAny,
                    .rows = kAny,
                    .experts = 1});
}

}  // namespace

void measure_grouped(Bench& bench, Microbenchmarks& found) {
  if (!has_grouped_products(bench)) {
    return;
  }
  constexpr double kMostFlop = 3e12;  // more of a product says nothing new
  constexpr std::array<std::int64_t, 4> kRows = {64, 256, 1024, 4096};
  constexpr std::array<Weights, 3> kWeights = {{{1536, 2048}, {2048, 1024}, {4096, 7168}}};
  const std::vector<std::int64_t> experts =
      bench.quick() ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{8, 64};
  for (const std::int64_t count : experts) {
    for (const std::int64_t rows : kRows) {
      bench.progress(0.6, "products of experts");
      GroupedBench of_rows(bench, count, rows);
      for (const Weights& weights : kWeights) {
        const double flop =
            2.0 * static_cast<double>(count * rows) * static_cast<double>(weights.out * weights.in);
        for (GroupedSample sample : samples_of(count, rows, weights)) {
          if (flop <= kMostFlop) {
            sample.timing = of_rows.time(sample);
            found.grouped.push_back(sample);
          }
        }
      }
    }
  }
}

}  // namespace trireme::runtime::cuda
