// Every row of core/kernels.h on the GPU against the CPU reference in double, on random inputs
// rounded to what the GPU is given. Outputs are poisoned first, so that an element nobody wrote
// shows.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/program.h"
#include "runtime/cpu/compute.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {
namespace {

enum class Fill { kNormal, kPositive, kToken, kPoison, kOnes };

struct OperandCase {
  ElementType type;
  std::int64_t count;
  Fill fill = Fill::kNormal;
  double scale = 1.0;
};

struct KernelCase {
  Kernel kernel;
  std::vector<std::int64_t> dims;
  std::vector<OperandCase> operands;
  std::int64_t token_limit = 1;
  std::vector<std::size_t> aliases =
      {};  // operand i shares operand aliases[i]'s memory; empty: none
};

constexpr ElementType kC = ElementType::kCompute;
constexpr ElementType kM = ElementType::kMaster;
constexpr ElementType kT = ElementType::kToken;

double rounded(double value, ElementType type) {
  return type == kC ? static_cast<double>(__bfloat162float(__double2bfloat16(value)))
                    : static_cast<double>(static_cast<float>(value));
}

std::vector<double> values_of(const OperandCase& operand, std::mt19937& random) {
  std::normal_distribution<double> normal(0.0, operand.scale);
  std::vector<double> values(static_cast<std::size_t>(operand.count));
  for (double& value : values) {
    const double draw = normal(random);
    switch (operand.fill) {
      case Fill::kNormal:
        value = rounded(draw, operand.type);
        break;
      case Fill::kPositive:
        value = rounded(std::abs(draw) + 0.1, operand.type);
        break;
      case Fill::kOnes:
        value = 1.0;
        break;
      case Fill::kToken:
      case Fill::kPoison:
        value = operand.type == kM || operand.type == kC ? 777.0 : 0.0;
        break;
    }
  }
  return values;
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

void upload(const std::vector<double>& values, ElementType type, void* target) {
  if (type == kC) {
    std::vector<__nv_bfloat16> converted;
    for (const double value : values) {
      converted.push_back(__double2bfloat16(value));
    }
    cudaMemcpy(target, converted.data(), converted.size() * 2, cudaMemcpyHostToDevice);
  } else {
    std::vector<float> converted(values.begin(), values.end());
    cudaMemcpy(target, converted.data(), converted.size() * 4, cudaMemcpyHostToDevice);
  }
}

std::vector<double> download(const void* source, ElementType type, std::size_t count) {
  std::vector<double> values;
  if (type == kC) {
    std::vector<__nv_bfloat16> stored(count);
    cudaMemcpy(stored.data(), source, count * 2, cudaMemcpyDeviceToHost);
    for (const __nv_bfloat16 value : stored) {
      values.push_back(static_cast<double>(__bfloat162float(value)));
    }
  } else {
    std::vector<float> stored(count);
    cudaMemcpy(stored.data(), source, count * 4, cudaMemcpyDeviceToHost);
    values.assign(stored.begin(), stored.end());
  }
  return values;
}

// The statistics that a forward RMS norm of these rows would have kept.
std::vector<double> reciprocal_deviations(const std::vector<double>& x, std::int64_t rows) {
  std::vector<double> result;
  const std::size_t width = x.size() / static_cast<std::size_t>(rows);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    double squares = 0.0;
    for (std::size_t j = 0; j < width; ++j) {
      squares += x[row * width + j] * x[row * width + j];
    }
    result.push_back(1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-5));
  }
  return result;
}

RotaryTable table_of(std::int64_t width, double base, double scale, bool neighbours) {
  RotaryTable table{{}, scale, neighbours};
  for (std::int64_t j = 0; j < width / 2; ++j) {
    table.frequencies.push_back(
        std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(width)));
  }
  return table;
}

