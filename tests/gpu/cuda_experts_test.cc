// The kernels of routed experts and of context parallelism on the GPU against the CPU reference in
// double, on the same operands. What a kernel may write is poisoned first.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "core/program.h"
#include "runtime/cpu/compute.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/expert_products.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {
namespace {

constexpr ElementType kC = ElementType::kCompute;
constexpr ElementType kM = ElementType::kMaster;
constexpr ElementType kT = ElementType::kToken;

struct Value {
  ElementType type = kC;
  std::vector<double> values;        // as the GPU has them
  std::vector<std::int32_t> tokens;  // of type token
};

double rounded(double value, ElementType type) {
  return type == kC ? static_cast<double>(__bfloat162float(__double2bfloat16(value)))
                    : static_cast<double>(static_cast<float>(value));
}

Value tokens(std::vector<std::int32_t> values) {
  return {kT, {}, std::move(values)};
}
Value poison(ElementType type, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  return type == kT ? tokens(std::vector<std::int32_t>(size, -7))
                    : Value{type, std::vector<double>(size, 776.0), {}};
}

class Device {
 public:
  explicit Device(std::size_t bytes) { EXPECT_EQ(cudaMalloc(&data_, bytes), cudaSuccess); }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

void upload(const Value& value, void* target) {
  if (value.type == kC) {
    std::vector<__nv_bfloat16> stored;
    for (const double v : value.values) {
      stored.push_back(__double2bfloat16(v));
    }
    cudaMemcpy(target, stored.data(), stored.size() * 2, cudaMemcpyHostToDevice);
  } else if (value.type == kM) {
    const std::vector<float> stored(value.values.begin(), value.values.end());
    cudaMemcpy(target, stored.data(), stored.size() * 4, cudaMemcpyHostToDevice);
  } else {
    cudaMemcpy(target, value.tokens.data(), value.tokens.size() * 4, cudaMemcpyHostToDevice);
  }
}

void download(const void* source, Value& value) {
  if (value.type == kC) {
    std::vector<__nv_bfloat16> stored(value.values.size());
    cudaMemcpy(stored.data(), source, stored.size() * 2, cudaMemcpyDeviceToHost);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      value.values[i] = static_cast<double>(__bfloat162float(stored[i]));
    }
  } else if (value.type == kM) {
    std::vector<float> stored(value.values.size());
    cudaMemcpy(stored.data(), source, stored.size() * 4, cudaMemcpyDeviceToHost);
    value.values.assign(stored.begin(), stored.end());
  } else {
    cudaMemcpy(value.tokens.data(), source, value.tokens.size() * 4, cudaMemcpyDeviceToHost);
  }
}

// A role with one product of experts, so that its fourth operand's counts come to the host.
Program role_of_counts(std::size_t operands, std::int64_t counts) {
  Program role;
  role.works.push_back({Kernel::kExpertMatmul, {}, Flop(0), Bytes(0)});
  Op op;
  op.kind = Compute{0};
  op.operands = {0, static_cast<std::uint32_t>(operands)};
  for (std::uint32_t i = 0; i < operands; ++i) {
    role.operands.push_back({BufferId(i), kNoGroup, 0, 1});
    role.buffers.push_back({0, -1, -1, counts, kT, false});
  }
  role.ops.push_back(op);
  return role;
}

class CudaExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "no GPU";
    }
    program_.ranks = 2;
    program_.groups = {{"context", {{2, 1, 2}}}};
  }

  Value normal(ElementType type, std::int64_t count, double scale = 1.0) {
    std::normal_distribution<double> draw(0.0, scale);
    Value value{type, std::vector<double>(static_cast<std::size_t>(count)), {}};
    for (double& v : value.values) {
      v = rounded(draw(random_), type);
    }
    return value;
  }

  // Runs the kernel on both, compares what it may have written, and leaves the CPU's results in
  // `operands`, rounded to what a GPU holds.
  void check(Kernel kernel, const std::vector<std::int64_t>& dims, std::vector<Value>& operands,
             double tolerance = 1e-2) {
    Work work{kernel, {}, Flop(0), Bytes(0)};
    std::copy(dims.begin(), dims.end(), work.dims.begin());
    std::vector<Value> gpu = operands;
    run_on_gpu(work, gpu);
    std::vector<View> views;
    for (Value& value : operands) {
      void* data = value.type == kT ? static_cast<void*>(value.tokens.data()) : value.values.data();
      const std::size_t count = value.type == kT ? value.tokens.size() : value.values.size();
      views.push_back({data, static_cast<std::int64_t>(count), value.type, BufferId(0)});
    }
    cpu::run_kernel<double>({.program = &program_, .rank = rank_, .settings = {}}, work, views);
    const std::string_view access = signature_of(kernel).access;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      SCOPED_TRACE(std::string(signature_of(kernel).name) + " operand " + std::to_string(i));
      if (access[i] != 'r') {
        compare(gpu[i], operands[i], tolerance);
      }
      for (double& v : operands[i].values) {
        v = rounded(v, operands[i].type);
      }
    }
  }

  std::mt19937 random_{42};
  Rank rank_{0};

 protected:
  void run_on_gpu(const Work& work, std::vector<Value>& operands) {
    std::vector<std::unique_ptr<Device>> memory;
    std::vector<View> views;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::size_t count =
          operands[i].type == kT ? operands[i].tokens.size() : operands[i].values.size();
      memory.push_back(std::make_unique<Device>(count * 4));
      upload(operands[i], memory.back()->data());
      views.push_back({memory.back()->data(), static_cast<std::int64_t>(count), operands[i].type,
                       BufferId(static_cast<std::uint32_t>(i))});
    }
    const Program role = role_of_counts(operands.size() < 4 ? 4 : operands.size(),
                                        static_cast<std::int64_t>(operands.back().tokens.size()));
    HostCounts counts(role);
    if (work.kernel == Kernel::kExpertMatmul) {
      counts.mirror(views[3], nullptr);
    }
    const Device workspace(MatmulLibrary::kWorkspaceBytes);
    run_kernel({&program_, rank_, &settings_, &matmuls_, &attention_, nullptr, workspace.data(),
                nullptr, 0, &counts},
               work, views);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      download(memory[i]->data(), operands[i]);
    }
  }

  static void compare(const Value& gpu, const Value& reference, double tolerance) {
    EXPECT_EQ(gpu.tokens, reference.tokens);
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < gpu.values.size(); ++i) {
      difference += std::pow(gpu.values[i] - reference.values[i], 2);
      size += std::pow(reference.values[i], 2);
    }
    const double error = std::sqrt(difference / (size + 1e-30));
    EXPECT_LE(error, tolerance);
    EXPECT_TRUE(std::isfinite(error));
  }

  StepProgram program_;
  StepSettings settings_;
  MatmulLibrary matmuls_;
  AttentionLibrary attention_{matmuls_};
};

