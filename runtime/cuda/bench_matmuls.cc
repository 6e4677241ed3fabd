#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {
namespace {

struct Sweep {
  MatmulPrecision precision;
  const char* name;
  std::vector<std::int64_t> tokens, widths;
};

bool has_fp8_units() {
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device), "GPU");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "GPU");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "GPU");
  return 10 * major + minor >= 89;
}

// Tokens, and the widths of weights from small models to large ones under tensor parallelism. fp16
// runs on the units of bf16: a coarse sweep shows where the two differ.
std::vector<Sweep> sweeps_of(bool quick) {
  using Sizes = std::vector<std::int64_t>;
  std::vector<Sweep> sweeps;
  const auto add = [&](MatmulPrecision precision, const char* name, const Sizes& tokens,
                       const Sizes& widths) {
    sweeps.push_back({precision, name, tokens, widths});
  };
  const bool fp8 = has_fp8_units();
  if (quick) {
    const Sizes widths = {1024, 4096, 14336};
    add(MatmulPrecision::kBf16, "matrix products", {2048, 4096, 8192},
        {1024, 2048, 4096, 8192, 14336});
    add(MatmulPrecision::kFp16, "matrix products in fp16", {8192}, widths);
    if (fp8) {
      add(MatmulPrecision::kFp8, "matrix products in fp8", {2048, 8192}, widths);
    }
    return sweeps;
  }
  const Sizes tokens = {1024, 2048, 4096, 8192, 16384};
  add(MatmulPrecision::kBf16, "matrix products", tokens,
      {512, 1024, 2048, 4096, 8192, 14336, 28672});
  add(MatmulPrecision::kFp16, "matrix products in fp16", {2048, 8192, 16384},
      {1024, 4096, 8192, 14336});
  if (fp8) {
    add(MatmulPrecision::kFp8, "matrix products in fp8", tokens,
        {1024, 2048, 4096, 8192, 14336, 28672});
  }
  return sweeps;
}

// Median of runs over operands that rotate through more than the L2 cache.
Timing time_matmul(Bench& bench, const MatmulSample& sample) {
  const auto bytes = [](std::int64_t elements, std::size_t width) {
    return (static_cast<std::size_t>(elements) * width + 255) / 256 * 256;
  };
  const MatmulCall call = call_of(sample);
  const std::size_t a = bytes(sample.m * sample.k, bytes_of(call.format_a));
  const std::size_t b = bytes(sample.n * sample.k, bytes_of(call.format_b));
  const std::size_t c = bytes(sample.m * sample.n, call.output_fp32 ? 4 : 2);
  const std::size_t sets = std::clamp<std::size_t>(kRotation / (a + b + c), 1, 16);
  const DeviceBytes firsts = bench.random(a * sets, call.format_a);
  const DeviceBytes seconds = bench.random(b * sets, call.format_b);
  const DeviceBytes results(c * sets, "benchmark results");
  return time_on_stream(bench.stream(), bench.watch(), [&](int run) {
    const std::size_t set = static_cast<std::size_t>(run) % sets;
    bench.matmuls().run(call, firsts.data() + set * a, seconds.data() + set * b,
                        results.data() + set * c, bench.workspace(), bench.stream());
  });
}

// Products that cuBLASLt refused, of one pass in one precision.
struct Refused {
  int count = 0;
  std::string first;  // what it said of the first
};

constexpr std::array<const char*, 3> kPasses = {"forward", "input gradients", "weight gradients"};

void measure_sweep(Bench& bench, const Sweep& sweep, double from, double to,
                   Microbenchmarks& found) {
  std::array<Refused, kPasses.size()> refused;
  double done = 0;
  const auto total =
      static_cast<double>(sweep.tokens.size() * sweep.widths.size() * sweep.widths.size());
  for (const std::int64_t m : sweep.tokens) {
    for (const std::int64_t n : sweep.widths) {
      for (const std::int64_t k : sweep.widths) {
        bench.progress(from + (to - from) * done++ / total, sweep.name);
        if (n * k > std::int64_t{14336} * 8192) {
          continue;
        }
        const std::array<MatmulSample, kPasses.size()> passes = {
            MatmulSample{m, n, k, MatmulLayout::kForward, {}, sweep.precision},
            MatmulSample{m, k, n, MatmulLayout::kInputGradient, {}, sweep.precision},
            MatmulSample{n, k, m, MatmulLayout::kWeightGradient, {}, sweep.precision}};
        for (std::size_t pass = 0; pass < passes.size(); ++pass) {
          MatmulSample sample = passes[pass];
          try {
            sample.timing = time_matmul(bench, sample);
            found.matmuls.push_back(sample);
          } catch (const UnsupportedMatmul& error) {
            if (refused[pass].count++ == 0) {
              refused[pass].first = error.what();
            }
          }
        }
      }
    }
  }
  for (std::size_t pass = 0; pass < refused.size(); ++pass) {
    if (refused[pass].count > 0) {
      bench.remark(std::string(sweep.name) + ", " + kPasses[pass] + ": " +
                   std::to_string(refused[pass].count) +
                   " left out; the first: " + refused[pass].first);
    }
  }
}

}  // namespace

MatmulCall call_of(const MatmulSample& sample) {
  const bool weight_gradient = sample.layout == MatmulLayout::kWeightGradient;
  const bool forward = sample.layout == MatmulLayout::kForward;
  MatmulCall call{.m = sample.m,
                  .n = sample.n,
                  .k = sample.k,
                  .transpose_a = weight_gradient,
                  .transpose_b = forward,
                  .output_fp32 = weight_gradient};
  if (sample.precision == MatmulPrecision::kFp16) {
    call.format_a = NumberFormat::kFp16;
    call.format_b = NumberFormat::kFp16;
  } else if (sample.precision == MatmulPrecision::kFp8) {
    // The first operand of both backward products is the gradient, or its transpose.
    call.format_a = forward ? NumberFormat::kE4m3 : NumberFormat::kE5m2;
    call.format_b = NumberFormat::kE4m3;
    call.transpose_a = false;
    call.transpose_b = true;
    call.fast_accumulate = forward;
  }
  return call;
}

void measure_matmuls(Bench& bench, Microbenchmarks& found) {
  const std::vector<Sweep> sweeps = sweeps_of(bench.quick());
  const auto shapes = [](const Sweep& sweep) {
    return static_cast<double>(sweep.tokens.size() * sweep.widths.size() * sweep.widths.size());
  };
  double all = 0;
  for (const Sweep& sweep : sweeps) {
    all += shapes(sweep);
  }
  double done = 0;
  for (const Sweep& sweep : sweeps) {
    const double from = done;
    done += shapes(sweep);
    measure_sweep(bench, sweep, 0.6 * from / all, 0.6 * done / all, found);
  }
}

}  // namespace trireme::runtime::cuda