double relative_error(const std::vector<double>& value, const std::vector<double>& reference) {
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!std::isfinite(value[i])) {
      return std::numeric_limits<double>::infinity();
    }
    difference += (value[i] - reference[i]) * (value[i] - reference[i]);
    size += reference[i] * reference[i];
  }
  return std::sqrt(difference / (size + 1e-30));
}

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "no GPU";
    }
    program_.arithmetic.rotary = {table_of(64, 1e4, 1, false), table_of(64, 5e5, 1, false),
                                  table_of(22, 1e4, 1, false), table_of(32, 1e4, 1.2, true),
                                  table_of(10, 1e4, 1.2, false)};
  }

  // Runs the case on both and compares every operand that the kernel may write.
  void check(const KernelCase& test) {
    std::mt19937 random(42);
    Work work;
    work.kernel = test.kernel;
    for (std::size_t i = 0; i < test.dims.size(); ++i) {
      work.dims[i] = test.dims[i];
    }
    std::vector<std::vector<double>> host;
    std::vector<std::vector<std::int32_t>> tokens(test.operands.size());
    std::vector<std::unique_ptr<Device>> device;
    std::vector<View> cpu_views;
    std::vector<View> gpu_views;
    for (std::size_t i = 0; i < test.operands.size(); ++i) {
      const OperandCase& operand = test.operands[i];
      host.push_back(values_of(operand, random));
      device.push_back(std::make_unique<Device>(static_cast<std::size_t>(operand.count) * 4));
      if (test.kernel == Kernel::kRmsNormBackward && i == 3) {
        host[3] = reciprocal_deviations(host[1], operand.count);
      }
      if (operand.type == kT) {
        std::uniform_int_distribution<std::int32_t> pick(
            0, static_cast<std::int32_t>(test.token_limit - 1));
        tokens[i].resize(static_cast<std::size_t>(operand.count));
        for (std::int32_t& token : tokens[i]) {
          token = pick(random);
        }
        cudaMemcpy(device[i]->data(), tokens[i].data(), tokens[i].size() * 4,
                   cudaMemcpyHostToDevice);
      } else {
        upload(host[i], operand.type, device[i]->data());
      }
    }
    for (std::size_t i = 0; i < test.operands.size(); ++i) {
      const OperandCase& operand = test.operands[i];
      const std::size_t at = test.aliases.empty() ? i : test.aliases[i];
      void* data = operand.type == kT ? static_cast<void*>(tokens[i].data()) : host[at].data();
      cpu_views.push_back({data, operand.count, operand.type, BufferId(0)});
      gpu_views.push_back({device[at]->data(), operand.count, operand.type, BufferId(0)});
    }
    cpu::ComputeContext reference{&program_, Rank(0), settings_};
    cpu::run_kernel<double>(reference, work, cpu_views);
    Device workspace(MatmulLibrary::kWorkspaceBytes);
    const std::size_t scratch_bytes = scratch_bytes_of(work) + 16;
    Device scratch(scratch_bytes);
    run_kernel({&program_, Rank(0), &settings_, &matmuls_, &attention_, nullptr, workspace.data(),
                static_cast<std::byte*>(scratch.data()), scratch_bytes},
               work, gpu_views);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::string_view access = signature_of(test.kernel).access;
    std::size_t place = 0;
    for (const char letter : access) {
      if (letter != 'r' && letter != 'w' && letter != 'u' && letter != 'a') {
        continue;
      }
      const std::size_t i = place++;
      if (letter == 'r' || test.operands[i].type == kT) {
        continue;
      }
      const std::size_t at = test.aliases.empty() ? i : test.aliases[i];
      const auto got = download(device[at]->data(), test.operands[i].type, host[at].size());
      const double error = relative_error(got, host[at]);
      const double limit = test.operands[i].type == kC ? 8e-3 : 4e-3;
      EXPECT_LT(error, limit) << signature_of(test.kernel).name << " operand " << i;
    }
  }

  // Backward of attention needs the y and statistics of its own forward: the CPU's.
  void check_attention_backward(std::int64_t b, std::int64_t s, std::int64_t a, std::int64_t k,
                                std::int64_t d, std::int64_t window, std::int64_t v) {
    const std::int64_t rows = b * s;
    const std::int64_t width = (a + k) * d + k * v;
    std::mt19937 random(7);
    std::vector<double> qkv = values_of({kC, rows * width}, random);
    std::vector<double> dy = values_of({kC, rows * a * v}, random);
    std::vector<double> y(dy.size());
    std::vector<double> lse(static_cast<std::size_t>(rows * a));
    std::vector<double> dqkv(qkv.size());
    const auto view = [](std::vector<double>& values, ElementType type) {
      return View{values.data(), static_cast<std::int64_t>(values.size()), type, BufferId(0)};
    };
    Work work;
    work.dims = {b, s, a, k, d, window, v};
    work.kernel = Kernel::kAttentionForward;
    const cpu::ComputeContext reference{&program_, Rank(0), settings_};
    const std::vector<View> forward = {view(qkv, kC), view(y, kC), view(lse, kM)};
    cpu::run_kernel<double>(reference, work, forward);
    for (double& value : y) {
      value = rounded(value, kC);
    }
    work.kernel = Kernel::kAttentionBackward;
    const std::vector<View> backward = {view(dy, kC), view(qkv, kC), view(y, kC), view(lse, kM),
                                        view(dqkv, kC)};
    cpu::run_kernel<double>(reference, work, backward);
    std::vector<std::unique_ptr<Device>> device;
    std::vector<View> gpu_views;
    for (const View& host : backward) {
      device.push_back(std::make_unique<Device>(static_cast<std::size_t>(host.count) * 4));
      const auto* values = static_cast<const double*>(host.data);
      upload({values, values + host.count}, host.type, device.back()->data());
      gpu_views.push_back({device.back()->data(), host.count, host.type, BufferId(0)});
    }
    cudaMemset(device.back()->data(), 0x7f, dqkv.size() * 2);
    Device workspace(MatmulLibrary::kWorkspaceBytes);
    run_kernel({&program_, Rank(0), &settings_, &matmuls_, &attention_, nullptr, workspace.data(),
                nullptr, 0},
               work, gpu_views);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_LT(relative_error(download(device.back()->data(), kC, dqkv.size()), dqkv), 1.5e-2)
        << "attention_backward";
  }

  StepProgram program_;
  StepSettings settings_{.learning_rate = 1e-2, .weight_decay = 0.1, .max_norm = 1.0, .step = 3};
  MatmulLibrary matmuls_;
  AttentionLibrary attention_{matmuls_};
};