constexpr std::int64_t kTokens = 67;
constexpr std::int64_t kChosen = 3;
constexpr std::int64_t kWidth = 72;

TEST_F(CudaExperts, ChooseTheSameExperts) {
  for (const std::int64_t experts : {8, 40, 256}) {
    for (const std::int64_t sigmoid : {0, 1}) {
      std::vector<Value> forward = {normal(kM, kTokens * experts), normal(kC, experts, 0.1),
                                    poison(kM, kTokens * kChosen), poison(kT, kTokens * kChosen)};
      check(Kernel::kRouteForward, {kTokens, experts, kChosen, sigmoid, sigmoid}, forward, 1e-5);
      std::vector<Value> backward = {normal(kM, kTokens * kChosen), forward[2], forward[3],
                                     forward[0], poison(kC, kTokens * experts)};
      check(Kernel::kRouteBackward, {kTokens, experts, kChosen, sigmoid}, backward);
    }
  }
}

// Weights as they are, scaled, and of the best groups only.
TEST_F(CudaExperts, ChooseTheSameExpertsOfTheBestGroups) {
  Arithmetic& a = program_.arithmetic;
  a.router_scale = 2.5;
  a.router_groups_chosen = 3;
  for (const std::int64_t experts : {8, 40, 256}) {
    for (const std::int64_t sigmoid : {0, 1}) {
      for (const int kind : {0, 1, 2}) {
        a.router_normalises = kind == 0;
        a.router_groups = kind == 0 ? 0 : 8;
        a.router_groups_by_two = kind == 1;
        std::vector<Value> forward = {normal(kM, kTokens * experts), normal(kC, experts, 0.1),
                                      poison(kM, kTokens * kChosen), poison(kT, kTokens * kChosen)};
        check(Kernel::kRouteForward, {kTokens, experts, kChosen, sigmoid, sigmoid}, forward, 1e-5);
        std::vector<Value> backward = {normal(kM, kTokens * kChosen), forward[2], forward[3],
                                       forward[0], poison(kC, kTokens * experts)};
        check(Kernel::kRouteBackward, {kTokens, experts, kChosen, sigmoid}, backward);
      }
    }
  }
}

