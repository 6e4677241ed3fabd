// Matrix products in fp16 and fp8 against sums in double over the very operands the GPU was given;
// and what cuBLASLt has no algorithm for.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/random_fill.h"

namespace trireme::runtime::cuda {
namespace {

template <typename Element>
double read_element(const std::byte* source) {
  Element element;
  std::memcpy(&element, source, sizeof(element));
  return static_cast<double>(static_cast<float>(element));
}

std::vector<double> values_of(const DeviceBytes& memory, NumberFormat format) {
  std::vector<std::byte> bytes(memory.bytes());
  EXPECT_EQ(cudaMemcpy(bytes.data(), memory.data(), bytes.size(), cudaMemcpyDeviceToHost),
            cudaSuccess);
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += bytes_of(format)) {
    switch (format) {
      case NumberFormat::kBf16:
        values.push_back(read_element<__nv_bfloat16>(bytes.data() + at));
        break;
      case NumberFormat::kFp16:
        values.push_back(read_element<__half>(bytes.data() + at));
        break;
      case NumberFormat::kE4m3:
        values.push_back(read_element<__nv_fp8_e4m3>(bytes.data() + at));
        break;
      case NumberFormat::kE5m2:
        values.push_back(read_element<__nv_fp8_e5m2>(bytes.data() + at));
        break;
    }
  }
  return values;
}

int compute_capability() {
  int major = 0;
  int minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return 10 * major + minor;
}

class CudaMatmul : public testing::Test {
 protected:
  // Largest difference to the sums in double, over their largest magnitude.
  double error_of(const MatmulSample& sample) {
    const MatmulCall call = call_of(sample);
    const auto size = [](std::int64_t rows, std::int64_t columns, std::size_t width) {
      return static_cast<std::size_t>(rows * columns) * width;
    };
    const DeviceBytes a =
        bench_.random(size(call.m, call.k, bytes_of(call.format_a)), call.format_a);
    const DeviceBytes b =
        bench_.random(size(call.n, call.k, bytes_of(call.format_b)), call.format_b);
    const DeviceBytes c(size(call.m, call.n, call.output_fp32 ? 4 : 2), "product");
    bench_.matmuls().run(call, a.data(), b.data(), c.data(), bench_.workspace(), bench_.stream());
    EXPECT_EQ(cudaStreamSynchronize(bench_.stream()), cudaSuccess);
    const std::vector<double> first = values_of(a, call.format_a);
    const std::vector<double> second = values_of(b, call.format_b);
    const std::vector<double> got = output_of(c, call);
    double worst = 0;
    double largest = 0;
    for (std::int64_t i = 0; i < call.m; ++i) {
      for (std::int64_t j = 0; j < call.n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < call.k; ++p) {
          const std::int64_t at_a = call.transpose_a ? p * call.m + i : i * call.k + p;
          const std::int64_t at_b = call.transpose_b ? j * call.k + p : p * call.n + j;
          sum += first[static_cast<std::size_t>(at_a)] * second[static_cast<std::size_t>(at_b)];
        }
        largest = std::max(largest, std::abs(sum));
        worst = std::max(worst, std::abs(sum - got[static_cast<std::size_t>(i * call.n + j)]));
      }
    }
    return worst / largest;
  }

  Bench bench_{0, MicrobenchSettings{}};

 private:
  static std::vector<double> output_of(const DeviceBytes& c, const MatmulCall& call) {
    if (!call.output_fp32) {
      return values_of(
          c, call.format_a == NumberFormat::kFp16 ? NumberFormat::kFp16 : NumberFormat::kBf16);
    }
    std::vector<float> stored(c.bytes() / sizeof(float));
    EXPECT_EQ(cudaMemcpy(stored.data(), c.data(), c.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return {stored.begin(), stored.end()};
  }
};

TEST_F(CudaMatmul, EveryPassInEveryPrecisionIsTheSumOfItsProducts) {
  for (const MatmulPrecision precision :
       {MatmulPrecision::kBf16, MatmulPrecision::kFp16, MatmulPrecision::kFp8}) {
    if (precision == MatmulPrecision::kFp8 && compute_capability() < 89) {
      continue;
    }
    for (const MatmulLayout layout :
         {MatmulLayout::kForward, MatmulLayout::kInputGradient, MatmulLayout::kWeightGradient}) {
      // The operands are exact: what is left is the sum's rounding and the output's.
      EXPECT_LT(error_of({128, 192, 256, layout, {}, precision}), 8e-3)
          << static_cast<int>(precision) << " " << static_cast<int>(layout);
    }
  }
}

// fp8 takes extents that are multiples of 16 alone; the device is as it was.
TEST_F(CudaMatmul, WhatHasNoAlgorithmIsToldApartAndHarmsNothing) {
  if (compute_capability() < 89) {
    GTEST_SKIP() << "no fp8 units";
  }
  EXPECT_THROW(error_of({128, 192, 250, MatmulLayout::kForward, {}, MatmulPrecision::kFp8}),
               UnsupportedMatmul);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_LT(error_of({128, 192, 256, MatmulLayout::kForward, {}, MatmulPrecision::kBf16}), 8e-3);
}

TEST_F(CudaMatmul, RandomOperandsSpreadOverTheirRangeInEveryFormat) {
  for (const NumberFormat format :
       {NumberFormat::kBf16, NumberFormat::kFp16, NumberFormat::kE4m3, NumberFormat::kE5m2}) {
    const DeviceBytes memory = bench_.random((std::size_t{1} << 16) * bytes_of(format), format);
    ASSERT_EQ(cudaStreamSynchronize(bench_.stream()), cudaSuccess);
    double sum = 0;
    double squares = 0;
    const std::vector<double> values = values_of(memory, format);
    for (const double value : values) {
      ASSERT_LE(std::abs(value), 1.0);
      sum += value;
      squares += value * value;
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 0.02);
    EXPECT_NEAR(squares / count, 1.0 / 3, 0.02);
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