TEST_F(CudaKernels, Embeddings) {
  check({Kernel::kEmbeddingForward,
         {100, 64, 50, -1},
         {{kT, 100}, {kC, 3200}, {kC, 6400, Fill::kPoison}},
         50});
  check({Kernel::kEmbeddingBackward,
         {300, 64, 50, -1, 0},
         {{kT, 300}, {kC, 19200}, {kM, 3200, Fill::kPoison}},
         50});
  check(
      {Kernel::kEmbeddingBackward, {300, 64, 50, -1, 1}, {{kT, 300}, {kC, 19200}, {kM, 3200}}, 80});
  check({Kernel::kPositionForward, {64, 64, 32, 40, -1, -1}, {{kC, 4096}, {kC, 2560}}});
  check({Kernel::kPositionBackward,
         {64, 64, 32, 40, -1, -1, 0},
         {{kC, 4096}, {kM, 2560, Fill::kPoison}}});
}

TEST_F(CudaKernels, MatrixProducts) {
  for (const std::int64_t ta : {0, 1}) {
    for (const std::int64_t tb : {0, 1}) {
      check({Kernel::kMatmul,
             {96, 160, 64, ta, tb, 0},
             {{kC, 96 * 64}, {kC, 160 * 64}, {kC, 96 * 160, Fill::kPoison}}});
      check({Kernel::kMatmul,
             {96, 160, 64, ta, tb, 1},
             {{kC, 96 * 64}, {kC, 160 * 64}, {kM, 96 * 160}}});
    }
  }
}