TEST_F(CudaExperts, SortMoveAndCombineRows) {
  const std::int64_t slots = kTokens * kChosen;
  const std::int64_t experts = 8;
  std::vector<std::int32_t> chosen;
  for (std::int64_t i = 0; i < slots; ++i) {
    chosen.push_back(static_cast<std::int32_t>(random_() % 7));  // nobody chooses the last
  }
  std::vector<Value> places = {tokens(chosen), poison(kT, slots), poison(kT, experts)};
  check(Kernel::kExpertPlaces, {slots, experts}, places);
  std::vector<Value> permute = {normal(kC, kTokens * kWidth), places[1],
                                poison(kC, slots * kWidth)};
  check(Kernel::kPermuteRows, {kTokens, kChosen, kWidth}, permute, 0.0);
  const Value rows = normal(kC, slots * kWidth);
  const Value weights = normal(kM, slots);
  for (const std::int64_t weighted : {0, 1}) {
    std::vector<Value> combine = {rows, places[1], weights, poison(kC, kTokens * kWidth)};
    check(Kernel::kCombineRows, {kTokens, kChosen, kWidth, weighted}, combine);
  }
  std::vector<Value> backward = {normal(kC, kTokens * kWidth),
                                 rows,
                                 places[1],
                                 weights,
                                 poison(kC, slots * kWidth),
                                 poison(kM, slots)};
  check(Kernel::kCombineBackward, {kTokens, kChosen, kWidth}, backward);
}

// Two senders, three experts, one of which gets nothing from one of them and one nothing at all.
const std::vector<std::int32_t> kCounts = {5, 0, 33, 130, 0, 2};
constexpr std::int64_t kRows = 170;

TEST_F(CudaExperts, RegroupRowsBothWays) {
  for (const std::int64_t inverse : {0, 1}) {
    std::vector<Value> regroup = {normal(kC, 200 * kWidth), tokens(kCounts),
                                  poison(kC, 200 * kWidth)};
    check(Kernel::kRegroupRows, {kRows, kWidth, 2, 3, inverse}, regroup, 0.0);
  }
}

TEST_F(CudaExperts, MultiplyEachExpertsRows) {
  const std::int64_t in = 64;
  const std::int64_t out = 96;
  const Value counts = tokens(kCounts);
  for (const std::int64_t transposed : {0, 1}) {
    std::vector<Value> product = {normal(kC, 200 * in), normal(kC, 3 * in * out),
                                  poison(kC, 200 * out), counts};
    check(Kernel::kExpertMatmul, {kRows, out, in, 0, transposed, 0, 2, 3}, product);
  }
  for (const std::int64_t accumulate : {0, 1}) {
    std::vector<Value> weight = {normal(kC, 200 * out), normal(kC, 200 * in),
                                 normal(kM, 3 * in * out), counts};
    check(Kernel::kExpertMatmul, {out, in, kRows, 1, 0, accumulate, 2, 3}, weight);
  }
}

// Rows that are no multiples of what a GPU loads at once: an expert after the other, on Hopper too.
TEST_F(CudaExperts, MultiplyEachExpertsRowsInTurn) {
  const Value counts = tokens(kCounts);
  std::vector<Value> product = {normal(kC, 170 * 60), normal(kC, 3 * 60 * 92), poison(kC, 170 * 92),
                                counts};
  check(Kernel::kExpertMatmul, {kRows, 92, 60, 0, 1, 0, 2, 3}, product);
  std::vector<Value> weight = {normal(kC, 170 * 92), normal(kC, 170 * 60), normal(kM, 3 * 60 * 92),
                               counts};
  check(Kernel::kExpertMatmul, {92, 60, kRows, 1, 0, 1, 2, 3}, weight);
}

// Forty experts in tiles that they share, some without rows; what lies behind the last row is no
// number.
TEST_F(CudaExperts, MultiplyTheRowsOfManyExperts) {
  const std::int64_t experts = 40;
  std::vector<std::int32_t> rows;
  std::int64_t all = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    rows.push_back(expert % 7 == 3 ? 0 : static_cast<std::int32_t>(random_() % 150));
    all += rows.back();
  }
  const Value counts = tokens(rows);
  const auto with_room = [&](std::int64_t width) {
    Value value = normal(kC, (all + 70) * width);
    std::fill(value.values.begin() + all * width, value.values.end(), std::nan(""));
    return value;
  };
  for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{264, 72}, {520, 200}}) {
    SCOPED_TRACE(out);
    for (const std::int64_t transposed : {0, 1}) {
      std::vector<Value> product = {with_room(in), normal(kC, experts * in * out),
                                    poison(kC, all * out), counts};
      check(Kernel::kExpertMatmul, {all, out, in, 0, transposed, 0, 1, experts}, product);
    }
    for (const ElementType type : {kM, kC}) {
      for (const std::int64_t accumulate : {0, 1}) {
        std::vector<Value> weight = {with_room(out), with_room(in),
                                     normal(type, experts * in * out), counts};
        check(Kernel::kExpertMatmul, {out, in, all, 1, 0, accumulate, 1, experts}, weight);
      }
    }
  }
}

// A choice of products must know it: work whose counts the host does not need.
TEST_F(CudaExperts, AreGroupedWhereTheGpuAndTheRowsAllowIt) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  Work work{Kernel::kExpertMatmul, {}, Flop(0), Bytes(0)};
  const Device memory(1 << 20);
  const auto grouped = [&](std::int64_t out, std::int64_t in) {
    work.dims = {kRows, out, in, 0, 1, 0, 2, 3};
    const std::array<View, 4> views = {View{memory.data(), kRows * in, kC, BufferId(0)},
                                       View{memory.data(), 3 * in * out, kC, BufferId(1)},
                                       View{memory.data(), kRows * out, kC, BufferId(2)},
                                       View{memory.data(), 6, kT, BufferId(3)}};
    return multiplies_grouped(work, views);
  };
  EXPECT_EQ(grouped(96, 64), major == 9);
  EXPECT_FALSE(grouped(96, 60));
  EXPECT_FALSE(grouped(92, 64));
}

TEST_F(CudaExperts, AttendOverSharedSequences) {
  const std::int64_t batch = 2;
  const std::int64_t sequence = 256;
  const std::int64_t heads = 4;
  const std::int64_t kv = 2;
  const std::int64_t size = 64;
  const std::int64_t own = batch * sequence / 2;
  const std::int64_t width = (heads + 2 * kv) * size;
  for (const std::uint32_t place : {0U, 1U}) {
    rank_ = Rank(place);
    std::vector<Value> forward = {normal(kC, own * width),
                                  normal(kC, batch * sequence * 2 * kv * size),
                                  poison(kC, own * heads * size), poison(kM, own * heads)};
    check(Kernel::kContextAttentionForward, {batch, sequence, heads, kv, size, 0, 0, 2}, forward);
    std::vector<Value> backward = {normal(kC, own * heads * size),
                                   forward[0],
                                   forward[1],
                                   forward[2],
                                   forward[3],
                                   poison(kC, own * width),
                                   poison(kC, batch * sequence * 2 * kv * size)};
    check(Kernel::kContextAttentionBackward, {batch, sequence, heads, kv, size, 0, 0, 2}, backward,
          2e-2);
  }
}