TEST_F(CudaKernels, Norms) {
  const std::int64_t t = 37;
  const std::int64_t h = 512;
  check({Kernel::kRmsNormForward,
         {t, h},
         {{kC, t * h}, {kC, h}, {kC, t * h, Fill::kPoison}, {kM, t, Fill::kPoison}}});
  check({Kernel::kLayerNormForward,
         {t, h},
         {{kC, t * h},
          {kC, h},
          {kC, h},
          {kC, t * h, Fill::kPoison},
          {kM, t, Fill::kPoison},
          {kM, t, Fill::kPoison}}});
  for (const std::int64_t accumulate : {0, 1}) {
    check({Kernel::kRmsNormBackward,
           {t, h, accumulate, 1},
           {{kC, t * h},
            {kC, t * h},
            {kC, h},
            {kM, t, Fill::kOnes},
            {kC, t * h},
            {kC, t * h, Fill::kPoison},
            {kM, h}}});
    check({Kernel::kRmsNormBackward,
           {t, h, accumulate, 0},
           {{kC, t * h},
            {kC, t * h},
            {kC, h},
            {kM, t, Fill::kOnes},
            {kC, t * h},
            {kC, t * h, Fill::kPoison},
            {kM, h}},
           1,
           {0, 1, 2, 3, 0, 5, 6}});
  }
}

TEST_F(CudaKernels, RotaryAndHeadNorms) {
  const std::int64_t width = (4 + 2 * 2) * 64;
  check({Kernel::kRotaryForward, {64, 4, 2, 64, 32, 0, -1}, {{kC, 64 * width}}});
  check({Kernel::kRotaryBackward, {64, 4, 2, 64, 32, 1, -1}, {{kC, 64 * width}}});
  // A head size that is no multiple of four: the last of each half was never turned.
  const std::int64_t odd_half = (4 + 2 * 2) * 22;
  check({Kernel::kRotaryForward, {64, 4, 2, 22, 32, 2, -1}, {{kC, 64 * odd_half}}});
  check({Kernel::kRotaryBackward, {64, 4, 2, 22, 32, 2, -1}, {{kC, 64 * odd_half}}});
  // A part of each head: neighbours, and halves of an odd number of pairs.
  for (const std::int64_t table : {3, 4}) {
    check({Kernel::kRotaryForward, {64, 4, 2, 64, 32, table, -1}, {{kC, 64 * width}}});
    check({Kernel::kRotaryBackward, {64, 4, 2, 64, 32, table, -1}, {{kC, 64 * width}}});
  }
  program_.arithmetic.norm_epsilon = 0.1;
  program_.arithmetic.norm_plus_one = true;
  check({Kernel::kHeadNormForward,
         {64, 4, 2, 64},
         {{kC, 64 * width},
          {kC, 64},
          {kC, 64},
          {kC, 64 * width, Fill::kPoison},
          {kM, 64 * 6, Fill::kPoison}}});
}

TEST_F(CudaKernels, LatentHeads) {
  const std::int64_t t = 70;
  const std::int64_t a = 5;
  for (const std::int64_t table : {3, -1}) {  // nope 48, rope 32, value 40
    const std::vector<std::int64_t> dims = {t, a, 48, 32, 40, 35, table, -1};
    check({Kernel::kLatentHeadsForward,
           dims,
           {{kC, t * a * 80}, {kC, t * a * 88}, {kC, t * 32}, {kC, t * a * 200, Fill::kPoison}}});
    check({Kernel::kLatentHeadsBackward,
           dims,
           {{kC, t * a * 200},
            {kC, t * a * 80, Fill::kPoison},
            {kC, t * a * 88, Fill::kPoison},
            {kC, t * 32, Fill::kPoison}}});
  }
}