// Own keys, those of an earlier member and those of a later one; heads alike, and values narrower.
TEST_F(CudaExperts, AttendRoundARing) {
  const std::int64_t batch = 2;
  const std::int64_t tokens = 256;
  const std::int64_t heads = 4;
  struct Heads {
    std::int64_t kv, size, value;
  };
  for (const Heads& h : {Heads{2, 64, 64}, Heads{4, 128, 128}, Heads{1, 128, 128}}) {
    const std::int64_t width = (heads + h.kv) * h.size + h.kv * h.value;
    const std::int64_t keys = batch * tokens * h.kv * (h.size + h.value);
    const std::int64_t out = batch * tokens * heads * h.value;
    for (const std::uint32_t place : {0U, 1U}) {
      rank_ = Rank(place);
      const Value qkv = normal(kC, batch * tokens * width);
      Value sum = poison(kM, out);
      Value all = poison(kM, batch * tokens * heads);
      std::array<Value, 2> brought;
      for (const std::int64_t step : {0, 1}) {
        const auto at = static_cast<std::size_t>(step);
        brought[at] = normal(kC, keys);
        std::vector<Value> forward = {qkv, brought[at], normal(kC, out),
                                      normal(kM, batch * tokens * heads)};
        check(Kernel::kRingAttentionForward, {batch, tokens, heads, h.kv, h.size, h.value, 0, step},
              forward);
        std::vector<Value> merge = {forward[2], forward[3], sum, all};
        check(Kernel::kRingMerge, {batch, tokens, heads, h.value, 0, step, step}, merge);
        sum = merge[2];
        all = merge[3];
      }
      Value y = sum;
      y.type = kC;
      for (double& v : y.values) {
        v = rounded(v, kC);
      }
      for (const std::int64_t step : {0, 1}) {
        std::vector<Value> backward = {normal(kC, out),
                                       qkv,
                                       brought[static_cast<std::size_t>(step)],
                                       y,
                                       all,
                                       normal(kC, batch * tokens * width),
                                       poison(kC, keys)};
        check(Kernel::kRingAttentionBackward,
              {batch, tokens, heads, h.kv, h.size, h.value, 0, step}, backward, 2e-2);
      }
    }
  }
}

TEST_F(CudaExperts, KeysAndPositionsOfSharedSequences) {
  const std::int64_t heads = 4;
  const std::int64_t kv = 2;
  const std::int64_t size = 16;
  const std::int64_t rows = 24;
  const std::int64_t width = (heads + 2 * kv) * size;
  std::vector<Value> out = {normal(kC, rows * width), poison(kC, rows * 2 * kv * size)};
  check(Kernel::kKeysOut, {rows, heads, kv, size, size}, out, 0.0);
  std::vector<Value> in = {out[1], normal(kC, rows * width)};
  check(Kernel::kKeysIn, {rows, heads, kv, size, size}, in);
  for (const std::int64_t inverse : {0, 1}) {
    std::vector<Value> order = {normal(kC, 3 * 16 * 2 * kv * size),
                                poison(kC, 3 * 16 * 2 * kv * size)};
    check(Kernel::kRowsInOrder, {3, 16, 2 * kv * size, 2, inverse}, order, 0.0);
    std::vector<Value> spread = {normal(kC, rows * width), poison(kC, rows * width)};
    check(Kernel::kSpreadHeads, {rows, heads, kv, size, 2, inverse, size}, spread, 0.0);
    std::vector<Value> queries = {normal(kC, rows * heads * size), poison(kC, rows * heads * size)};
    check(Kernel::kSpreadHeads, {rows, heads, 0, size, 2, inverse, size}, queries, 0.0);
  }
  program_.arithmetic.rotary = {{{1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003}, 1, false}};
  for (const std::uint32_t place : {0U, 1U}) {
    rank_ = Rank(place);
    std::vector<Value> rotary = {normal(kC, rows * width)};
    check(Kernel::kRotaryForward, {rows, heads, kv, size, 16, 0, 0}, rotary);
    std::vector<Value> position = {normal(kC, rows * 32), normal(kC, 20 * 32)};
    check(Kernel::kPositionForward, {rows, 32, 16, 20, -1, 0}, position);
    std::vector<Value> gradient = {normal(kC, rows * 32), poison(kM, 20 * 32)};
    check(Kernel::kPositionBackward, {rows, 32, 16, 20, -1, 0, 0}, gradient);
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