// What a model's function says beside a plain Llama's.
TEST_F(CudaKernels, NumbersOfTheFunction) {
  Arithmetic& a = program_.arithmetic;
  a.norm_epsilon = 0.1;
  a.norm_plus_one = true;
  a.embedding_multiplier = 11.3;
  a.residual_multiplier = 0.22;
  a.logit_multiplier = 0.5;
  a.logit_cap = 3;
  const std::int64_t t = 37;
  const std::int64_t h = 512;
  check({Kernel::kRmsNormForward,
         {t, h},
         {{kC, t * h}, {kC, h}, {kC, t * h, Fill::kPoison}, {kM, t, Fill::kPoison}}});
  check({Kernel::kLayerNormForward,
         {t, h},
         {{kC, t * h},
          {kC, h},
          {kC, h},
          {kC, t * h, Fill::kPoison},
          {kM, t, Fill::kPoison},
          {kM, t, Fill::kPoison}}});
  check({Kernel::kEmbeddingForward,
         {100, 64, 50, -1},
         {{kT, 100}, {kC, 3200}, {kC, 6400, Fill::kPoison}},
         50});
  check({Kernel::kEmbeddingBackward,
         {300, 64, 50, -1, 0},
         {{kT, 300}, {kC, 19200}, {kM, 3200, Fill::kPoison}},
         50});
  check({Kernel::kScale, {1003}, {{kC, 1003}, {kC, 1003, Fill::kPoison}}});
  for (const std::int64_t columns : {1000, 1003}) {
    check({Kernel::kLogitStatistics,
           {70, columns, columns - 9, -1},
           {{kC, 70 * columns, Fill::kNormal, 6.0},
            {kT, 70},
            {kM, 70, Fill::kPoison},
            {kM, 140, Fill::kPoison}},
           columns - 9});
    check({Kernel::kCrossEntropyBackward,
           {70, columns, columns - 9, -1, 70},
           {{kC, 70 * columns, Fill::kNormal, 6.0},
            {kM, 70, Fill::kPositive},
            {kM, 140, Fill::kPositive, 100.0},
            {kT, 70}},
           columns - 9});
  }
}

TEST_F(CudaKernels, EveryActivation) {
  for (const Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kRelu, Activation::kRelu2, Activation::kQuickGelu}) {
    SCOPED_TRACE(to_string(act));
    program_.arithmetic.activation = act;
    check({Kernel::kSwigluForward, {40, 320}, {{kC, 40 * 640}, {kC, 40 * 320, Fill::kPoison}}});
    check({Kernel::kSwigluBackward,
           {40, 320},
           {{kC, 40 * 320}, {kC, 40 * 640}, {kC, 40 * 640, Fill::kPoison}}});
    check({Kernel::kGeluForward, {40, 321}, {{kC, 40 * 321}, {kC, 40 * 321, Fill::kPoison}}});
    check({Kernel::kGeluBackward,
           {40, 321},
           {{kC, 40 * 321}, {kC, 40 * 321}, {kC, 40 * 321, Fill::kPoison}}});
  }
}

TEST_F(CudaKernels, ActivationsAndBiases) {
  check({Kernel::kSwigluForward, {40, 320}, {{kC, 40 * 640}, {kC, 40 * 320, Fill::kPoison}}});
  check({Kernel::kSwigluBackward,
         {40, 320},
         {{kC, 40 * 320}, {kC, 40 * 640}, {kC, 40 * 640, Fill::kPoison}}});
  check({Kernel::kGeluForward, {40, 320}, {{kC, 40 * 320}, {kC, 40 * 320, Fill::kPoison}}});
  check({Kernel::kGeluBackward,
         {40, 320},
         {{kC, 40 * 320}, {kC, 40 * 320}, {kC, 40 * 320, Fill::kPoison}}});
  check({Kernel::kBiasForward, {40, 320}, {{kC, 40 * 320}, {kC, 320}}});
  check({Kernel::kBiasBackward, {400, 320, 0}, {{kC, 400 * 320}, {kM, 320, Fill::kPoison}}});
  check({Kernel::kBiasBackward, {400, 320, 1}, {{kC, 400 * 320}, {kM, 320}}});
  check({Kernel::kAdd, {1003}, {{kM, 1003}, {kC, 1003}}});
  check({Kernel::kAdd, {1003}, {{kC, 1003}, {kC, 1003}}});
  check({Kernel::kCast, {1003}, {{kM, 1003}, {kC, 1003, Fill::kPoison}}});
  check({Kernel::kZero, {1003}, {{kM, 1003, Fill::kPoison}}});
}

TEST_F(CudaKernels, CrossEntropy) {
  for (const std::int64_t columns : {1000, 1003}) {
    const std::int64_t t = 70;
    check({Kernel::kLogitStatistics,
           {t, columns, columns - 9, -1},
           {{kC, t * columns, Fill::kNormal, 3.0},
            {kT, t},
            {kM, t, Fill::kPoison},
            {kM, 2 * t, Fill::kPoison}},
           columns - 9});
    check({Kernel::kCrossEntropyBackward,
           {t, columns, columns - 9, -1, 70},
           {{kC, t * columns},
            {kM, t, Fill::kPositive},
            {kM, 2 * t, Fill::kPositive, 100.0},
            {kT, t}},
           columns - 9});
  }
  check({Kernel::kCrossEntropyLoss, {70, 70}, {{kM, 70}, {kM, 140, Fill::kPositive}, {kM, 1}}});
  check({Kernel::kStatisticsRescale,
         {70},
         {{kM, 70}, {kM, 70, Fill::kPositive}, {kM, 140, Fill::kPositive}}});
}

TEST_F(CudaKernels, Optimizer) {
  const std::int64_t n = 4099;
  check({Kernel::kSquaredNorm, {n, -1, 1000, 2, 4}, {{kM, n}, {kM, 1}}});
  check({Kernel::kClipFactor,
         {},
         {{kM, 1, Fill::kPositive, 9.0}, {kM, 1, Fill::kPoison}, {kM, 1, Fill::kPoison}}});
  check({Kernel::kAdamw,
         {n},
         {{kM, n}, {kM, 1, Fill::kPositive}, {kM, n}, {kM, n}, {kM, n, Fill::kPositive}}});
  check({Kernel::kAdamwCast,
         {n},
         {{kM, n},
          {kM, 1, Fill::kPositive},
          {kM, n},
          {kM, n},
          {kM, n, Fill::kPositive},
          {kC, n, Fill::kPoison}}});
}

struct AttentionShapeCase {
  std::int64_t b, s, a, k, d, window, v;
  double cap = 0;
};

// Forward by the CPU, then both backward passes from the same y and statistics.
TEST_F(CudaKernels, Attention) {
  for (const AttentionShapeCase& c :
       {AttentionShapeCase{2, 256, 4, 4, 64, 0, 64}, AttentionShapeCase{1, 256, 8, 2, 128, 0, 128},
        AttentionShapeCase{1, 128, 4, 2, 64, 32, 64}, AttentionShapeCase{1, 96, 2, 1, 32, 0, 32},
        AttentionShapeCase{2, 256, 4, 4, 192, 0, 128}, AttentionShapeCase{1, 128, 4, 4, 96, 0, 64},
        AttentionShapeCase{2, 256, 4, 2, 64, 0, 64, 1.5},
        AttentionShapeCase{1, 128, 4, 2, 64, 32, 64, 1.5}}) {
    const std::int64_t rows = c.b * c.s;
    const std::int64_t width = (c.a + c.k) * c.d + c.k * c.v;
    program_.arithmetic.attention_cap = c.cap;
    program_.arithmetic.attention_scale = c.cap > 0 ? 0.3 : 0;
    const std::string path =
        attention_.path({c.b, c.s, c.a, c.k, c.d, c.window, c.v,
                         c.cap > 0 ? 0.3 : 1.0 / std::sqrt(static_cast<double>(c.d)), c.cap});
    std::printf("attention b%ld s%ld a%ld k%ld d%ld window %ld v%ld cap %g: %s\n", c.b, c.s, c.a,
                c.k, c.d, c.window, c.v, c.cap, path.c_str());
    check({Kernel::kAttentionForward,
           {c.b, c.s, c.a, c.k, c.d, c.window, c.v},
           {{kC, rows * width},
            {kC, rows * c.a * c.v, Fill::kPoison},
            {kM, rows * c.a, Fill::kPoison}}});
    check_attention_backward(c.b, c.s, c.a, c.k, c.d, c.window, c.v);
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
